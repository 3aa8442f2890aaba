package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// format stands for what mkimage makes of a spec and its packages. It has to grow whenever the same spec and packages
// would give other images, so that layouts made before are made anew.
const format = "1"

// Spec says which images to build.
type Spec struct {
	// Registry is the first part of every image's reference. No such registry need exist.
	Registry string `json:"registry"`
	// Images in the order in which they are built.
	Images []*Image `json:"images"`
}

// Image says what goes into one image: the layers of another one, below one layer of its own.
type Image struct {
	// Name is the image's repository.
	Name string `json:"name"`
	// Version is the image's tag.
	Version string `json:"version"`
	// From names an image further up whose layers lie below this one's. Default: none.
	From string `json:"from,omitempty"`
	// Packages of the image; what they depend on comes with them, recommended packages don't. If one of them is named
	// like the image, then its upstream version must be Version.
	Packages []string `json:"packages,omitempty"`
	// Without lists packages that are left out although others depend on them, because only their maintainer scripts
	// or functions that the image is not there for need them.
	Without []string `json:"without,omitempty"`
	// Move renames folders, old path to new, before anything is dropped.
	Move map[string]string `json:"move,omitempty"`
	// Links makes symbolic links, path to target.
	Links map[string]string `json:"links,omitempty"`
	// Applets is the path of a static busybox whose applets get a link each.
	Applets string `json:"applets,omitempty"`
	// Entrypoint and Cmd of the image's config.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
}

// ReadSpec reads and checks the spec in a file.
func ReadSpec(path string) (*Spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the spec: %w", err)
	}
	spec := &Spec{}
	if err := yaml.UnmarshalStrict(data, spec); err != nil {
		return nil, fmt.Errorf("spec %s: %w", path, err)
	}
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("spec %s: %w", path, err)
	}
	return spec, nil
}

func (s *Spec) check() error {
	if s.Registry == "" {
		return fmt.Errorf("registry: must be set; it begins every image's reference")
	}
	if len(s.Images) == 0 {
		return fmt.Errorf("images: at least one is needed")
	}
	for i, img := range s.Images {
		switch {
		case img.Name == "" || img.Version == "":
			return fmt.Errorf("images[%d]: name and version must be set", i)
		case slices.ContainsFunc(s.Images[:i], func(o *Image) bool { return o.Name == img.Name }):
			return fmt.Errorf("images[%d].name: there are two images %q", i, img.Name)
		case img.From != "" && s.find(img.From, i) == nil:
			return fmt.Errorf("images[%d].from: there is no image %q before this one", i, img.From)
		}
	}
	return nil
}

// find returns the image of that name among the first n, or nil.
func (s *Spec) find(name string, n int) *Image {
	for _, img := range s.Images[:n] {
		if img.Name == name {
			return img
		}
	}
	return nil
}

// Reference is the name that the layout has the image under.
func (s *Spec) Reference(img *Image) string {
	return s.Registry + "/" + img.Name + ":" + img.Version
}

// closurePackages are the packages to hand to apt: with those of the images below, so that apt chooses between
// alternative dependencies once for all layers.
func (img *Image) closurePackages(spec *Spec) []string {
	packages := slices.Clone(img.Packages)
	for from := img.From; from != ""; {
		below := spec.find(from, len(spec.Images))
		packages = append(packages, below.Packages...)
		from = below.From
	}
	return packages
}

// checkVersion holds the tag to the version that apt offers: a playbook that names a version must get that version.
func (img *Image) checkVersion(debs []Deb) error {
	for _, deb := range debs {
		if deb.Name == img.Name && slices.Contains(img.Packages, img.Name) && deb.Upstream() != img.Version {
			return fmt.Errorf("image %s: the spec wants version %s, but apt offers %s; "+
				"change the spec's version and the playbooks that name it, or use the Debian release that the spec was written for",
				img.Name, img.Version, deb.Version)
		}
	}
	return nil
}

// inputsKey names everything that the images depend on, without asking apt what it would choose.
func inputsKey(spec *Spec, apt *Apt) (string, error) {
	lists, err := apt.Lists()
	if err != nil {
		return "", err
	}
	return key(spec, lists), nil
}

// packagesKey names the images' contents.
func packagesKey(spec *Spec, closures map[string][]Deb) string { return key(spec, closures) }

func key(parts ...any) string {
	sum := sha256.New()
	fmt.Fprintln(sum, format, runtime.GOARCH)
	for _, part := range parts {
		data, err := json.Marshal(part)
		if err != nil {
			panic(err) // plain data: can't be
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// without drops the packages with these names.
func without(debs []Deb, names []string) []Deb {
	return slices.DeleteFunc(slices.Clone(debs), func(d Deb) bool { return slices.Contains(names, d.Name) })
}

// subtract drops the packages that the layers below hold.
func subtract(debs, below []Deb) []Deb {
	return slices.DeleteFunc(slices.Clone(debs), func(d Deb) bool { return slices.Contains(below, d) })
}

// Upstream is the version without Debian's epoch, revision and repacking mark.
func (d Deb) Upstream() string {
	v := d.Version
	if _, after, ok := strings.Cut(v, ":"); ok {
		v = after
	}
	if i := strings.LastIndex(v, "-"); i >= 0 {
		v = v[:i]
	}
	v, _, _ = strings.Cut(v, "+")
	return v
}
