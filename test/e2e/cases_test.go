package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// An image of Kubernetes' table: bwa has an ENTRYPOINT, busybox a CMD, bcftools both.
//
// CASES.md 12: ENTRYPOINT and CMD × {nothing, args, command, both}.
func TestKubernetesTableOfCommands(t *testing.T) {
	p := newPlayer(t)
	for _, c := range []struct {
		name, image, more string
		code              int
		want              string
	}{
		{"cmd only, nothing", "busybox:1.35", "", 0, ""},
		{"cmd only, args", "busybox:1.35", "args: [echo, args]", 0, "args\n"},
		{"cmd only, command", "busybox:1.35", "command: [echo]", 0, "\n"},
		{"cmd only, both", "busybox:1.35", "command: [echo], args: [both]", 0, "both\n"},
		{"entrypoint and cmd, nothing", "bcftools:1.16", "", 0, "Program: bcftools"},
		{"entrypoint and cmd, args", "bcftools:1.16", "args: [--version-only]", 0, "1.16"},
		{"entrypoint and cmd, command", "bcftools:1.16", "command: [echo]", 0, "\n"},
		{"entrypoint and cmd, both", "bcftools:1.16", "command: [echo], args: [both]", 0, "both\n"},
		{"entrypoint only, nothing", "bwa:0.7.17", "", 1, "Program: bwa"},
		{"entrypoint only, args", "bwa:0.7.17", "args: [index]", 1, "Usage:   bwa index"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.t = t
			path := p.playbook(fmt.Sprintf("  plays:\n  - {name: a, image: 'examples.nohuddle.dev/%s', %s}\n", c.image, c.more))
			name := strings.NewReplacer(" ", "-", ",", "").Replace(c.name)
			p.run("run", path, "--name", name, "--view", "none").exits(c.code)
			p.run("logs", name, "a").exits(0).prints(c.want)
		})
	}
	p.t = t
}

// plays runs a playbook that may fail, and returns its drive.
func (p *player) plays(name, spec string, args ...string) *v1alpha1.Drive {
	p.t.Helper()
	r := p.run(append([]string{"run", p.playbook(spec), "--name", name, "--view", "none", "-o", "json"}, args...)...)
	if r.code > 1 {
		p.t.Fatalf("%s", r)
	}
	return r.drive()
}

// ended holds a play against its exit code and reason.
func ended(t *testing.T, d *v1alpha1.Drive, name string, code int32, reason string) {
	t.Helper()
	s := play(t, d, name)
	if s.ExitCode == nil || *s.ExitCode != code || s.Reason != reason {
		t.Errorf("play %s: exit code %v, reason %q, message %q; want %d, %q", name, s.ExitCode, s.Reason, s.Message, code, reason)
	}
}

// CASES.md 17: a script as another user; a file without x bit; a missing binary. CASES.md 2: no exit code is special.
func TestExitCodes(t *testing.T) {
	p := newPlayer(t)
	d := p.plays("d", `
  plays:
  - {name: missing, image: 'examples.nohuddle.dev/busybox:1.35', command: [no-such-program], onError: Continue}
  - {name: no-x, image: 'examples.nohuddle.dev/busybox:1.35', command: [/etc/passwd], onError: Continue}
  - {name: killed, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'kill -9 $$'], onError: Continue}
  - {name: two, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, exit 2], onError: Continue}
  - {name: last, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, exit 255], onError: Continue}
  - {name: late, image: 'examples.nohuddle.dev/busybox:1.35', command: [sleep, "60"], timeout: 300ms, gracePeriodSeconds: 0, onError: Continue}
`)
	ended(t, d, "missing", 127, v1alpha1.ReasonError)
	ended(t, d, "no-x", 126, v1alpha1.ReasonError)
	ended(t, d, "killed", 137, v1alpha1.ReasonError)
	ended(t, d, "two", 2, v1alpha1.ReasonError)
	ended(t, d, "last", 255, v1alpha1.ReasonError)
	if s := play(t, d, "late"); s.Reason != v1alpha1.ReasonTimeout {
		t.Errorf("late is %+v", s)
	}
	if d.Status.Phase != v1alpha1.DriveSucceeded {
		t.Errorf("the drive is %s", d.Status.Phase)
	}
}

