package playbook

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// slots makes the groups and checks them.
func (c *compiler) slots() {
	first := map[string]int{}
	slotNames := map[string]int{}
	total := 0
	for i, g := range c.spec.Slots {
		at := index(field(c.root, "slots"), i)
		if c.label(field(at, "name"), "a slot group's name", g.Name) {
			if len(g.Name) > 60 {
				c.problems.add(field(at, "name"), "the name has %d characters, at most 60 are allowed, so that the slots' names fit", len(g.Name))
			}
			if earlier, ok := first[g.Name]; ok {
				c.problems.add(field(at, "name"), "the name %q is taken by %s", g.Name, index(field(c.root, "slots"), earlier))
			} else {
				first[g.Name] = i
			}
		}
		group := SlotGroup{Name: g.Name, Resources: *g.Resources}
		if n := *g.Count; n < 1 || n > MaxSlotsPerGroup {
			c.problems.add(field(at, "count"), "%d is not a number of slots: 1 to %d", n, MaxSlotsPerGroup)
		} else {
			total += int(n)
			for k := range n {
				name := fmt.Sprintf("%s-%d", g.Name, k)
				if other, ok := slotNames[name]; ok && other != i && first[g.Name] == i {
					c.problems.add(field(at, "name"), "the slot %s would be in two groups", name)
				}
				slotNames[name] = i
				group.Slots = append(group.Slots, name)
			}
		}
		c.resources(field(at, "resources"), *g.Resources)
		c.prog.Groups = append(c.prog.Groups, group)
	}
	if total > MaxSlots {
		c.problems.add(field(c.root, "slots"), "there are %d slots in all, at most %d are allowed", total, MaxSlots)
	}
}

// scratch checks the volume.
func (c *compiler) scratch() {
	s := c.spec.Scratch
	at := field(c.root, "scratch")
	if problem := mountProblem(s.MountPath); problem != "" {
		c.problems.add(field(at, "mountPath"), "%q can't be the scratch's path: %s", s.MountPath, problem)
	}
	if s.SizeLimit != nil && s.SizeLimit.Sign() <= 0 {
		c.problems.add(field(at, "sizeLimit"), "%s is not a size: it must be more than 0", s.SizeLimit)
	}
	c.wholeBytes(field(at, "sizeLimit"), s.SizeLimit)
	switch s.Medium {
	case corev1.StorageMediumDefault, corev1.StorageMediumMemory:
	default:
		c.problems.add(field(at, "medium"), `%q is not a medium: leave it out for the node's disk, or write Memory`, s.Medium)
	}
}

// mountProblem is what is wrong with a path to mount the scratch at, or "".
func mountProblem(p string) string {
	switch {
	case !strings.HasPrefix(p, "/"):
		return "it must be absolute"
	case strings.ContainsAny(p, ":\x00"):
		return "it must not have a colon or the byte 0 in it"
	case path.Clean(p) != strings.TrimSuffix(p, "/") || path.Clean(p) == "/":
		return "it must be a folder below /, without . and .. and doubled slashes"
	}
	for _, taken := range []string{"/nohuddle", "/proc", "/sys", "/dev"} {
		if p == taken || strings.HasPrefix(p, taken+"/") {
			return taken + " is taken"
		}
	}
	return ""
}

// groups finds the groups that a play can run in: its slot if it names one, else those that have what it asks for; of
// these, the ones with the fewest extended resources that it doesn't ask for, so that it leaves a GPU to those who need it.
func (c *compiler) groups(p *Play) {
	at := c.path(p)
	var why []string
	fewest := -1
	named := false
	for i := range c.prog.Groups {
		g := &c.prog.Groups[i]
		if p.Spec.Slot != "" && p.Spec.Slot != g.Name {
			continue
		}
		named = true
		if reason := g.lacks(p.Spec.Resources); reason != "" {
			why = append(why, reason)
			continue
		}
		switch n := g.idle(p.Spec.Resources); {
		case fewest < 0 || n < fewest:
			fewest, p.Groups = n, []int{i}
		case n == fewest:
			p.Groups = append(p.Groups, i)
		}
	}
	if !named {
		names := groupNames(c.spec.Slots)
		c.problems.add(field(at, "slot"), "there is no slot group %q; the groups are %s%s", p.Spec.Slot, listed(names), didYouMean(p.Spec.Slot, names))
	} else if len(p.Groups) == 0 {
		c.problems.add(field(at, "resources"), "no slot can hold this play: %s", strings.Join(why, "; "))
	}
}

func groupNames(groups []v1alpha1.SlotGroup) []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Name
	}
	return names
}

// offers is how much of a resource a slot has; false where that isn't said.
func (g *SlotGroup) offers(name corev1.ResourceName) (resource.Quantity, bool) {
	if q, ok := g.Resources.Limits[name]; ok {
		return q, true
	}
	q, ok := g.Resources.Requests[name]
	return q, ok
}

// lacks is why the group can't hold these resources, or "".
func (g *SlotGroup) lacks(r corev1.ResourceRequirements) string {
	for _, list := range []struct {
		what string
		list corev1.ResourceList
	}{{"limit", r.Limits}, {"request", r.Requests}} {
		for _, name := range resourceNames(list.list) {
			want := list.list[name]
			has, said := g.offers(name)
			switch {
			case said && want.Cmp(has) > 0:
				return fmt.Sprintf("its %s for %s is %s, group %s has %s", list.what, name, want.String(), g.Name, has.String())
			case !said && extended(name) && !want.IsZero():
				return fmt.Sprintf("it asks for %s, group %s does not have it: add it to the resources of a slot group", name, g.Name)
			}
		}
	}
	return ""
}

// idle is how many extended resources of the group these resources would leave unused.
func (g *SlotGroup) idle(r corev1.ResourceRequirements) int {
	n := 0
	for _, list := range []corev1.ResourceList{g.Resources.Limits, g.Resources.Requests} {
		for name := range list {
			_, limit := r.Limits[name]
			_, request := r.Requests[name]
			if extended(name) && !limit && !request {
				n++
			}
		}
	}
	return n
}
