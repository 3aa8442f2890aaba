package reference

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestParse(t *testing.T) {
	tests := []struct {
		in   string
		want Ref
	}{
		{"debian", Ref{Name: "docker.io/library/debian:latest", Repository: "docker.io/library/debian", Tag: "latest"}},
		{"debian:12", Ref{Name: "docker.io/library/debian:12", Repository: "docker.io/library/debian", Tag: "12"}},
		{"docker.io/debian", Ref{Name: "docker.io/library/debian:latest", Repository: "docker.io/library/debian", Tag: "latest"}},
		{"index.docker.io/a/b:1", Ref{Name: "docker.io/a/b:1", Repository: "docker.io/a/b", Tag: "1"}},
		{"example.com/a/b__c:v1.2-x", Ref{Name: "example.com/a/b__c:v1.2-x", Repository: "example.com/a/b__c", Tag: "v1.2-x"}},
		{"localhost:5000/a", Ref{Name: "localhost:5000/a:latest", Repository: "localhost:5000/a", Tag: "latest"}},
		{"127.0.0.1:5000/a:1@" + digest, Ref{Name: "127.0.0.1:5000/a@" + digest, Repository: "127.0.0.1:5000/a", Digest: digest}},
		{"oci:/d", Ref{Transport: Layout, Path: "/d"}},
		{"oci:build/images:examples.nohuddle.dev/samtools:1.16", Ref{Transport: Layout, Path: "build/images", Tag: "examples.nohuddle.dev/samtools:1.16"}},
		{"oci-archive:a.tar:v1", Ref{Transport: LayoutArchive, Path: "a.tar", Tag: "v1"}},
		{"docker-archive:/x/a.tar", Ref{Transport: DockerArchive, Path: "/x/a.tar"}},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			again, err := Parse(got.String())
			if err != nil {
				t.Fatalf("its String %q: %v", got, err)
			}
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("Parse(String()) -want +got:\n%s", diff)
			}
		})
	}
}

var malformedRefs = []string{
	"", " ", "a b", "Debian", "a:", "a:b:c", ":tag", "a@sha256:12", "a@" + digest + "@" + digest, "http://a/b", "docker://a",
	"a//b", "/a", "a/", "a/-b", "a:-x", "example.com/", "a:" + strings.Repeat("x", 129), "a\nb", "oci:", "oci::x", "oci:d:",
	"docker-archive:", "oci:a\x00b", "ä", "a/../b",
}

func TestParseMalformed(t *testing.T) {
	for _, in := range malformedRefs {
		t.Run(in, func(t *testing.T) {
			ref, err := Parse(in)
			if err == nil {
				t.Fatalf("accepted as %+v", ref)
			}
			if msg := err.Error(); strings.Contains(msg, "\n") || !strings.HasPrefix(msg, "image \"") {
				t.Errorf("not one sentence that quotes the reference: %s", msg)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range append(malformedRefs, "debian:12", "oci:d:n", "h:1/a@"+digest) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(ref.String())
		if err != nil || again != ref {
			t.Errorf("%q: %+v, but its String %q: %+v, %v", s, ref, ref.String(), again, err)
		}
	})
}
