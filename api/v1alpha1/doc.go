// Package v1alpha1 owns the language of nohuddle: the kinds Playbook and Drive of the group nohuddle.dev.
//
// It holds types, constants and their documentation only. What makes a playbook valid beyond its types lives in
// package playbook, what a drive does next in package plan; this package must import neither.
//
// +kubebuilder:object:generate=true
// +groupName=nohuddle.dev
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "nohuddle.dev", Version: "v1alpha1"}

// The kinds, as they stand in a manifest's kind field.
const (
	KindPlaybook = "Playbook"
	KindDrive    = "Drive"
)
