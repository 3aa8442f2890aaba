package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/engine/fake"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// TestScenarios replays the transcripts in testdata. They are meant to be read: each shows a piece of the protocol
// between planner, engine and shims. Run with -rewrite to make them anew after a change, and read the difference.
//
// Commands: playbook (YAML), step, intent NAME, tick DURATION, and what happens in the pod: up, take, start, shut, end,
// die, refuse SLOT; end takes code=N and key=value outputs.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &scenario{pod: fake.New(), now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.command(t, d)
		})
	})
}

type scenario struct {
	prog   *playbook.Program
	pod    *fake.Pod
	now    time.Time
	intent v1alpha1.Intent
	status v1alpha1.DriveStatus
	want   plan.Pod
}

func (s *scenario) command(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "playbook":
		var spec v1alpha1.PlaybookSpec
		if err := yaml.UnmarshalStrict([]byte(d.Input), &spec); err != nil {
			d.Fatalf(t, "%v", err)
		}
		prog, err := playbook.Compile(&spec, nil)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.prog = prog
		return ""
	case "intent":
		s.intent = v1alpha1.Intent(d.CmdArgs[0].Key)
	case "tick":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.now = s.now.Add(by)
	case "step":
	default:
		s.move(t, d)
	}
	return s.step()
}

// move makes something happen in the pod.
func (s *scenario) move(t *testing.T, d *datadriven.TestData) {
	kind := fake.Kind(strings.ToUpper(d.Cmd[:1]) + d.Cmd[1:])
	var r protocol.Result
	for _, arg := range d.CmdArgs[1:] {
		if arg.Key == "code" {
			arg.Scan(t, 0, &r.ExitCode)
			continue
		}
		if r.Outputs == nil {
			r.Outputs = map[string]string{}
		}
		r.Outputs[arg.Key] = strings.Join(arg.Vals, ",")
	}
	for _, m := range s.pod.Moves() {
		if m.Kind == kind && s.want.Slots[m.Slot].Name == d.CmdArgs[0].Key {
			s.pod.Do(m, s.now, r)
			return
		}
	}
	d.Fatalf(t, "%s is not possible now; possible: %v", d.Cmd, s.pod.Moves())
}

// step steps, applies, and tells what is new.
func (s *scenario) step() string {
	out := plan.Step(plan.Input{
		Now: s.now, Name: "demo", Intent: s.intent, Program: s.prog, Status: s.status, Observed: s.pod.Observe(),
	})
	var b strings.Builder
	for _, e := range out.Events {
		b.WriteString(strings.Join(strings.Fields(strings.Join([]string{e.Reason, e.Play, attempt(e), e.Message}, " ")), " ") + "\n")
	}
	for i, w := range out.Pod.Slots {
		if i >= len(s.want.Slots) || line(w) != line(s.want.Slots[i]) {
			b.WriteString("  " + line(w) + "\n")
		}
	}
	if !out.Wake.IsZero() {
		fmt.Fprintf(&b, "  wake in %s\n", out.Wake.Sub(s.now))
	}
	s.status = out.Status
	if out.Status.Phase.Terminal() {
		return b.String()
	}
	s.want = out.Pod
	s.pod.Apply(out.Pod)
	return b.String()
}

func attempt(e plan.Event) string {
	if e.Attempt == 0 {
		return ""
	}
	return fmt.Sprintf("attempt %d in %s", e.Attempt, e.Slot)
}

// line shows what is asked of a slot.
func line(w plan.Slot) string {
	a := w.Assignment
	out := fmt.Sprintf("%s: container %d", w.Name, w.Swap)
	if w.Swap == 0 {
		out = fmt.Sprintf("%s: empty", w.Name)
	} else {
		out += " of " + w.Image
	}
	switch {
	case a.End != nil:
		return out + fmt.Sprintf(", exit with %d", *a.End)
	case a.Token == "":
		return out + ", nothing to run"
	case a.Stop:
		return out + ", stop " + a.Token
	}
	out += ", run " + a.Token
	for i, n := range a.Gate {
		out += []string{" when ", " and "}[min(i, 1)] + n.Token + map[bool]string{false: " has succeeded", true: " has ended"}[n.Any]
	}
	return out
}
