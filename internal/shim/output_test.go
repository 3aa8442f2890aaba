package shim_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// CASES.md 27: 30 MB of output come through byte by byte, in both copies, and the shim stays small meanwhile.
func TestFastOutput(t *testing.T) {
	p := newPod(t)
	data := make([]byte, 30_000_000)
	for i, x := 0, uint32(1); i < len(data); i++ {
		x = x*1664525 + 1013904223 // any bytes, invalid UTF-8 and NUL among them
		data[i] = byte(x >> 24)
	}
	must(t, os.WriteFile(p.work+"/data", data, 0o644))
	r := p.start("one", container{})
	p.assign("one", sh("play", "cat data; touch written; "+until("go")))
	p.appears("written")
	peak := highWater(t, r.pid())
	t.Logf("peak %d KiB", peak)
	if peak > 16<<10 {
		t.Errorf("the shim took %d KiB", peak)
	}
	p.touch("go")
	result := p.result("play.1")
	want(t, result, 0, "", "")
	if result.LogDropped != 0 {
		t.Errorf("%d bytes were dropped", result.LogDropped)
	}
	same(t, "log", p.log("play.1"), data)
	same(t, "container's log", r.output(), data)
}

func same(t *testing.T, what, got string, wanted []byte) {
	t.Helper()
	if bytes.Equal([]byte(got), wanted) {
		return
	}
	i := 0
	for i < len(got) && i < len(wanted) && got[i] == wanted[i] {
		i++
	}
	t.Errorf("the %s has %d bytes, want %d; they differ from %d on", what, len(got), len(wanted), i)
}

// highWater is the most memory that a process has had, in KiB.
func highWater(t *testing.T, pid int) int {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(v), " kB"))
			must(t, err)
			return n
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// CASES.md 27: whatever the bytes are.
func TestOutputIsKeptByteByByte(t *testing.T) {
	tests := map[string][]byte{
		"invalid UTF-8":           []byte("\xff\xfe a \xc3( \xed\xa0\x80\n"),
		"no final newline":        []byte("line\nno newline"),
		"carriage returns":        bytes.Repeat([]byte("50%\r"), 10_000_000/4),
		"a line of one MiB":       append(bytes.Repeat([]byte("x"), 1<<20), '\n'),
		"NUL":                     []byte("a\x00b\n"),
		"nothing":                 nil,
		"empty lines":             []byte("\n\n\n"),
		"what looks like masking": []byte("*** $$ %s {{x}} ${{ y }} \\"),
	}
	p := newPod(t)
	r := p.start("one", container{})
	var all []byte
	i := 0
	for name, data := range tests {
		i++
		token := fmt.Sprintf("p%d", i)
		must(t, os.WriteFile(p.work+"/"+token, data, 0o644))
		want(t, p.run("one", sh(token, "cat "+token)), 0, "", "")
		same(t, "log of "+name, p.log(token+".1"), data)
		all = append(all, data...)
	}
	same(t, "container's log", r.output(), all)
}

// Both outputs are in the log; each goes to its own stream of the container.
func TestStandardError(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	want(t, p.run("one", sh("play", "echo out; echo err >&2; sleep 0.1; echo out again")), 0, "", "")
	if got := r.output(); got != "out\nout again\n" {
		t.Errorf("stdout is %q", got)
	}
	if got := r.errors(); got != "err\n" {
		t.Errorf("stderr is %q", got)
	}
	log := p.log("play.1")
	if len(log) != len("out\nerr\nout again\n") || !strings.Contains(log, "out\n") || !strings.Contains(log, "err\n") {
		t.Errorf("the log is %q", log)
	}
}

// A play reads nothing from its standard input, and doesn't wait for it.
func TestStandardInputIsEmpty(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	want(t, p.run("one", sh("play", "cat; exit 3")), 3, "", "")
}

// CASES.md 27: a log that is cut says so, and by how much.
func TestLogLimit(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	a := sh("play", "head -c 30000 /dev/zero | tr '\\0' x")
	a.LogLimit = 10_000
	result := p.run("one", a)
	want(t, result, 0, "", "")
	if result.LogDropped != 20_000 {
		t.Errorf("%d bytes were dropped", result.LogDropped)
	}
	same(t, "log", p.log("play.1"), []byte(strings.Repeat("x", 10_000)+"\n[nohuddle: output truncated: 20000 bytes dropped]\n"))
	same(t, "container's log", r.output(), []byte(strings.Repeat("x", 30_000)))
	a = sh("exact", "head -c 10000 /dev/zero")
	a.LogLimit = 10_000
	if result := p.run("one", a); result.LogDropped != 0 || len(p.log("exact.1")) != 10_000 {
		t.Errorf("an output that just fits: %d bytes dropped, %d in the log", result.LogDropped, len(p.log("exact.1")))
	}
}

