package playbook

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// extended says whether a resource exists only where it is offered: a GPU, huge pages.
func extended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func resourceNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for n := range list {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// resources checks requests and limits.
func (c *compiler) resources(at string, r corev1.ResourceRequirements) {
	if len(r.Claims) > 0 {
		c.problems.add(field(at, "claims"), "%s", notYet("resources.claims"))
	}
	limits, requests := field(at, "limits"), field(at, "requests")
	for _, name := range resourceNames(r.Limits) {
		c.quantity(key(limits, string(name)), name, r.Limits[name])
	}
	for _, name := range resourceNames(r.Requests) {
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		if limited && request.Cmp(limit) == 0 {
			continue // the default, or what is said of the limit already
		}
		path := key(requests, string(name))
		c.quantity(path, name, request)
		switch {
		case limited && request.Cmp(limit) > 0:
			c.problems.add(path, "the request %s is above the limit %s", request.String(), limit.String())
		case extended(name):
			c.problems.add(path, "%s can't be shared: set its limit to the same number, or only the limit", name)
		}
	}
}

// quantity checks the name and the amount of one resource.
func (c *compiler) quantity(path string, name corev1.ResourceName, q resource.Quantity) {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
	default:
		if !extended(name) || len(validation.IsQualifiedName(string(name))) > 0 {
			known := []string{"cpu", "memory", "ephemeral-storage"}
			c.problems.add(path, "%q is not a resource: cpu, memory, ephemeral-storage, hugepages-<size> or <domain>/<name>%s", name, didYouMean(string(name), known))
			return
		}
	}
	if q.Sign() < 0 {
		c.problems.add(path, "%s is below 0", q.String())
		return
	}
	switch {
	case name == corev1.ResourceCPU:
	case extended(name) && strings.Contains(string(name), "/"):
		if q.MilliValue()%1000 != 0 {
			c.problems.add(path, "%s is not a whole number, and %s can't be divided", q.String(), name)
		}
	default:
		c.wholeBytes(path, &q)
	}
}

// wholeBytes refuses fractions of a byte: 512m is half a byte, and never what is meant.
func (c *compiler) wholeBytes(path string, q *resource.Quantity) {
	if q == nil || q.Cmp(*resource.NewQuantity(1<<50, resource.BinarySI)) > 0 || q.MilliValue()%1000 == 0 {
		return
	}
	c.problems.add(path, "%s has a fraction of a byte: m is for thousandths, mebibytes are written Mi", q.String())
}
