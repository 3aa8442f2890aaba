package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// step is one step's working state: the status taken apart, so that it can be changed without touching the input.
type step struct {
	in      Input
	status  v1alpha1.DriveStatus
	plays   []v1alpha1.PlayStatus // a copy that the nodes and units point into, as long as it has all of them
	nodes   []node
	order   []int // indexes of nodes, needs before those that need them
	slots   []slot
	verdict string // why the drive will not succeed; "" as long as it may
	ending  bool
	again   bool
	events  []Event
	wake    time.Time
}

// node is a play of the program. One without forEach has a single unit that shares its status; one with forEach has a
// unit for each item once the list is known, and none before.
type node struct {
	play   *playbook.Play
	status *v1alpha1.PlayStatus
	units  []*unit
}

// unit is what can be put into a slot: a play, or an item of one.
type unit struct {
	node   *node
	status *v1alpha1.PlayStatus
}

func (u *unit) token() string { return protocol.Token(u.status.Name, u.status.Attempt) }

// slot is a slot with the unit that it holds.
type slot struct {
	v1alpha1.SlotStatus
	group int
	unit  *unit
}

// free empties the slot.
func (sl *slot) free() {
	sl.Play, sl.Attempt, sl.Recall, sl.unit = "", 0, "", nil
}

func load(in Input) *step {
	s := &step{in: in, status: in.Status, nodes: make([]node, len(in.Program.Plays))}
	if in.Status.StartedAt == nil {
		s.begin()
	} else {
		s.resume()
	}
	s.order = order(in.Program)
	s.verdict = s.status.Reason
	if s.verdict == v1alpha1.ReasonSuspended {
		s.verdict, s.status.Message = "", ""
	}
	return s
}

// begin makes the first status.
func (s *step) begin() {
	s.status.StartedAt = s.now()
	plays := make([]v1alpha1.PlayStatus, len(s.nodes))
	s.plays = plays
	for i, p := range s.in.Program.Plays {
		plays[i] = v1alpha1.PlayStatus{Name: p.Spec.Name, Phase: v1alpha1.PlayPending}
		s.nodes[i] = node{play: p, status: &plays[i]}
		if p.Spec.ForEach == nil {
			s.nodes[i].units = []*unit{{node: &s.nodes[i], status: &plays[i]}}
		}
	}
	for g, group := range s.in.Program.Groups {
		for _, name := range group.Slots {
			s.slots = append(s.slots, slot{SlotStatus: v1alpha1.SlotStatus{Name: name}, group: g})
		}
	}
	s.tell(Normal, EventDriveStarted, nil, "")
}

// resume takes the last status apart. Entries of items follow the entry of their play.
func (s *step) resume() {
	plays := slices.Clone(s.in.Status.Plays)
	s.plays = plays
	next := 0
	for i, p := range s.in.Program.Plays {
		n := &s.nodes[i]
		*n = node{play: p, status: &plays[next]}
		next++
		if p.Spec.ForEach == nil {
			n.units = []*unit{{node: n, status: n.status}}
			continue
		}
		if n.status.Items != nil {
			n.units = make([]*unit, *n.status.Items)
			for k := range n.units {
				n.units[k] = &unit{node: n, status: &plays[next]}
				next++
			}
		}
	}
	k := 0
	for g, group := range s.in.Program.Groups {
		for range group.Slots {
			sl := slot{SlotStatus: s.in.Status.Slots[k], group: g}
			sl.unit = s.find(sl.Play)
			s.slots = append(s.slots, sl)
			k++
		}
	}
}

// find returns the unit of this name, nil for "".
func (s *step) find(name string) *unit {
	if name == "" {
		return nil
	}
	play, item, isItem := strings.Cut(name, ".")
	i, ok := s.in.Program.Index(play)
	if !ok {
		return nil
	}
	k := 0
	if isItem {
		k, _ = strconv.Atoi(item)
	}
	if k >= len(s.nodes[i].units) {
		return nil
	}
	return s.nodes[i].units[k]
}

// save puts the status together again.
func (s *step) save() v1alpha1.DriveStatus {
	st := s.status
	st.Reason = s.verdict
	if st.Phase == v1alpha1.DriveSuspended && s.verdict == "" {
		st.Reason, st.Message = v1alpha1.ReasonSuspended, "suspended by the user"
	}
	st.Plays = s.plays
	if st.Plays == nil {
		st.Plays = s.gather()
	}
	st.Slots = make([]v1alpha1.SlotStatus, len(s.slots))
	for i := range s.slots {
		st.Slots[i] = s.slots[i].SlotStatus
	}
	return st
}

// gather puts the plays' statuses together anew, because there are other items than before.
func (s *step) gather() []v1alpha1.PlayStatus {
	var plays []v1alpha1.PlayStatus
	for i := range s.nodes {
		n := &s.nodes[i]
		plays = append(plays, *n.status)
		if n.play.Spec.ForEach == nil {
			continue
		}
		for _, u := range n.units {
			plays = append(plays, *u.status)
		}
	}
	return plays
}

// mainDone says whether the plays before finally have ended.
func (s *step) mainDone() bool { return done(s.nodes[:s.in.Program.Main]) }

// allDone says whether all plays have ended, and every slot is rid of them.
func (s *step) allDone() bool { return done(s.nodes) && !s.busy() }

func done(nodes []node) bool {
	for i := range nodes {
		if !nodes[i].status.Phase.Terminal() {
			return false
		}
	}
	return true
}

// busy says whether a slot holds an attempt.
func (s *step) busy() bool {
	for i := range s.slots {
		if s.slots[i].Play != "" {
			return true
		}
	}
	return false
}

// order sorts the plays so that each comes after its needs.
func order(p *playbook.Program) []int {
	out := make([]int, 0, len(p.Plays))
	seen := make([]bool, len(p.Plays))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, n := range p.Plays[i].Needs {
			visit(n)
		}
		out = append(out, i)
	}
	for i := range p.Plays {
		visit(i)
	}
	return out
}

func bytes(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
