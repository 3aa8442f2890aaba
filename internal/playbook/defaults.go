package playbook

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// withDefaults is a copy with every default filled in. Doing it twice changes nothing.
func withDefaults(spec *v1alpha1.PlaybookSpec) *v1alpha1.PlaybookSpec {
	out := spec.DeepCopy()
	if len(out.Slots) == 0 {
		count := int32(DefaultSlots)
		out.Slots = []v1alpha1.SlotGroup{{Name: DefaultGroup, Count: &count}}
	}
	for i := range out.Slots {
		g := &out.Slots[i]
		if g.Count == nil {
			one := int32(1)
			g.Count = &one
		}
		if g.Resources == nil {
			g.Resources = &corev1.ResourceRequirements{}
		}
	}
	if out.Scratch == nil {
		out.Scratch = &v1alpha1.Scratch{}
	}
	if out.Scratch.MountPath == "" {
		out.Scratch.MountPath = DefaultScratch
	}
	for i := range out.Plays {
		p := &out.Plays[i]
		if p.Needs == nil {
			needs := []string{}
			if i > 0 {
				needs = append(needs, out.Plays[i-1].Name)
			}
			p.Needs = &needs
		}
		defaultPlay(p)
	}
	for i := range out.Finally {
		defaultPlay(&out.Finally[i])
	}
	return out
}

func defaultPlay(p *v1alpha1.Play) {
	if p.OnError == "" {
		p.OnError = v1alpha1.OnErrorStop
	}
	if p.GracePeriodSeconds == nil {
		grace := int64(DefaultGrace)
		p.GracePeriodSeconds = &grace
	}
	if p.Retries != nil && p.Retries.Backoff == nil {
		p.Retries.Backoff = &metav1.Duration{}
	}
	p.Resources = requested(p.Resources)
}

// requested fills in the requests as Kubernetes does: what is limited but not requested is requested as limited.
func requested(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	if len(r.Limits) == 0 {
		return r
	}
	requests := maps.Clone(r.Limits)
	maps.Copy(requests, r.Requests)
	r.Requests = requests
	return r
}
