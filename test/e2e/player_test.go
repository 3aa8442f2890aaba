package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// patience is how long anything may take before a test gives up on it.
const patience = time.Minute

// player is a user with a state folder of its own. When the test ends, nothing of what it ran may be left.
type player struct {
	t     *testing.T
	state string // XDG_STATE_HOME
	env   []string
}

func newPlayer(t *testing.T) *player {
	t.Helper()
	state := t.TempDir()
	p := &player{t: t, state: state, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + state, "TERM=xterm-256color",
		"XDG_STATE_HOME=" + state,
		"XDG_CACHE_HOME=" + filepath.Join(scratch, "cache"), // images are unpacked once for all tests
		"NOHUDDLE_IMAGES=" + layout,
	}}
	t.Cleanup(func() {
		nothingLeft(t, state)
		if t.Failed() {
			p.run("prune") // the machine has other users
		}
	})
	return p
}

// set changes the environment.
func (p *player) set(name, value string) { p.env = append(p.env, name+"="+value) }

// file writes a file and returns its path.
func (p *player) file(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// playbook writes a playbook with this spec.
func (p *player) playbook(spec string) string {
	p.t.Helper()
	return p.file("playbook.yaml", "apiVersion: nohuddle.dev/v1alpha1\nkind: Playbook\nspec:\n"+spec)
}

// dir is the folder of a drive.
func (p *player) dir(drive string) string { return filepath.Join(p.state, "nohuddle", "drives", drive) }

// result is how a command ended.
type result struct {
	t              *testing.T
	args           []string
	code           int // -1 where a signal ended it
	stdout, stderr string
}

func (r *result) String() string {
	return fmt.Sprintf("nohuddle %s\nexit code %d\nstdout:\n%s\nstderr:\n%s", strings.Join(r.args, " "), r.code, r.stdout, r.stderr)
}

// exits holds the exit code against the one that is due.
func (r *result) exits(code int) *result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("exit code %d is due\n%s", code, r)
	}
	return r
}

// prints looks for texts in the standard output.
func (r *result) prints(texts ...string) *result {
	r.t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.stdout, text) {
			r.t.Errorf("stdout lacks %q\n%s", text, r)
		}
	}
	return r
}

// matches holds the standard output against a regular expression, in which ^ and $ are the ends of lines.
func (r *result) matches(patterns ...string) *result {
	r.t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(r.stdout) {
			r.t.Errorf("stdout does not match %q\n%s", pattern, r)
		}
	}
	return r
}

// is holds all of the standard output against a text.
func (r *result) is(want string) *result {
	r.t.Helper()
	if diff := cmp.Diff(want, r.stdout); diff != "" {
		r.t.Errorf("stdout differs: %s\n%s", diff, r)
	}
	return r
}

// quiet holds the standard error to nothing.
func (r *result) quiet() *result {
	r.t.Helper()
	if r.stderr != "" {
		r.t.Errorf("stderr is not empty\n%s", r)
	}
	return r
}

// says holds the standard error to exactly one sentence that has these texts.
func (r *result) says(texts ...string) *result {
	r.t.Helper()
	line, rest, _ := strings.Cut(r.stderr, "\n")
	if rest != "" || !strings.HasPrefix(line, "nohuddle: ") {
		r.t.Errorf("stderr is not one sentence of nohuddle's\n%s", r)
	}
	for _, text := range texts {
		if !strings.Contains(line, text) {
			r.t.Errorf("stderr lacks %q\n%s", text, r)
		}
	}
	return r
}

// drive decodes the standard output, all of it, as a Drive.
func (r *result) drive() *v1alpha1.Drive {
	r.t.Helper()
	var d v1alpha1.Drive
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
		r.t.Fatalf("stdout is not one Drive: %v\n%s", err, r)
	}
	return &d
}

// play finds a play of a drive.
func play(t *testing.T, d *v1alpha1.Drive, name string) *v1alpha1.PlayStatus {
	t.Helper()
	for i := range d.Status.Plays {
		if d.Status.Plays[i].Name == name {
			return &d.Status.Plays[i]
		}
	}
	t.Fatalf("drive %s has no play %s", d.Name, name)
	return nil
}

// run runs the program to its end.
func (p *player) run(args ...string) *result {
	p.t.Helper()
	return p.start(args...).wait()
}

// process is the program while it runs.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
}

// output is what a process has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (p *player) start(args ...string) *process {
	p.t.Helper()
	return p.startCommand(exec.Command(filepath.Join(bin, "nohuddle"), args...))
}

// startCommand starts a command that executes the program. Its output is kept, unless it goes elsewhere already.
func (p *player) startCommand(cmd *exec.Cmd) *process {
	p.t.Helper()
	c := &process{t: p.t, cmd: cmd, ended: make(chan struct{})}
	c.cmd.Env, c.cmd.Dir = p.env, root
	if c.cmd.Stdout == nil {
		c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	}
	if err := c.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // its code is in ProcessState
		close(c.ended)
	}()
	p.t.Cleanup(func() {
		if !c.gone() {
			c.kill()
			<-c.ended
			p.run("prune")
		}
	})
	return c
}

func (c *process) gone() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

func (c *process) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
}

func (c *process) kill() { c.signal(syscall.SIGKILL) }

func (c *process) result() *result {
	return &result{
		t: c.t, args: c.cmd.Args[1:], code: c.cmd.ProcessState.ExitCode(), stdout: c.stdout.String(), stderr: c.stderr.String(),
	}
}

// wait waits for the end, no longer than patience.
func (c *process) wait() *result {
	c.t.Helper()
	return c.waitFor(patience)
}

func (c *process) waitFor(d time.Duration) *result {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(d):
		c.kill()
		<-c.ended
		c.t.Errorf("it did not end within %s\n%s", d, c.result())
	}
	return c.result()
}

// sees waits for a text in the standard output.
func (c *process) sees(text string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%q in the output", text), func() bool {
		if strings.Contains(c.stdout.String(), text) {
			return true
		}
		if c.gone() {
			c.t.Fatalf("it ended without %q in its output\n%s", text, c.result())
		}
		return false
	})
}

// eventually polls until something is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("there was no %s within %s", what, patience)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}