// The container's log may break; the play and its own log go on.
func TestClosedStandardOutput(t *testing.T) {
	p := newPod(t)
	read, write, err := os.Pipe()
	must(t, err)
	r := p.start("one", container{stdout: write})
	write.Close()
	p.state("one", 0, protocol.Parked)
	read.Close()
	want(t, p.run("one", sh("play", "head -c 1000000 /dev/zero; exit 3")), 3, "", "")
	if n := len(p.log("play.1")); n != 1_000_000 {
		t.Errorf("the log has %d bytes", n)
	}
	r.parked("play.1")
	want(t, p.run("one", sh("next", "echo x; exit 4")), 4, "", "")
}

// Started without standard streams at all, as by a runtime that closes them, no other file takes their place.
func TestNoStandardStreams(t *testing.T) {
	p := newPod(t)
	p.start("one", container{before: "exec <&- >&- 2>&-"})
	want(t, p.run("one", sh("play", "echo out; echo err >&2; exit 3")), 3, "", "")
	if log := p.log("play.1"); len(log) != len("out\nerr\n") {
		t.Errorf("the log is %q", log)
	}
}

// A container's log that nobody reads holds up the play, as it would without a shim, but not its end.
func TestUnreadStandardOutput(t *testing.T) {
	p := newPod(t)
	read, write, err := os.Pipe()
	must(t, err)
	defer read.Close()
	defer write.Close()
	r := p.start("one", container{stdout: write})
	a := sh("play", "head -c 1000000 /dev/zero; exit 3")
	a.TimeoutMillis = 300
	want(t, p.run("one", a), 143, protocol.Timeout, "timeout")
	p.state("one", p.seq, protocol.Parked)
	r.signal(syscall.SIGTERM)
	r.exits(143)
}

// Output that somebody else holds open is waited for a little, not for ever.
func TestPipeHeldOpen(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	p.assign("one", sh("play", "echo before; touch running; "+until("go")+"exit 4"))
	p.appears("running")
	pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", r.child().pid), os.O_WRONLY, 0)
	must(t, err)
	defer pipe.Close()
	p.touch("go")
	want(t, p.result("play.1"), 4, "", "")
	if log := p.log("play.1"); log != "before\n" {
		t.Errorf("the log is %q", log)
	}
}

// CASES.md 28: outputs come with the result.
func TestOutputs(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	r := p.run("one", sh("good", `echo reads=7 >> "$NOHUDDLE_OUTPUT"; printf 'text<<END\none\ntwo\nEND\n' >> "$NOHUDDLE_OUTPUT"`))
	want(t, r, 0, "", "")
	if len(r.Outputs) != 2 || r.Outputs["reads"] != "7" || r.Outputs["text"] != "one\ntwo" {
		t.Errorf("the outputs are %q", r.Outputs)
	}
	big := `printf "a=" > "$NOHUDDLE_OUTPUT"; head -c %d /dev/zero | tr '\0' x >> "$NOHUDDLE_OUTPUT"`
	for size, message := range map[int]string{
		4095: "", 4097: "", 32768: "",
		32769:   "output a has 32769 bytes, at most 32768 are allowed",
		65537:   "output a has 65537 bytes, at most 32768 are allowed",
		1 << 20: "$NOHUDDLE_OUTPUT has 1048578 bytes, an attempt's outputs may have 65536 together",
	} {
		r := p.run("one", sh(fmt.Sprintf("size%d", size), fmt.Sprintf(big, size)))
		if message != "" {
			want(t, r, 0, protocol.BadOutput, message)
			if r.Succeeded() || len(r.Outputs) != 0 {
				t.Errorf("%d: %v", size, r)
			}
			continue
		}
		want(t, r, 0, "", "")
		if len(r.Outputs["a"]) != size {
			t.Errorf("%d bytes came as %d", size, len(r.Outputs["a"]))
		}
	}
	want(t, p.run("one", sh("bad", `echo nothing >> "$NOHUDDLE_OUTPUT"`)), 0, protocol.BadOutput, `line 1 of $NOHUDDLE_OUTPUT is neither key=value nor key<<WORD: "nothing"`)
	want(t, p.run("one", sh("utf", `printf 'a=\377\n' >> "$NOHUDDLE_OUTPUT"`)), 0, protocol.BadOutput, "is not UTF-8")
	want(t, p.run("one", sh("fifo", `rm -f "$NOHUDDLE_OUTPUT"; mkfifo "$NOHUDDLE_OUTPUT"`)), 0, protocol.BadOutput, "is not a regular file")
	// A failure keeps its own exit code.
	want(t, p.run("one", sh("both", `echo nothing >> "$NOHUDDLE_OUTPUT"; exit 9`)), 9, "", "")
}
