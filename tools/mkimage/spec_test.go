package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadSpecRefuses(t *testing.T) {
	tests := map[string]struct{ spec, want string }{
		"unknown field":  {"registry: r\nimages: [{name: a, version: '1', color: red}]", `unknown field "color"`},
		"no registry":    {"images: [{name: a, version: '1'}]", "registry: must be set"},
		"no images":      {"registry: r", "images: at least one is needed"},
		"no version":     {"registry: r\nimages: [{name: a}]", "images[0]: name and version must be set"},
		"name twice":     {"registry: r\nimages: [{name: a, version: '1'}, {name: a, version: '2'}]", `there are two images "a"`},
		"from a later":   {"registry: r\nimages: [{name: a, version: '1', from: b}, {name: b, version: '1'}]", `no image "b" before`},
		"from an absent": {"registry: r\nimages: [{name: a, version: '1', from: z}]", `no image "z" before`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "images.yaml")
			if err := os.WriteFile(file, []byte(test.spec), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := ReadSpec(file)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("ReadSpec: %v, want an error with %q and the file's name", err, test.want)
			}
		})
	}
}

func TestExamplesSpec(t *testing.T) {
	spec, err := ReadSpec("../../examples/images.yaml")
	if err != nil {
		t.Fatal(err)
	}
	samtools := spec.find("samtools", len(spec.Images))
	if got, want := spec.Reference(samtools), "examples.nohuddle.dev/samtools:1.16.1"; got != want {
		t.Errorf("reference %s, want %s", got, want)
	}
	base := spec.find("base", len(spec.Images))
	if diff := cmp.Diff(append([]string{"samtools"}, base.Packages...), samtools.closurePackages(spec)); diff != "" {
		t.Errorf("packages of samtools and below (-want +got):\n%s", diff)
	}
}

func TestUpstreamVersion(t *testing.T) {
	for version, want := range map[string]string{
		"1.16.1-1":               "1.16.1",
		"1:1.35.0-4+deb12u1+b1":  "1.35.0",
		"0.23.2+dfsg-2+b1":       "0.23.2",
		"5.4.4+dfsg1-2+b2":       "5.4.4",
		"0.9.27+git20200814-1":   "0.9.27",
		"2023.3+deb12u1":         "2023.3",
		"1.0-rc1-3":              "1.0-rc1",
		"4:12.2.0-3~bpo12":       "12.2.0",
		"0.7.17-7+b2":            "0.7.17",
		"2:1.23~2~bpo12+1":       "1.23~2~bpo12",
		"1:2.1.27+dfsg2-5+b1-x2": "2.1.27",
	} {
		if got := (Deb{Version: version}).Upstream(); got != want {
			t.Errorf("upstream version of %s: %s, want %s", version, got, want)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	img := &Image{Name: "bwa", Version: "0.7.17", Packages: []string{"bwa"}}
	if err := img.checkVersion([]Deb{{Name: "libc6", Version: "2.36"}, {Name: "bwa", Version: "0.7.17-7"}}); err != nil {
		t.Error(err)
	}
	err := img.checkVersion([]Deb{{Name: "bwa", Version: "0.7.18-1"}})
	if err == nil || !strings.Contains(err.Error(), "image bwa: the spec wants version 0.7.17, but apt offers 0.7.18-1") {
		t.Errorf("another version than the tag's: %v", err)
	}
}

func TestKeysDependOnEverything(t *testing.T) {
	spec := &Spec{Registry: "r", Images: []*Image{{Name: "a", Version: "1"}}}
	one := packagesKey(spec, map[string][]Deb{"a": {{Name: "p", Version: "1"}}})
	if again := packagesKey(spec, map[string][]Deb{"a": {{Name: "p", Version: "1"}}}); again != one {
		t.Error("the same packages have two keys")
	}
	if other := packagesKey(spec, map[string][]Deb{"a": {{Name: "p", Version: "2"}}}); other == one {
		t.Error("another version has the same key")
	}
	spec.Images[0].Cmd = []string{"sh"}
	if other := packagesKey(spec, map[string][]Deb{"a": {{Name: "p", Version: "1"}}}); other == one {
		t.Error("another config has the same key")
	}
}
