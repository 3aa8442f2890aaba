package shim_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// The shim waits in every container of a pod: what it imports is held to a list.
func TestDependencies(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", "github.com/nohuddle/nohuddle/cmd/nohuddle-shim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	must(t, err)
	allowed := map[string]bool{
		"github.com/nohuddle/nohuddle/cmd/nohuddle-shim":      true,
		"github.com/nohuddle/nohuddle/internal/shim":          true,
		"github.com/nohuddle/nohuddle/internal/shim/protocol": true,
		"golang.org/x/sys/unix":                               true,
	}
	for line := range strings.Lines(string(out)) {
		path, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case standard != "true" && !allowed[path]:
			t.Errorf("the shim imports %s", path)
		case path == "net" || strings.HasPrefix(path, "net/") || path == "log/slog" || path == "os/exec" || strings.HasPrefix(path, "crypto"):
			t.Errorf("the shim imports %s, which is large", path)
		}
	}
}

func TestBinarySize(t *testing.T) {
	info, err := os.Stat(binary(t))
	must(t, err)
	const limit = 4 << 20
	if info.Size() > limit {
		t.Errorf("the shim has %d bytes, at most %d are allowed", info.Size(), limit)
	}
	t.Logf("%d bytes", info.Size())
}

// Parked, a shim is small, whatever it has run before and whatever happens in the other slots meanwhile.
func TestParkedMemory(t *testing.T) {
	const (
		resident = 4 << 10 // KiB
		private  = 1 << 10
	)
	p := newPod(t)
	slots := []string{"one", "two"} // pages of the binary are private to a shim that is alone with it
	shims := map[string]*running{}
	for _, slot := range slots {
		a := p.next(sh(slot, "head -c 30000000 /dev/zero; : "+strings.Repeat("x", 100<<10)))
		a.LogLimit = 1 << 20
		shims[slot] = p.start(slot, container{first: &a})
		want(t, p.result(a.Token), 0, "", "")
	}
	measure := func(when string) {
		t.Helper()
		for _, slot := range slots {
			m := settled(t, shims[slot].pid())
			t.Logf("%s, %s: %d KiB resident, %d KiB private", when, slot, m.resident, m.private)
			if m.resident > resident {
				t.Errorf("%s: %d KiB are resident, at most %d are allowed", when, m.resident, resident)
			}
			if m.private > private {
				t.Errorf("%s: %d KiB are private, at most %d are allowed", when, m.private, private)
			}
		}
	}
	for _, slot := range slots {
		shims[slot].parked(protocol.Token(slot, 1))
	}
	measure("after a play")
	for _, slot := range slots {
		want(t, p.run(slot, sh(slot+"-again", "head -c 30000000 /dev/zero; : "+strings.Repeat("x", 100<<10))), 0, "", "")
	}
	for _, slot := range slots {
		shims[slot].parked(protocol.Token(slot+"-again", 1))
	}
	measure("after two plays")
	for i := range 1000 {
		p.ended(fmt.Sprintf("other%d.1", i), 0, "")
	}
	measure("after a thousand results of other slots")
	for _, slot := range slots {
		seq := p.assign(slot, protocol.Assignment{})
		p.state(slot, seq, protocol.Parked)
		shims[slot].parked("")
	}
	measure("after an empty assignment")
}

// kib is memory of a process in KiB.
type kib struct{ resident, private int }

// settled is the memory of a process that has come to rest: a hundred looks at it find no change.
func settled(t *testing.T, pid int) kib {
	t.Helper()
	var last kib
	same := 0
	await(t, "the shim being at rest", func() bool {
		now := memory(t, pid)
		if now != last {
			last, same = now, 0
		}
		same++
		return same > 100
	})
	return last
}

// memory reads what the kernel says of a process.
func memory(t *testing.T, pid int) kib {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	must(t, err)
	defer f.Close()
	var m kib
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		n, err := strconv.Atoi(fields[1])
		must(t, err)
		switch fields[0] {
		case "Rss:":
			m.resident = n
		case "Private_Clean:", "Private_Dirty:":
			m.private += n
		}
	}
	return m
}
