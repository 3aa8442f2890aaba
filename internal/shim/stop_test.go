package shim_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// asked is shell text that says it runs, and does something when it is asked to end.
func asked(then string) string {
	return "trap '" + then + "' TERM; touch running; while :; do sleep 0.01; done"
}

func (p *pod) stop(slot string, a protocol.Assignment) {
	p.t.Helper()
	a.Stop = true
	p.assign(slot, a)
}

func TestStopWhileRunning(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	a := sh("play", "touch running; sleep 1000")
	p.assign("one", a)
	p.appears("running")
	p.stop("one", a)
	want(t, p.result(a.Token), 143, protocol.Stopped, "stopped, because the drive was cancelled")
	p.state("one", p.seq, protocol.Parked)
	want(t, p.run("one", sh("next", "exit 0")), 0, "", "")
}

// A Stop that names another attempt waits for its turn, as any assignment does.
func TestStopOfAnotherAttempt(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	p.assign("one", sh("play", "touch running; "+until("go")+"exit 6"))
	p.appears("running")
	p.stop("one", sh("other", "exit 0"))
	p.touch("go")
	want(t, p.result("play.1"), 6, "", "")
	p.state("one", p.seq, protocol.Parked)
}

// CASES.md 23: a play that writes a checkpoint when it is asked to end has its grace period for it, and its own exit
// code is kept.
func TestGrace(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	a := sh("play", asked("sleep 1; echo saved > checkpoint; exit 3"))
	p.assign("one", a)
	p.appears("running")
	p.stop("one", a)
	want(t, p.result(a.Token), 3, protocol.Stopped, "stopped")
	if p.read("checkpoint") != "saved\n" {
		t.Error("the checkpoint was not written")
	}
}

// CASES.md 23: one that ignores TERM is killed when its grace period is over, not before.
func TestKillAfterGrace(t *testing.T) {
	tests := map[string]string{
		"ignores TERM": "trap '' TERM; touch running; while :; do sleep 0.01; done",
		"is stopped":   "touch running; kill -STOP $$",
		// A process that has left its group is no more reached through it.
		"has left its group": "exec perl -e 'use POSIX; $SIG{TERM}=\"IGNORE\"; $p=fork; if(!$p){setpgid(0,0); sleep 1000} sleep 1 until setpgid(0,$p); open(F,\">running\"); close F; sleep 1000 while 1'",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			r := p.start("one", container{})
			a := sh("play", text)
			a.GraceMillis = 300
			p.assign("one", a)
			p.appears("running")
			if name == "is stopped" {
				await(t, "its being stopped", func() bool { return r.child().state == "T" })
			}
			begin := time.Now()
			p.stop("one", a)
			want(t, p.result(a.Token), 137, protocol.Stopped, "it did not end within its grace period of 0.3s and was killed")
			if d := time.Since(begin); d < 300*time.Millisecond {
				t.Errorf("it had %s", d)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	a := sh("play", "sleep 1000")
	a.TimeoutMillis = 200
	want(t, p.run("one", a), 143, protocol.Timeout, "it ran for longer than its timeout of 200ms")
	// An exit code of 0 is no success when it comes after the timeout.
	a = sh("polite", asked("exit 0"))
	a.TimeoutMillis = 200
	r := p.run("one", a)
	want(t, r, 0, protocol.Timeout, "timeout")
	if r.Succeeded() {
		t.Error("it counts as a success")
	}
	a = sh("stubborn", "trap '' TERM; while :; do sleep 0.01; done")
	a.TimeoutMillis, a.GraceMillis = 100, 100
	want(t, p.run("one", a), 137, protocol.Timeout, "grace period of 0.1s")
	a = sh("fast", "exit 0")
	a.TimeoutMillis = 60_000
	want(t, p.run("one", a), 0, "", "")
}

func TestTermWhileRunning(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			p := newPod(t)
			r := p.start("one", container{})
			a := sh("play", asked("echo saved > checkpoint; exit 3"))
			p.assign("one", a)
			p.appears("running")
			r.signal(sig)
			r.exits(143)
			want(t, p.result(a.Token), 3, protocol.Interrupted, "the slot was told to end while the attempt ran")
			if p.read("checkpoint") != "saved\n" {
				t.Error("the checkpoint was not written")
			}
		})
	}
}

// Nothing holds up a shim that runs nothing.
func TestTermWhileNothingRuns(t *testing.T) {
	waiting := sh("play", "exit 0")
	waiting.Gate = []protocol.Need{{Token: "never.1"}}
	tests := []struct {
		name  string
		a     *protocol.Assignment
		phase protocol.Phase
		ran   bool
	}{
		{name: "nothing assigned", phase: protocol.Parked},
		{name: "waiting", a: &waiting, phase: protocol.Waiting},
		{name: "parked", a: &protocol.Assignment{}, phase: protocol.Parked, ran: true},
	}
	const limit = 100 * time.Millisecond
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			best := patience
			for range 5 { // other work on the machine must not fail the test
				p := newPod(t)
				r := p.start("one", container{})
				if tt.ran {
					want(t, p.run("one", sh("before", "exit 0")), 0, "", "")
				}
				seq := int64(0)
				if tt.a != nil {
					seq = p.assign("one", *tt.a)
				}
				p.state("one", seq, tt.phase)
				begin := time.Now()
				r.signal(syscall.SIGTERM)
				r.exits(143)
				if tt.a != nil && tt.a.Token != "" && p.claimed(tt.a.Token) {
					t.Error("it was claimed")
				}
				if best = min(best, time.Since(begin)); best < limit {
					return
				}
			}
			t.Errorf("the fastest took %s, at most %s is allowed", best, limit)
		})
	}
}

