// Package enginetest owns the contract of engines: what a playbook does must be the same on every one of them. Each row
// is a playbook with what its drive must come to; an engine's own test runs them all by calling Suite.Run.
//
// It must not know any engine.
package enginetest

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/drive"
	"github.com/nohuddle/nohuddle/internal/engine"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/playbook"
)

// Suite is the contract, made ready for one engine.
type Suite struct {
	// Start makes an engine for one drive; the suite closes it.
	Start func(t *testing.T, drive string, prog *playbook.Program) engine.Engine
	// Shell and Other are two images with the busybox applets in /bin. Neither has an ENTRYPOINT; the CMD of Shell is
	// ["echo", "the command of the image"].
	Shell, Other string
	// Missing is an image that does not exist.
	Missing string
	// Patience bounds one drive. Default: one minute.
	Patience time.Duration
}

// Run runs every row as a subtest.
func (s Suite) Run(t *testing.T) {
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	for _, rows := range [][]row{order, commands, ends, failures, intents, substitutions} {
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) { s.run(t, r) })
		}
	}
}

// row is a line of the contract.
type row struct {
	name string
	// playbook is YAML of a PlaybookSpec; SHELL, OTHER and MISSING stand for the images.
	playbook string
	// during is called after each step, to send intents; nil if there is nothing to do.
	during func(v1alpha1.DriveStatus, chan<- v1alpha1.Intent)
	// phase that the drive must end with. Default: Succeeded.
	phase v1alpha1.DrivePhase
	// plays that must end in a phase other than Succeeded.
	plays map[string]v1alpha1.PlayPhase
	// logs are what plays (by token, "a.1") must have written, exactly.
	logs map[string]string
	// check looks at what is left to look at.
	check func(t *testing.T, o Outcome)
}

// Outcome is how a drive ended.
type Outcome struct {
	Status v1alpha1.DriveStatus
	Events []plan.Event
	// Pods are the distinct pods that were asked for, in order.
	Pods []plan.Pod
	logs func(token string) string
}

// Play returns the status of a play or item.
func (o Outcome) Play(t *testing.T, name string) v1alpha1.PlayStatus {
	t.Helper()
	for _, p := range o.Status.Plays {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("the status has no play %s", name)
	return v1alpha1.PlayStatus{}
}

// Log returns what an attempt wrote.
func (o Outcome) Log(token string) string { return o.logs(token) }

func (s Suite) run(t *testing.T, r row) {
	spec := s.parse(t, r.playbook)
	prog, err := playbook.Compile(spec, nil)
	if err != nil {
		t.Fatalf("the playbook of this row is not valid: %v", err)
	}
	name := "contract-" + strings.ToLower(strings.NewReplacer(" ", "-", ",", "", "'", "", "(", "", ")", "").Replace(r.name))
	eng := s.Start(t, name[:min(len(name), 40)], prog)
	closed := false
	defer func() {
		if !closed {
			_ = eng.Close(context.Background())
		}
	}()
	out := s.drive(t, name, prog, eng, r)
	out.logs = func(token string) string { return readLog(t, eng, token) }
	before := map[string]string{}
	for token := range r.logs {
		before[token] = out.Log(token)
	}
	if err := eng.Close(context.Background()); err != nil {
		t.Errorf("closing the engine: %v", err)
	}
	closed = true
	r.verify(t, out)
	for token, want := range r.logs {
		if before[token] != want {
			t.Errorf("log of %s is %q, want %q", token, before[token], want)
		}
		if after := out.Log(token); after != want {
			t.Errorf("log of %s is %q after the engine was closed, want %q", token, after, want)
		}
	}
}

func (s Suite) parse(t *testing.T, text string) *v1alpha1.PlaybookSpec {
	t.Helper()
	text = strings.NewReplacer("SHELL", s.Shell, "OTHER", s.Other, "MISSING", s.Missing).Replace(text)
	var spec v1alpha1.PlaybookSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatalf("the playbook of this row can't be read: %v", err)
	}
	return &spec
}

// drive runs the drive and holds the invariants that can be seen from outside.
func (s Suite) drive(t *testing.T, name string, prog *playbook.Program, eng engine.Engine, r row) Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	var out Outcome
	intents := make(chan v1alpha1.Intent, 8)
	slots := 0
	for _, g := range prog.Groups {
		slots += len(g.Slots)
	}
	recorder := &recorder{Engine: eng, out: &out}
	status, err := drive.Run(ctx, drive.Options{
		Name: name, Program: prog, Engine: recorder,
		Save: func(v1alpha1.DriveStatus) error { return nil },
		Tell: func(e plan.Event) { out.Events = append(out.Events, e) },
		Watch: func(st v1alpha1.DriveStatus, _ plan.Observed) {
			running := 0
			for _, p := range st.Plays {
				if p.Phase == v1alpha1.PlayRunning && p.Items == nil {
					running++
				}
			}
			if running > slots {
				t.Errorf("%d plays run in %d slots", running, slots)
			}
			if r.during != nil {
				r.during(st, intents)
			}
		},
	}, intents)
	if err != nil {
		t.Fatalf("the drive came to no end: %v\nlast status: %+v", err, status)
	}
	out.Status = status
	return out
}

func (r row) verify(t *testing.T, out Outcome) {
	t.Helper()
	phase := r.phase
	if phase == "" {
		phase = v1alpha1.DriveSucceeded
	}
	if out.Status.Phase != phase {
		t.Errorf("the drive is %s (%s: %s), want %s", out.Status.Phase, out.Status.Reason, out.Status.Message, phase)
	}
	for _, p := range out.Status.Plays {
		want, ok := r.plays[p.Name]
		if !ok {
			want = v1alpha1.PlaySucceeded
		}
		if p.Phase != want {
			t.Errorf("play %s is %s (%s: %s), want %s", p.Name, p.Phase, p.Reason, p.Message, want)
		}
	}
	if r.check != nil {
		r.check(t, out)
	}
}

func readLog(t *testing.T, eng engine.Engine, token string) string {
	t.Helper()
	f, err := eng.Log(token)
	if err != nil {
		t.Errorf("log of %s: %v", token, err)
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Errorf("log of %s: %v", token, err)
	}
	return string(b)
}

// recorder keeps the pods that are asked for.
type recorder struct {
	engine.Engine
	out *Outcome
}

func (r *recorder) Apply(ctx context.Context, pod plan.Pod) error {
	if len(pod.Slots) > 0 {
		r.out.Pods = append(r.out.Pods, pod)
	}
	return r.Engine.Apply(ctx, pod)
}

// swaps counts the containers that a slot had.
func (o Outcome) swaps(slot string) int64 {
	i := slices.IndexFunc(o.Status.Slots, func(s v1alpha1.SlotStatus) bool { return s.Name == slot })
	return o.Status.Slots[i].Swap
}

func exitCode(t *testing.T, o Outcome, play string, want int32) {
	t.Helper()
	p := o.Play(t, play)
	if p.ExitCode == nil || *p.ExitCode != want {
		t.Errorf("play %s has exit code %v, want %d", play, show(p.ExitCode), want)
	}
}

func show(code *int32) any {
	if code == nil {
		return "none"
	}
	return *code
}
