package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/engine/fake"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// TestInvariants drives random playbooks through random orders of events and faults, with observations that may be
// stale, and holds the invariants of docs/architecture.md after every move.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawPlaybook(t))
		for range rapid.IntRange(0, 60).Draw(t, "chaos") {
			w.chaos()
		}
		w.drain()
		w.checkEnd()
	})
}

// world is a drive on a simulated pod.
type world struct {
	t      *rapid.T
	prog   *playbook.Program
	pod    *fake.Pod
	status v1alpha1.DriveStatus
	seen   plan.Observed
	intent v1alpha1.Intent
	now    time.Time
	lost   bool
	wake   time.Time
}

func newWorld(t *rapid.T, spec *v1alpha1.PlaybookSpec) *world {
	prog, err := playbook.Compile(spec, nil)
	if err != nil {
		t.Fatalf("the generator made an invalid playbook: %v", err)
	}
	return &world{t: t, prog: prog, pod: fake.New(), now: time.Unix(1e9, 0)}
}

func drawPlaybook(t *rapid.T) *v1alpha1.PlaybookSpec {
	spec := &v1alpha1.PlaybookSpec{}
	n := rapid.IntRange(1, 7).Draw(t, "plays")
	for i := range n {
		p := drawPlay(t, fmt.Sprintf("p%d", i))
		if rapid.Bool().Draw(t, "hasNeeds") {
			needs := []string{}
			for k := range i {
				if rapid.IntRange(0, 2).Draw(t, "need") == 0 {
					needs = append(needs, fmt.Sprintf("p%d", k))
				}
			}
			p.Needs = &needs
		}
		spec.Plays = append(spec.Plays, p)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "finally") {
		spec.Finally = append(spec.Finally, drawPlay(t, fmt.Sprintf("f%d", i)))
	}
	count := int32(rapid.IntRange(1, 4).Draw(t, "slots"))
	spec.Slots = []v1alpha1.SlotGroup{{Name: "slot", Count: &count}}
	if rapid.IntRange(0, 3).Draw(t, "second group") == 0 {
		one := int32(1)
		spec.Slots = append(spec.Slots, v1alpha1.SlotGroup{Name: "other", Count: &one})
		for i := range spec.Plays {
			if rapid.IntRange(0, 2).Draw(t, "in other") == 0 {
				spec.Plays[i].Slot = "other"
			}
		}
	}
	return spec
}