// CASES.md 24: onError Continue twice, and a play that reads both codes.
func TestFailuresThatAreRead(t *testing.T) {
	p := newPlayer(t)
	d := p.plays("d", `
  plays:
  - {name: one, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, exit 1], onError: Continue}
  - {name: two, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, exit 2], onError: Continue}
  - {name: reads, image: 'examples.nohuddle.dev/busybox:1.35', command: [echo, '${{ plays.one.exitCode }} ${{ plays.two.exitCode }} ${{ plays.two.phase }}']}
`)
	if d.Status.Phase != v1alpha1.DriveSucceeded {
		t.Errorf("the drive is %s", d.Status.Phase)
	}
	p.run("logs", "d", "reads").exits(0).is("1 2 Failed\n")
}

// CASES.md 26: fails twice with two retries: three attempts of that play only, with logs of their own. CASES.md 7: no
// attempt and no play sees what another's container was.
func TestRetries(t *testing.T) {
	p := newPlayer(t)
	d := p.plays("d", `
  plays:
  - {name: before, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'echo x >> /scratch/before; touch /mark'], env: [{name: MINE, value: before}]}
  - name: flaky
    image: examples.nohuddle.dev/busybox:1.35
    retries: {limit: 2}
    env: [{name: THEIRS, value: flaky}]
    command: [sh, -c, 'echo "attempt $NOHUDDLE_ATTEMPT, mark $(ls /mark 2>/dev/null), mine $MINE"; touch /mark; echo x >> /scratch/flaky; test $(wc -l < /scratch/flaky) -gt 2']
  - {name: after, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'wc -l < /scratch/before; wc -l < /scratch/flaky; echo "$MINE$THEIRS$(ls /mark 2>/dev/null)."']}
`)
	s := play(t, d, "flaky")
	if s.Attempt != 3 || len(s.Attempts) != 2 || s.Phase != v1alpha1.PlaySucceeded {
		t.Errorf("flaky is %+v", s)
	}
	for n := 1; n <= 3; n++ {
		p.run("logs", "d", "flaky", "--attempt", fmt.Sprint(n)).exits(0).is(fmt.Sprintf("attempt %d, mark , mine \n", n))
	}
	p.run("logs", "d", "after").exits(0).is("1\n3\n.\n")
}

// CASES.md 15: the bytes of arguments and scripts are kept.
func TestTextIsKeptByteForByte(t *testing.T) {
	p := newPlayer(t)
	file := p.file("playbook.yaml", `apiVersion: nohuddle.dev/v1alpha1
kind: Playbook
spec:
  plays:
  - name: args
    image: examples.nohuddle.dev/busybox:1.35
    command: [printf, '%s|']
    args: ['$$ $(date) $HOME "a b" ''c''', '%d', '{{x}}', '$(HOME)', 'end\', "tab\tand\nline"]
  - name: script
    image: examples.nohuddle.dev/busybox:1.35
    script: "cat <<'END'\n$$ $(date) $HOME \"a b\" 'c' % {{x}} \\\nEND\n"
`)
	p.run("run", file, "--name", "d", "--view", "none").exits(0)
	p.run("logs", "d", "args").exits(0).is("$$ $(date) $HOME \"a b\" 'c'|%d|{{x}}|$(HOME)|end\\|tab\tand\nline|")
	p.run("logs", "d", "script").exits(0).is("$$ $(date) $HOME \"a b\" 'c' % {{x}} \\\n")
}

// CASES.md 16: what doesn't fit is refused with the actual and the allowed size.
func TestTooLarge(t *testing.T) {
	p := newPlayer(t)
	for name, play := range map[string]string{
		"argument":    fmt.Sprintf("command: [echo, %q]", strings.Repeat("x", 131_073)),
		"environment": fmt.Sprintf("command: [env], env: [{name: A, value: %q}, {name: B, value: %q}]", strings.Repeat("x", 100_000), strings.Repeat("y", 100_000)),
	} {
		t.Run(name, func(t *testing.T) {
			p.t = t
			r := p.run("run", p.playbook("  plays:\n  - {name: a, image: 'examples.nohuddle.dev/busybox:1.35', "+play+"}\n"), "--name", name, "--view", "none")
			if r.code == 0 || !strings.Contains(r.stderr, "bytes") || !strings.Contains(r.stderr, "at most") || len(r.stderr) > 1000 {
				t.Errorf("code %d, %.1000s", r.code, r.stderr)
			}
		})
	}
	p.t = t
}