// Whenever it comes, a play that was begun has a result.
func TestTermWhileStarting(t *testing.T) {
	for i := range 60 {
		p := newPod(t)
		r := p.start("one", container{})
		p.state("one", 0, protocol.Parked)
		p.assign("one", sh("play", "sleep 1000"))
		for begin := time.Now(); time.Since(begin) < time.Duration(i)*40*time.Microsecond; {
		}
		r.signal(syscall.SIGTERM)
		r.exits(143)
		if p.claimed("play.1") {
			want(t, p.result("play.1"), 143, protocol.Interrupted, "told to end")
		}
	}
}

// A shim that has nothing to do for a while executes itself again, and is told to end before and afterwards.
func TestTermAroundParking(t *testing.T) {
	for i := range 10 {
		p := newPod(t)
		r := p.start("one", container{})
		want(t, p.run("one", sh("play", "exit 4")), 4, "", "")
		p.state("one", p.seq, protocol.Parked)
		if i%2 == 1 {
			r.parked("play.1")
			want(t, p.run("one", sh("next", "exit 5")), 5, "", "") // it has its handlers
		}
		r.signal(syscall.SIGTERM)
		r.exits(143)
	}
}

// A SIGTERM that comes when the play has ended, but not yet its output: the result is the play's, and nothing new begins.
func TestTermWhileDraining(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	p.assign("one", sh("play", "touch running; "+until("go")+"exit 4"))
	p.appears("running")
	pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", r.child().pid), os.O_WRONLY, 0)
	must(t, err)
	defer pipe.Close()
	p.touch("go")
	await(t, "the play's end", func() bool { return len(r.children()) == 0 })
	p.assign("one", sh("next", "exit 0"))
	r.signal(syscall.SIGTERM)
	r.exits(143)
	want(t, p.result("play.1"), 4, "", "")
	if p.claimed("next.1") {
		t.Error("the next attempt was claimed")
	}
}

// Whoever asks first gives the reason; there is one result.
func TestSeveralReasonsToEnd(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	a := sh("play", asked("touch asked; "+until("go")+"exit 0"))
	p.assign("one", a)
	p.appears("running")
	p.stop("one", a)
	p.appears("asked")
	r.signal(syscall.SIGTERM)
	r.signal(syscall.SIGTERM)
	p.stop("one", a)
	p.touch("go")
	r.exits(143)
	want(t, p.result(a.Token), 0, protocol.Stopped, "cancelled")
}

func TestSignalsAreForwarded(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	p.assign("one", sh("play", "for s in HUP QUIT USR1 USR2 WINCH CONT ALRM; do trap \"touch got-$s\" $s; done; touch running; "+until("go")))
	p.appears("running")
	for name, s := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
		"WINCH": syscall.SIGWINCH, "CONT": syscall.SIGCONT, "ALRM": syscall.SIGALRM,
	} {
		r.signal(s)
		p.appears("got-" + name)
	}
	p.touch("go")
	want(t, p.result("play.1"), 0, "", "")
	// Parked, it minds none of them, and they are not for the next play.
	p.state("one", p.seq, protocol.Parked)
	r.parked("play.1")
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGALRM, syscall.SIGPIPE} {
		r.signal(s)
	}
	// The second play is started by a shim that was executed again; signals must reach it all the same.
	a := sh("second", asked("exit 8"))
	must(t, os.Remove(p.work+"/running"))
	p.assign("one", a)
	p.appears("running")
	p.stop("one", a)
	want(t, p.result(a.Token), 8, protocol.Stopped, "stopped")
}

// CASES.md 21, 23: the end of the slot is not held up by what ignores every signal.
func TestTermWithStubbornLeftover(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	a := sh("play", "(trap '' TERM; touch running; sleep 1000; sleep 1000) & wait")
	p.assign("one", a)
	p.appears("running")
	r.signal(syscall.SIGTERM)
	r.exits(143)
	want(t, p.result(a.Token), 143, protocol.Interrupted, "told to end")
}

// The drive's end ends the pod, with the code that the planner has chosen.
func TestEnd(t *testing.T) {
	for _, code := range []int{protocol.ExitDone, protocol.ExitFailed} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			p := newPod(t)
			r := p.start("one", container{})
			p.assign("one", sh("play", "touch running; "+until("go")+"exit 2"))
			p.appears("running")
			p.assign("one", protocol.Assignment{End: &code})
			p.touch("go")
			r.exits(code)
			want(t, p.result("play.1"), 2, "", "") // it was not cut short
		})
	}
}
