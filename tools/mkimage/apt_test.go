package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseURIs(t *testing.T) {
	out := "Reading package lists...\n" +
		"'http://mirror.example/pool/libc6_2.36-9%2bdeb12u14_amd64.deb' libc6_2.36-9+deb12u14_amd64.deb 2759320 MD5Sum:8d98\n" +
		"'http://mirror.example/pool/busybox-static_1.35.0-4_amd64.deb' busybox-static_1%3a1.35.0-4_amd64.deb 1 SHA256:aa\n"
	got, err := parseURIs([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	want := []Deb{
		{Name: "libc6", Version: "2.36-9+deb12u14", Arch: "amd64", File: "libc6_2.36-9+deb12u14_amd64.deb"},
		{Name: "busybox-static", Version: "1:1.35.0-4", Arch: "amd64", File: "busybox-static_1%3a1.35.0-4_amd64.deb"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"'http://x'\n", "'http://x' strange.deb 12 MD5Sum:0\n", "'http://x' a_%zz_amd64.deb 12\n"} {
		if _, err := parseURIs([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a package", bad)
		}
	}
}

func TestAptTellsWhatToDo(t *testing.T) {
	apt, err := NewApt(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = apt.Closure(t.Context(), []string{"no-package-has-this-name"})
	if err == nil || !strings.Contains(err.Error(), "no-package-has-this-name") || !strings.Contains(err.Error(), "apt-get update") {
		t.Errorf("error for an unknown package: %v", err)
	}
}
