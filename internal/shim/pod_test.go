package shim_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// patience bounds every wait of these tests.
const patience = 10 * time.Second

// pod is a control directory with shims on it. The test plays the engine.
type pod struct {
	t   *testing.T
	ctl string
	// work is a directory for the plays, and where the shims are started.
	work string
	seq  int64
}

func newPod(t *testing.T) *pod {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("the tests of the shim need namespaces and mounts: run them as root")
	}
	dir := t.TempDir()
	p := &pod{t: t, ctl: filepath.Join(dir, "ctl"), work: filepath.Join(dir, "work")}
	for _, d := range []string{p.ctl, p.work} {
		must(t, os.Mkdir(d, 0o777))
		must(t, os.Chmod(d, 0o777))
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // for shims of another user
		must(t, os.Chmod(d, 0o755))
	}
	return p
}

// next numbers an assignment.
func (p *pod) next(a protocol.Assignment) protocol.Assignment {
	p.seq++
	a.Seq = p.seq
	return a
}

// assign gives a slot its next assignment and returns its number.
func (p *pod) assign(slot string, a protocol.Assignment) int64 {
	p.t.Helper()
	a = p.next(a)
	p.put(protocol.AssignFile(slot), encode(p.t, a))
	return a.Seq
}

// run has a slot run an attempt and returns its result.
func (p *pod) run(slot string, a protocol.Assignment) protocol.Result {
	p.t.Helper()
	p.assign(slot, a)
	return p.result(a.Token)
}

// put renames a file into the control directory.
func (p *pod) put(name string, data []byte) {
	p.t.Helper()
	temp := filepath.Join(p.ctl, ".tmp-test-"+name)
	must(p.t, os.WriteFile(temp, data, 0o644))
	must(p.t, os.Rename(temp, filepath.Join(p.ctl, name)))
}

// ended puts a result into place as another slot's shim would.
func (p *pod) ended(token string, code int, reason protocol.Reason) {
	p.t.Helper()
	p.put(protocol.ResultFile(token), encode(p.t, protocol.Result{Token: token, ExitCode: code, Reason: reason}))
}

// result waits for the result of an attempt.
func (p *pod) result(token string) protocol.Result {
	p.t.Helper()
	var r protocol.Result
	await(p.t, "the result of "+token, func() bool {
		b, err := os.ReadFile(filepath.Join(p.ctl, protocol.ResultFile(token)))
		if err != nil {
			return false
		}
		r, err = protocol.DecodeResult(b)
		must(p.t, err)
		return true
	})
	if r.Token != token {
		p.t.Fatalf("the result of %s is of %q", token, r.Token)
	}
	return r
}

// state waits until a slot's shim has taken up an assignment and is in a phase.
func (p *pod) state(slot string, seq int64, phase protocol.Phase) protocol.State {
	p.t.Helper()
	var s protocol.State
	await(p.t, slot+" being "+string(phase), func() bool {
		b, err := os.ReadFile(filepath.Join(p.ctl, protocol.StateFile(slot)))
		if err != nil {
			return false
		}
		must(p.t, json.Unmarshal(b, &s))
		return s.Seq == seq && s.Phase == phase
	})
	return s
}

func (p *pod) has(name string) bool {
	_, err := os.Lstat(filepath.Join(p.ctl, name))
	return err == nil
}

func (p *pod) claimed(token string) bool { return p.has(protocol.ClaimFile(token)) }

// log is what an attempt's log holds.
func (p *pod) log(token string) string {
	p.t.Helper()
	return p.read(filepath.Join(p.ctl, protocol.LogFile(token)))
}

// read reads a file; a relative name is in the plays' directory.
func (p *pod) read(name string) string {
	p.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.work, name)
	}
	b, err := os.ReadFile(name)
	must(p.t, err)
	return string(b)
}

// appears waits for a file that a play makes in its directory.
func (p *pod) appears(name string) {
	p.t.Helper()
	await(p.t, name, func() bool {
		_, err := os.Stat(filepath.Join(p.work, name))
		return err == nil
	})
}

// touch makes a file that a play waits for.
func (p *pod) touch(name string) {
	p.t.Helper()
	must(p.t, os.WriteFile(filepath.Join(p.work, name), nil, 0o644))
}

// sh is an attempt of play that runs shell text.
func sh(play, text string) protocol.Assignment {
	return protocol.Assignment{
		Token: protocol.Token(play, 1), Drive: "drive", Play: play, Attempt: 1, GraceMillis: 10_000,
		Argv: []string{"/bin/sh", "-c", text},
	}
}

// until is shell text that waits for a file.
func until(name string) string { return "while ! [ -e " + name + " ]; do sleep 0.01; done; " }

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want compares what a result says of its attempt's end; message is part of its sentence.
func want(t *testing.T, r protocol.Result, code int, reason protocol.Reason, message string) {
	t.Helper()
	if r.ExitCode != code || r.Reason != reason || !strings.Contains(r.Message, message) || message == "" && r.Message != "" {
		t.Errorf("%s ended with exit code %d, reason %q, message %q; want %d, %q, %q", r.Token, r.ExitCode, r.Reason, r.Message, code, reason, message)
	}
}
