package shim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// CASES.md 11: a container that is started again doesn't run again what has ended.
func TestEndedAttemptIsNotRepeated(t *testing.T) {
	p := newPod(t)
	a := p.next(sh("play", "echo line >> lines"))
	for range 3 {
		r := p.start("one", container{first: &a})
		want(t, p.result(a.Token), 0, "", "")
		p.state("one", a.Seq, protocol.Parked)
		r.kill()
		must(t, os.Remove(filepath.Join(p.ctl, protocol.StateFile("one"))))
	}
	if got := p.read("lines"); got != "line\n" {
		t.Errorf("the play has written %q", got)
	}
}

// CASES.md 11, 20: PID 1 is killed while the attempt runs; the next container says so at once, and runs nothing.
func TestKilledShimIsInterrupted(t *testing.T) {
	p := newPod(t)
	a := p.next(sh("play", "echo line >> lines; touch running; sleep 1000"))
	r := p.start("one", container{first: &a})
	p.appears("running")
	r.signal(syscall.SIGKILL)
	r.exits(137)
	if p.has(protocol.ResultFile(a.Token)) {
		t.Fatal("a killed shim can't have written a result")
	}
	p.start("one", container{first: &a})
	result := p.result(a.Token)
	want(t, result, 137, protocol.Interrupted, "container died")
	if result.StartedAt.IsZero() || !result.FinishedAt.After(result.StartedAt) {
		t.Errorf("it lasted from %s to %s", result.StartedAt, result.FinishedAt)
	}
	p.state("one", a.Seq, protocol.Parked)
	if got := p.read("lines"); got != "line\n" {
		t.Errorf("the play has written %q", got)
	}
	// The slot goes on.
	want(t, p.run("one", sh("next", "exit 5")), 5, "", "")
}

// A shim that died just after it had made the claim's file leaves it empty. The claim stands all the same.
func TestEmptyClaimIsInterrupted(t *testing.T) {
	p := newPod(t)
	a := p.next(sh("play", "echo line >> lines; touch running; sleep 1000"))
	r := p.start("one", container{first: &a})
	p.appears("running")
	r.kill()
	must(t, os.Truncate(filepath.Join(p.ctl, protocol.ClaimFile(a.Token)), 0))
	p.start("one", container{first: &a})
	want(t, p.result(a.Token), 137, protocol.Interrupted, "container died")
}

// An attempt of another slot is not this one's to end.
func TestClaimOfAnotherSlot(t *testing.T) {
	p := newPod(t)
	a := p.next(sh("play", "touch running; sleep 1000"))
	p.start("one", container{first: &a})
	p.appears("running")
	p.start("two", container{first: &a})
	p.state("two", a.Seq, protocol.Parked)
	want(t, p.run("two", sh("next", "exit 0")), 0, "", "")
	if p.has(protocol.ResultFile(a.Token)) {
		t.Error("the attempt has a result while it runs")
	}
}

// Of two slots that are given the same attempt one runs it, and the other doesn't touch its result.
func TestTwoShimsRaceForOneToken(t *testing.T) {
	p := newPod(t)
	slots := []string{"one", "two"}
	for _, slot := range slots {
		p.start(slot, container{})
	}
	for i := range 25 {
		gate := fmt.Sprintf("gate%d.1", i)
		a := sh(fmt.Sprintf("play%d", i), "echo $NOHUDDLE_PLAY >> lines")
		a.Gate = []protocol.Need{{Token: gate}}
		seq := map[string]int64{}
		for _, slot := range slots {
			seq[slot] = p.assign(slot, a)
		}
		for _, slot := range slots {
			p.state(slot, seq[slot], protocol.Waiting)
		}
		p.ended(gate, 0, "")
		want(t, p.result(a.Token), 0, "", "")
		for _, slot := range slots {
			p.state(slot, seq[slot], protocol.Parked)
		}
		if got := strings.Count(p.read("lines"), a.Play+"\n"); got != 1 {
			t.Fatalf("%s ran %d times", a.Play, got)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(p.ctl, ".tmp-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