// CASES.md 18: names are refused before anything runs, or safe.
func TestNamesOfPlays(t *testing.T) {
	p := newPlayer(t)
	for _, name := range []string{strings.Repeat("a", 70), "This is Fine", "Ü", "a.b", "-a", "../a"} {
		if r := p.run("run", p.playbook(fmt.Sprintf("  plays:\n  - {name: %q, image: busybox}\n", name))).exits(2); !strings.Contains(r.stderr, "spec.plays[0].name") {
			t.Errorf("%s", r)
		}
	}
	long := strings.Repeat("a", 63)
	p.run("run", p.playbook(fmt.Sprintf("  plays:\n  - {name: init, image: %[1]s, args: ['true']}\n  - {name: %[2]s, image: %[1]s, args: [echo, long]}\n", "'"+busybox+"'", long)), "--name", long).exits(0)
	p.run("logs", long, long).exits(0).is("long\n")
}

// CASES.md 21 and 22: a play ends with its main process; what it left running is killed.
func TestLeftoversOfAPlay(t *testing.T) {
	p := newPlayer(t)
	dir := t.TempDir()
	p.run("run", p.playbook(`
  plays:
  - {name: a, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, '(sleep 1; echo late >> /scratch/f) & setsid sleep 600 & echo done']}
  - {name: b, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'sleep 2; test ! -e /scratch/f']}
`), "--name", "d", "--scratch", dir, "--view", "none").exits(0)
	if _, err := os.Stat(filepath.Join(dir, "f")); !os.IsNotExist(err) {
		t.Errorf("the leftover has written: %v", err)
	}
	p.run("logs", "d", "a").exits(0).is("done\n")
}

// CASES.md 3 and 27: output is complete, or says what is missing.
func TestOutput(t *testing.T) {
	p := newPlayer(t)
	p.run("run", p.playbook(`
  plays:
  - {name: brief, image: 'examples.nohuddle.dev/busybox:1.35', command: [echo, brief]}
  - {name: much, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'yes 0123456789abcde | head -c 31457280']}
  - {name: progress, image: 'examples.nohuddle.dev/base:12', command: [sh, -c, 'yes "$(printf "50%%\r")" | tr -d "\n" | head -c 10485760']}
`), "--name", "d").exits(0).prints("brief | brief\n")
	p.run("logs", "d", "brief").exits(0).is("brief\n")
	for play, size := range map[string]int{"much": 31457280, "progress": 10485760} {
		r := p.run("logs", "d", play).exits(0)
		tail := r.stdout[max(len(r.stdout)-200, 0):]
		if len(r.stdout) != size && !strings.Contains(tail, "output truncated: ") {
			t.Errorf("%s: %d bytes are there, and nothing says that it is less than all: …%s", play, len(r.stdout), tail)
		}
	}
}

// CASES.md 28: outputs are carried, or refused with sizes.
func TestOutputsOfAnySize(t *testing.T) {
	p := newPlayer(t)
	for _, size := range []int{4095, 4097, 65537} {
		d := p.plays(fmt.Sprintf("d%d", size), fmt.Sprintf(`
  plays:
  - {name: a, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'echo "x=$(head -c %d /dev/zero | tr "\0" x)" >> "$NOHUDDLE_OUTPUT"']}
`, size))
		s := play(t, d, "a")
		switch {
		case s.Phase == v1alpha1.PlaySucceeded && len(s.Outputs["x"]) == size:
		case s.Reason == v1alpha1.ReasonOutput && strings.Contains(s.Message, fmt.Sprint(size)) && strings.Contains(s.Message, "at most"):
		default:
			t.Errorf("%d bytes: phase %s, reason %s, message %q, %d bytes carried", size, s.Phase, s.Reason, s.Message, len(s.Outputs["x"]))
		}
	}
}

// CASES.md 1 and 10: many short plays of one image, in fresh containers, without waits.
func TestManyShortPlays(t *testing.T) {
	p := newPlayer(t)
	d := p.plays("d", `
  slots: [{name: slot, count: 1}]
  plays:
  - {name: each, image: 'examples.nohuddle.dev/busybox:1.35', forEach: [a, b, c, d, e, f, g, h], command: [sh, -c, 'test ! -e /mark; touch /mark; echo ${{ item }} >> /scratch/all']}
  - {name: all, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'tr -d "\n" < /scratch/all']}
`)
	if d.Status.Phase != v1alpha1.DriveSucceeded {
		t.Errorf("the drive is %s: %s", d.Status.Phase, d.Status.Message)
	}
	p.run("logs", "d", "all").exits(0).is("abcdefgh")
	if took := d.Status.FinishedAt.Sub(d.Status.StartedAt.Time); took.Seconds() > 20 {
		t.Errorf("nine plays took %s", took)
	}
}
