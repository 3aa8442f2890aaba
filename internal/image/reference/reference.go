// Package reference owns the syntax of image references: what a playbook may write in an image field.
//
// It says what a reference means, never whether the image exists: it must not open files or connections, and it stays
// small because the language's validation is linked with it.
package reference

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// The transports. A reference without one of these prefixes names an image of a registry.
const (
	// Registry is the transport of references such as debian:12 or example.com/a/b@sha256:….
	Registry = ""
	// Layout is an OCI layout directory: oci:DIR[:NAME].
	Layout = "oci"
	// LayoutArchive is a tar file that holds an OCI layout: oci-archive:FILE[:NAME].
	LayoutArchive = "oci-archive"
	// DockerArchive is what `docker save` writes: docker-archive:FILE[:NAME].
	DockerArchive = "docker-archive"
)

// Ref is a parsed reference.
type Ref struct {
	// Transport is one of the constants above.
	Transport string
	// Name is the canonical name of an image of a registry, with the registry's host and the tag or digest that a short
	// form leaves out: docker.io/library/debian:latest. "" for the other transports. Where a reference has both a tag
	// and a digest, the digest alone is kept: that is all that runtimes look at.
	Name string
	// Path is the directory or file of the other transports, as written.
	Path string
	// Tag is the tag of an image of a registry, "" where a digest names it. For the other transports it is what follows
	// the path: which of the images it is; "" means the only one.
	Tag string
	// Digest is the digest of an image of a registry, such as sha256:…; "" where a tag names it.
	Digest string
	// Repository is Name without tag and digest.
	Repository string
}

// Kubelets parse images with the grammar of the distribution project, which is narrower than what the name package lets
// pass; a reference that is good here must be good there.
var (
	component = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)
	tag       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

// Parse parses a reference. The error is one sentence that quotes s.
func Parse(s string) (Ref, error) {
	if transport, rest, ok := strings.Cut(s, ":"); ok {
		switch transport {
		case Layout, LayoutArchive, DockerArchive:
			return parseFile(s, transport, rest)
		}
	}
	return parseName(s)
}

// parseFile splits at the first colon, as skopeo does, so that the name after it can have a tag of its own.
func parseFile(s, transport, rest string) (Ref, error) {
	path, tag, named := strings.Cut(rest, ":")
	if path == "" {
		return Ref{}, fmt.Errorf("image %q names no path: write %s:PATH or %s:PATH:NAME", s, transport, transport)
	}
	if named && tag == "" {
		return Ref{}, fmt.Errorf("image %q ends with a colon: name the image after it or leave it out", s)
	}
	if strings.ContainsRune(s, 0) {
		return Ref{}, fmt.Errorf("image %q holds a NUL, which no path can", s)
	}
	return Ref{Transport: transport, Path: path, Tag: tag}, nil
}

func parseName(s string) (Ref, error) {
	switch {
	case s == "":
		return Ref{}, fmt.Errorf(`image "" is empty: write a name such as debian:12`)
	case strings.Contains(s, "://"):
		return Ref{}, fmt.Errorf("image %q has a URL's scheme: leave out everything up to and including ://", s)
	case strings.ContainsAny(s, " \t\r\n"):
		return Ref{}, fmt.Errorf("image %q holds white space: a reference has none", s)
	}
	parsed, err := name.ParseReference(s)
	if err != nil {
		return Ref{}, malformed(s)
	}
	for part := range strings.SplitSeq(parsed.Context().RepositoryStr(), "/") {
		if !component.MatchString(part) {
			return Ref{}, malformed(s)
		}
	}
	ref := Ref{Repository: canonical(parsed.Context().Name()), Name: canonical(parsed.Name())}
	switch p := parsed.(type) {
	case name.Tag:
		if !tag.MatchString(p.TagStr()) {
			return Ref{}, malformed(s)
		}
		ref.Tag = p.TagStr()
	case name.Digest:
		ref.Digest = p.DigestStr()
	}
	return ref, nil
}

func malformed(s string) error {
	const grammar = "write [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], the name in lower-case letters, digits and single . _ - / between them"
	if strings.Contains(s, "@") {
		return fmt.Errorf("image %q is malformed: %s, the digest in 64 hexadecimal digits", s, grammar)
	}
	return fmt.Errorf("image %q is malformed: %s", s, grammar)
}

// canonical undoes the name package's spelling of Docker Hub, which nobody writes and no other tool prints.
func canonical(s string) string {
	if rest, ok := strings.CutPrefix(s, name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest
	}
	return s
}

// String is the reference in the form in which Parse takes it: canonical for an image of a registry.
func (r Ref) String() string {
	switch {
	case r.Transport == Registry:
		return r.Name
	case r.Tag == "":
		return r.Transport + ":" + r.Path
	default:
		return r.Transport + ":" + r.Path + ":" + r.Tag
	}
}
