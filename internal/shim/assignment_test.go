package shim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// volume is a downward-API volume as a kubelet writes it: the file is a link through ..data, which is a link to a
// directory with a time stamp, and is swapped by rename.
type volume struct {
	t   *testing.T
	dir string
	n   int
}

func (v *volume) write(name string, data []byte) {
	v.t.Helper()
	v.n++
	stamp := fmt.Sprintf("..2026_12_01_%d", v.n)
	must(v.t, os.Mkdir(filepath.Join(v.dir, stamp), 0o755))
	must(v.t, os.WriteFile(filepath.Join(v.dir, stamp, name), data, 0o644))
	must(v.t, os.Symlink(stamp, filepath.Join(v.dir, "..data_tmp")))
	must(v.t, os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
	if v.n == 1 {
		must(v.t, os.Symlink("..data/"+name, filepath.Join(v.dir, name)))
		return
	}
	must(v.t, os.RemoveAll(filepath.Join(v.dir, fmt.Sprintf("..2026_12_01_%d", v.n-1))))
}

// In a pod later assignments come through a downward-API volume.
func TestDownwardAPI(t *testing.T) {
	p := newPod(t)
	v := &volume{t: t, dir: t.TempDir()}
	v.write("slot", nil) // the annotation isn't there yet
	r := p.start("one", container{env: []string{protocol.EnvAssignmentFile + "=" + v.dir + "/slot"}})
	p.state("one", 0, protocol.Parked)
	for i := range 3 {
		a := p.next(sh(fmt.Sprintf("play%d", i), fmt.Sprintf("exit %d", i)))
		v.write("slot", encode(t, a))
		want(t, p.result(a.Token), i, "", "")
		p.state("one", a.Seq, protocol.Parked)
		if i == 1 {
			r.parked(a.Token) // and the image that is executed then watches it, too
		}
	}
	if text := r.errors(); text != "" {
		t.Errorf("stderr is %q", text)
	}
}

// An assignment that can't be read is told of and left; the last one counts.
func TestMalformedAssignmentFile(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	a := sh("play", "exit 3")
	a.Gate = []protocol.Need{{Token: "gate.1"}}
	seq := p.assign("one", a)
	p.state("one", seq, protocol.Waiting)
	for i, text := range []string{
		`{"seq":1000,"token":"other.1"`, `{"seq":1001,"token":"../other"}`, `no JSON`, `{"seq":1002,"gate":[{"token":"/"}]}`, `[]`, "\x00",
	} {
		p.put(protocol.AssignFile("one"), []byte(text))
		await(t, "a word about it", func() bool { return strings.Count(r.errors(), "ignoring ") > i })
	}
	must(t, os.Remove(filepath.Join(p.ctl, protocol.AssignFile("one"))))
	p.ended("gate.1", 0, "")
	want(t, p.result("play.1"), 3, "", "")
	p.state("one", seq, protocol.Parked)
}

// What the shim can't work with at all it says at once.
func TestBadEnvironment(t *testing.T) {
	tests := []struct {
		name    string
		env     []string
		code    int
		message string
	}{
		{"no slot", []string{protocol.EnvSlot + "="}, protocol.ExitConfig, "NOHUDDLE_SLOT is not set: the shim is started by nohuddle, not by hand"},
		{"malformed assignment", []string{protocol.EnvAssignment + "={"}, protocol.ExitConfig, "NOHUDDLE_ASSIGNMENT: the assignment is no JSON of its kind"},
		{"no control directory", []string{protocol.EnvControl + "=/no/such"}, protocol.ExitControl, "the directory /no/such can't be watched: no such file"},
		{"no directory of assignments", []string{protocol.EnvAssignmentFile + "=/no/such/file"}, protocol.ExitControl, "the directory /no/such can't be watched: no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newPod(t).start("one", container{env: tt.env})
			r.exits(tt.code)
			if text := r.errors(); !strings.Contains(text, tt.message) || strings.Count(text, "\n") != 1 {
				t.Errorf("stderr is %q, want one line with %q", text, tt.message)
			}
		})
	}
}