func drawPlay(t *rapid.T, name string) v1alpha1.Play {
	p := v1alpha1.Play{
		Name: name, Image: rapid.SampledFrom([]string{"img.test/a:1", "img.test/b:1"}).Draw(t, "image"), Command: []string{"x"},
		Reuse: rapid.IntRange(0, 3).Draw(t, "reuse") == 0,
		When:  rapid.SampledFrom([]string{"", "", "", "true", "false"}).Draw(t, "when"),
	}
	if rapid.IntRange(0, 3).Draw(t, "continue") == 0 {
		p.OnError = v1alpha1.OnErrorContinue
	}
	if rapid.IntRange(0, 2).Draw(t, "retries") == 0 {
		p.Retries = &v1alpha1.Retries{Limit: int32(rapid.IntRange(0, 2).Draw(t, "limit"))}
		if rapid.Bool().Draw(t, "codes") {
			p.Retries.ExitCodes = []int32{1}
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "forEach") {
	case 0:
		p.ForEach = &v1alpha1.ForEach{Items: []string{"u", "v", "w"}[:rapid.IntRange(0, 3).Draw(t, "items")]}
	case 1:
		p.ForEach = &v1alpha1.ForEach{Expression: `["u", "v"]`}
	}
	return p
}

// chaos makes one random thing happen.
func (w *world) chaos() {
	switch rapid.IntRange(0, 9).Draw(w.t, "what") {
	case 0:
		w.intent = rapid.SampledFrom([]v1alpha1.Intent{"Run", "Suspend", "Run", "Cancel"}).Draw(w.t, "intent")
	case 1:
		w.step() // upon a stale observation
	case 2, 3, 4:
		w.seen = w.pod.Observe()
		w.step()
	default:
		moves := w.pod.Moves()
		if len(moves) == 0 {
			w.seen = w.pod.Observe()
			w.step()
			return
		}
		m := rapid.SampledFrom(moves).Draw(w.t, "move")
		rare := m.Kind == fake.Lose || m.Kind == fake.Refuse || m.Kind == fake.Die
		if rare && rapid.IntRange(0, 5).Draw(w.t, "rare") != 0 {
			return
		}
		w.do(m, rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(w.t, "code"))
	}
}

func (w *world) do(m fake.Move, code int) {
	if m.Kind == fake.Start {
		w.checkStart(m.Token)
	}
	w.lost = w.lost || m.Kind == fake.Lose
	w.now = w.now.Add(time.Millisecond)
	w.pod.Do(m, w.now, protocol.Result{ExitCode: code})
	if len(w.pod.Violations) > 0 {
		w.t.Fatalf("%v: %s", m, strings.Join(w.pod.Violations, "; "))
	}
}

func (w *world) step() {
	in := plan.Input{Now: w.now, Name: "d", Intent: w.intent, Program: w.prog, Status: w.status, Observed: w.seen}
	before := fmt.Sprintf("%#v", in.Status)
	out := plan.Step(in)
	if after := fmt.Sprintf("%#v", in.Status); after != before {
		w.t.Fatalf("the step changed its input")
	}
	if w.status.Phase.Terminal() && out.Status.Phase != w.status.Phase {
		w.t.Fatalf("phase went from %s to %s", w.status.Phase, out.Status.Phase)
	}
	w.checkMonotonic(out.Status)
	w.status, w.wake = out.Status, out.Wake
	if !w.status.Phase.Terminal() {
		w.pod.Apply(out.Pod)
		if len(w.pod.Violations) > 0 {
			w.t.Fatalf("%s", strings.Join(w.pod.Violations, "; "))
		}
	}
	in.Status = out.Status
	again := plan.Step(in)
	if diff := cmp.Diff(out.Status, again.Status); diff != "" || len(again.Events) > 0 {
		w.t.Fatalf("a step upon its own output changed something: %s\nevents %v", diff, again.Events)
	}
}

// checkMonotonic: what has ended stays ended.
func (w *world) checkMonotonic(next v1alpha1.DriveStatus) {
	ended := map[string]v1alpha1.PlayPhase{}
	for _, p := range w.status.Plays {
		if p.Phase.Terminal() {
			ended[p.Name] = p.Phase
		}
	}
	for _, p := range next.Plays {
		if was, ok := ended[p.Name]; ok && p.Phase != was {
			w.t.Fatalf("play %s went from %s to %s", p.Name, was, p.Phase)
		}
	}
}

// checkStart: a play starts only after what it needs has ended as its gate asks.
func (w *world) checkStart(token string) {
	name, _, _ := strings.Cut(token, ".")
	i, _ := w.prog.Index(name)
	p := w.prog.Plays[i]
	var needs []int
	switch {
	case !p.Finally:
		needs = p.Needs
	case i > w.prog.Main:
		needs = []int{i - 1}
	default:
		for k := range w.prog.Main {
			needs = append(needs, k)
		}
	}
	for _, n := range needs {
		if !w.endedFor(n, p.Finally) {
			w.t.Fatalf("%s starts before its need %s has ended", token, w.prog.Plays[n].Spec.Name)
		}
	}
}

func (w *world) endedFor(need int, finally bool) bool {
	spec := w.prog.Plays[need].Spec
	results := w.pod.Observe().Results
	for _, p := range w.status.Plays {
		if base, _, _ := strings.Cut(p.Name, "."); base != spec.Name || p.Phase.Terminal() || p.Items != nil {
			continue
		}
		r, ok := results[protocol.Token(p.Name, p.Attempt)]
		last := spec.Retries == nil || p.Attempt > spec.Retries.Limit || w.status.Reason != "" ||
			len(spec.Retries.ExitCodes) > 0 && !slices.Contains(spec.Retries.ExitCodes, int32(r.ExitCode))
		if !ok || !r.Succeeded() && (!last || !finally && spec.OnError != v1alpha1.OnErrorContinue) {
			return false
		}
	}
	return true
}

// drain lets the drive come to its end without further faults.
func (w *world) drain() {
	if w.intent == v1alpha1.IntentSuspend {
		w.intent = v1alpha1.IntentRun
	}
	for range 2000 {
		w.seen = w.pod.Observe()
		w.step()
		if w.status.Phase.Terminal() {
			return
		}
		moved := false
		for _, m := range w.pod.Moves() {
			switch m.Kind {
			case fake.Lose, fake.Refuse, fake.Die:
				continue
			}
			w.do(m, 0)
			moved = true
			break
		}
		if !moved && !w.wake.IsZero() {
			w.now = w.wake
		}
	}
	w.t.Fatalf("the drive hangs: %s", w.describe())
}

func (w *world) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", w.status.Phase, w.status.Reason, w.status.Message)
	for _, p := range w.status.Plays {
		fmt.Fprintf(&b, "  %s %s %s attempt %d in %q\n", p.Name, p.Phase, p.Reason, p.Attempt, p.Slot)
	}
	for _, s := range w.status.Slots {
		fmt.Fprintf(&b, "  %+v\n     %+v\n", s, w.pod.Observe().Slots[s.Name])
	}
	fmt.Fprintf(&b, "  started %v\n  moves %v\n", w.pod.Started, w.pod.Moves())
	return b.String()
}

func (w *world) checkEnd() {
	if r := w.pod.Running(); len(r) > 0 && !w.lost {
		w.t.Fatalf("%v run after the drive's end", r)
	}
	seen := map[string]bool{}
	for _, token := range w.pod.Started {
		if seen[token] {
			w.t.Fatalf("%s ran twice", token)
		}
		seen[token] = true
	}
	bad := ""
	for _, p := range w.status.Plays {
		if !p.Phase.Terminal() {
			w.t.Fatalf("play %s is %s after the drive's end", p.Name, p.Phase)
		}
		base, _, _ := strings.Cut(p.Name, ".")
		i, _ := w.prog.Index(base)
		unreached := p.Phase == v1alpha1.PlaySkipped && p.Reason == v1alpha1.ReasonNotReached
		if unreached || p.Phase == v1alpha1.PlayFailed && w.prog.Plays[i].Spec.OnError != v1alpha1.OnErrorContinue {
			bad = p.Name
		}
	}
	switch {
	case w.status.Phase == v1alpha1.DriveSucceeded && bad != "":
		w.t.Fatalf("the drive succeeded although play %s did not:\n%s", bad, w.describe())
	case w.status.Phase == v1alpha1.DriveFailed && bad == "" && !w.lost:
		w.t.Fatalf("the drive failed without cause: %s", w.describe())
	}
}
