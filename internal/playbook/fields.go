package playbook

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// The fields of Kubernetes' own types that manifests can have; the others mean nothing here.
var allowed = map[reflect.Type][]string{
	reflect.TypeFor[metav1.ObjectMeta]():           {"name", "generateName", "namespace", "labels", "annotations", "creationTimestamp"},
	reflect.TypeFor[corev1.ResourceRequirements](): {"requests", "limits"},
}

// The fields that the language has but this version doesn't.
var planned = map[reflect.Type][]string{
	reflect.TypeFor[v1alpha1.PlaybookSpec](): {"team", "quarterback", "reserve", "prefetch", "pod", "results", "podFailure", "timeout", "onFailure"},
	reflect.TypeFor[v1alpha1.DriveSpec]():    {"playbookRef", "ttlSecondsAfterFinished", "suspendMode", "timeout"},
	reflect.TypeFor[v1alpha1.Play]():         {"service", "approval", "cache", "envFrom", "maxParallel", "securityContext", "volumeMounts"},
	reflect.TypeFor[v1alpha1.EnvVarSource](): {"configMapKeyRef", "fieldRef", "resourceFieldRef", "fileKeyRef"},
	reflect.TypeFor[v1alpha1.Param]():        {"enum", "pattern", "type"},
	reflect.TypeFor[v1alpha1.Retries]():      {"onOOM", "memoryFactor", "maxBackoff"},
	reflect.TypeFor[v1alpha1.Scratch]():      {"volumeClaimTemplate"},
	reflect.TypeFor[v1alpha1.SlotGroup]():    {"securityContext"},
}

// notYet is the answer to a field that the language has but this version doesn't.
func notYet(name string) string {
	return fmt.Sprintf("%s is part of the language but this version does not have it yet", name)
}

// unknown is the answer to a field that a type doesn't have.
func unknown(t reflect.Type, name string, fields map[string][]int) string {
	for _, p := range planned[t] {
		if p == name {
			return notYet(name)
		}
	}
	known := sortedKeys(fields)
	if hint := didYouMean(name, known); hint != "" {
		return "there is no such field" + hint
	}
	return "there is no such field; there are " + listed(known)
}

// fieldsOf are a struct's fields by the names of their json tags, with those of structs that are inlined.
func fieldsOf(t reflect.Type) map[string][]int {
	out := map[string][]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name != "":
			out[name] = f.Index
		case f.Anonymous: // as package json takes it, whatever Kubernetes writes into the tag
			for inner, index := range fieldsOf(f.Type) {
				out[inner] = append([]int{i}, index...)
			}
		}
	}
	for name := range out {
		if names, ok := allowed[t]; ok && !slices.Contains(names, name) {
			delete(out, name)
		}
	}
	return out
}
