package shim_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// CASES.md 21: an attempt ends with its first process; what it leaves running is killed, wherever it has gone to.
func TestLeftoversAreKilled(t *testing.T) {
	tests := map[string]string{
		"background":                    `(until_go; echo late > late) & echo done`,
		"another session":               `setsid sh -c 'until_go; echo late > late' & until_running; echo done`,
		"a daemon":                      `(setsid sh -c 'until_go; echo late > late' &) ; until_running; echo done`,
		"one that ignores every signal": `(trap '' HUP INT QUIT TERM; touch running; until_go; echo late > late) & until_running; echo done`,
		"a tree":                        `for i in 1 2 3; do setsid sh -c 'touch running; (until_go; echo late > late) & until_go; echo late > late' & done; until_running; echo done`,
		"one that is stopped":           `(touch running; sh -c 'kill -STOP $$'; echo late > late) & until_running; echo done`,
	}
	for _, shared := range []bool{false, true} {
		for name, text := range tests {
			if shared {
				name += " in a shared PID namespace"
			}
			t.Run(name, func(t *testing.T) {
				p := newPod(t)
				r := p.start("one", container{shared: shared})
				text = strings.ReplaceAll(text, "setsid sh -c '", "setsid sh -c 'touch running; ")
				text = strings.ReplaceAll(text, "until_go; ", until("go"))
				text = strings.ReplaceAll(text, "until_running; ", until("running"))
				want(t, p.run("one", sh("play", text)), 0, "", "")
				if left := r.children(); len(left) != 0 {
					t.Errorf("left running: %v", left)
				}
				p.touch("go")
				want(t, p.run("one", sh("next", "exit 0")), 0, "", "")
				if _, err := os.Stat(p.work + "/late"); err == nil {
					t.Error("a leftover has gone on")
				}
				if log := p.log("play.1"); log != "done\n" {
					t.Errorf("the log is %q", log)
				}
			})
		}
	}
}

// A play of a thousand leftovers, all of which die at once.
func TestManyLeftovers(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	want(t, p.run("one", sh("play", "for i in $(seq 500); do sleep 1000 & done")), 0, "", "")
	if left := r.children(); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}

// CASES.md 22: processes whose parents are gone are reaped, while the play runs and when the slot is parked.
func TestOrphansAreReaped(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	p.assign("one", sh("play", "for i in $(seq 20); do (sh -c 'echo x >> orphans' &) ; done; "+until("go")+"exit 3"))
	reaped := func(rest int) {
		t.Helper()
		await(t, "the orphans being reaped", func() bool { return len(r.children()) == rest })
	}
	await(t, "the orphans", func() bool {
		b, _ := os.ReadFile(p.work + "/orphans")
		return strings.Count(string(b), "x") == 20
	})
	await(t, "no zombie being left", func() bool {
		return !slices.ContainsFunc(r.children(), func(c process) bool { return c.state == "Z" })
	})
	p.touch("go")
	want(t, p.result("play.1"), 3, "", "")
	p.state("one", p.seq, protocol.Parked)
	reaped(0)

	inside(t, r, "(sh -c "+quote(until("second")+"touch third")+" &)")
	await(t, "an orphan of a parked slot", func() bool { return len(r.children()) > 0 })
	p.touch("second")
	p.appears("third")
	reaped(0)
}

// inside executes shell text in a container from outside, as kubectl exec does.
func inside(t *testing.T, r *running, text string) {
	t.Helper()
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(r.pid()), "--pid", "--mount", "--wd", "sh", "-c", text)
	if err := cmd.Run(); err != nil { // its output is not waited for: what it leaves running has it open
		t.Fatalf("%s: %v", cmd, err)
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Somebody who looks into the container while a play runs is not thrown out when it ends.
func TestWhatWasExecutedFromOutsideLives(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	p.state("one", 0, protocol.Parked)
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(r.pid()), "--pid", "--mount", "--wd", "sh", "-c",
		"touch inside; "+until("go")+"exit 42")
	must(t, cmd.Start())
	p.appears("inside")
	want(t, p.run("one", sh("play", "exit 0")), 0, "", "")
	p.touch("go")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 42 {
		t.Errorf("it ended with %v", err)
	}
}

// The play's process group gets a signal as a whole, and so does one that has left its group when it is killed.
func TestProcessGroup(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{})
	p.assign("one", sh("play", "(trap 'touch child; exit' USR1; touch ready; while :; do sleep 0.01; done) & trap 'touch parent' USR1; "+until("ready")+until("parent")+"wait"))
	p.appears("ready")
	r.signal(syscall.SIGUSR1)
	p.appears("child")
	p.appears("parent")
	want(t, p.result("play.1"), 0, "", "")
}
