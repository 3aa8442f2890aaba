// Package simulate owns the answer to "what would run when in which slot, and what would the pod ask for": it runs a
// playbook through the real planner on a simulated pod where every play takes one moment and succeeds.
package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/engine/fake"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// Forecast is how a drive would go if every play succeeded and took equally long.
type Forecast struct {
	Moments []Moment `json:"moments"`
	// Peak is the largest request of any moment, resource by resource: what the pod has to ask for.
	Peak corev1.ResourceList `json:"peak,omitempty"`
	// AllAtOnce is what a pod with a container for each play would ask for.
	AllAtOnce corev1.ResourceList `json:"allAtOnce,omitempty"`
	// Unknown names the plays of which something (when, forEach, image) is known at run time only. They are taken to run,
	// and those with forEach to have one item.
	Unknown []string `json:"unknown,omitempty"`
}

// Moment is a stretch of time in which the same plays run.
type Moment struct {
	Slots []Slot `json:"slots"`
	// Request of the pod in this moment: of what runs and what is staged.
	Request corev1.ResourceList `json:"request,omitempty"`
}

// Slot is what a slot holds in a moment.
type Slot struct {
	Name  string `json:"name"`
	Play  string `json:"play,omitempty"`
	Image string `json:"image,omitempty"`
	// Phase is Running, Staged or, where the slot holds nothing, "".
	Phase v1alpha1.PlayPhase `json:"phase,omitempty"`
	// Reused says that the play runs in the container of the play before it.
	Reused bool `json:"reused,omitempty"`
}

// Run makes the forecast for a playbook with these params. Its errors are those of playbook.Compile.
func Run(name string, spec *v1alpha1.PlaybookSpec, params map[string]string) (*Forecast, error) {
	original, err := playbook.Compile(spec, params)
	if err != nil {
		return nil, err
	}
	known, unknown := settled(original, spec)
	prog, err := playbook.Compile(known, params)
	if err != nil {
		return nil, err
	}
	f := &Forecast{Unknown: unknown}
	r := &run{prog: prog, pod: fake.New(), now: time.Unix(0, 0), name: name, owners: map[string]int64{}}
	for !r.status.Phase.Terminal() {
		r.step()
		if !r.reach() {
			break
		}
		if m := r.moment(); len(r.pod.Running()) > 0 {
			f.Moments = append(f.Moments, m)
			f.Peak = larger(f.Peak, m.Request)
		}
		r.endAll()
	}
	if !r.status.Phase.Terminal() {
		return nil, fmt.Errorf("the forecast of %s came to no end: phase %s", name, r.status.Phase)
	}
	for _, p := range r.status.Plays {
		if p.Items == nil && p.Phase == v1alpha1.PlaySucceeded {
			f.AllAtOnce = sum(f.AllAtOnce, r.requests(p.Name))
		}
	}
	return f, nil
}

// settled is a copy of the playbook without what is known at run time only, and the names of the plays concerned.
func settled(prog *playbook.Program, spec *v1alpha1.PlaybookSpec) (*v1alpha1.PlaybookSpec, []string) {
	out := spec.DeepCopy()
	var unknown []string
	edit := func(p *v1alpha1.Play, compiled *playbook.Play) {
		p.Command, p.Args, p.Script, p.Env, p.WorkingDir = []string{"-"}, nil, "", nil, ""
		later := false
		if len(compiled.Refs) > 0 || compiled.ReadsDrive {
			if p.When != "" {
				p.When, later = "", true
			}
			if p.ForEach != nil && p.ForEach.Expression != "" {
				p.ForEach, later = &v1alpha1.ForEach{Items: []string{"?"}}, true
			}
			if strings.Contains(p.Image, "${{") {
				p.Image, later = "known.at/run-time", true
			}
		}
		if later {
			unknown = append(unknown, p.Name)
		}
	}
	for i := range out.Plays {
		edit(&out.Plays[i], prog.Plays[i])
	}
	for i := range out.Finally {
		edit(&out.Finally[i], prog.Plays[prog.Main+i])
	}
	return out, unknown
}

type run struct {
	name   string
	prog   *playbook.Program
	pod    *fake.Pod
	status v1alpha1.DriveStatus
	want   plan.Pod
	now    time.Time
	owners map[string]int64 // slot → swap in which an attempt has run before
}

func (r *run) step() {
	out := plan.Step(plan.Input{Now: r.now, Name: r.name, Program: r.prog, Status: r.status, Observed: r.pod.Observe()})
	r.status, r.want = out.Status, out.Pod
	if !r.status.Phase.Terminal() {
		r.pod.Apply(out.Pod)
	}
}

// reach lets everything happen but the ends of plays; it says whether anything is left to come.
func (r *run) reach() bool {
	for moved := true; moved; {
		moved = false
		for _, m := range r.pod.Moves() {
			if m.Kind == fake.Up || m.Kind == fake.Take || m.Kind == fake.Start {
				r.pod.Do(m, r.now, protocol.Result{})
				moved = true
				break
			}
		}
		r.step()
	}
	return !r.status.Phase.Terminal() && len(r.pod.Running()) > 0
}

// endAll ends every play that runs, and lets time pass.
func (r *run) endAll() {
	r.now = r.now.Add(time.Second)
	running := r.pod.Running()
	for _, m := range r.pod.Moves() {
		if m.Kind == fake.End && slices.Contains(running, m.Token) {
			r.pod.Do(m, r.now, protocol.Result{})
		}
	}
}

func (r *run) moment() Moment {
	m := Moment{}
	phases := map[string]v1alpha1.PlayPhase{}
	for _, p := range r.status.Plays {
		phases[p.Name] = p.Phase
	}
	for _, s := range r.status.Slots {
		out := Slot{Name: s.Name}
		if s.Play != "" {
			out.Play, out.Image, out.Phase = s.Play, s.Image, phases[s.Play]
			out.Reused = out.Phase == v1alpha1.PlayRunning && r.owners[s.Name] == s.Swap
			if out.Phase == v1alpha1.PlayRunning {
				r.owners[s.Name] = s.Swap
			}
			m.Request = sum(m.Request, r.requests(s.Play))
		}
		m.Slots = append(m.Slots, out)
	}
	return m
}

// requests are a play's requests; as in Kubernetes, a limit without a request counts as one.
func (r *run) requests(play string) corev1.ResourceList {
	base, _, _ := strings.Cut(play, ".")
	i, _ := r.prog.Index(base)
	res := r.prog.Plays[i].Spec.Resources
	return larger(res.Requests, missing(res.Limits, res.Requests))
}

func missing(of, in corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for k, v := range of {
		if _, ok := in[k]; !ok {
			out[k] = v
		}
	}
	return out
}

func sum(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	for k, v := range b {
		if out == nil {
			out = corev1.ResourceList{}
		}
		q := out[k]
		q.Add(v)
		out[k] = q
	}
	return out
}

func larger(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	for k, v := range b {
		if out == nil {
			out = corev1.ResourceList{}
		}
		if q, ok := out[k]; !ok || q.Cmp(v) < 0 {
			out[k] = v
		}
	}
	return out
}
