package image

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func platformName(p v1.Platform) string {
	name := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	return name
}

// runs says whether an image for this platform runs on want. What an image doesn't say is taken to fit.
func runs(image, want v1.Platform) bool {
	fits := func(has, want string) bool { return has == "" || has == want }
	return fits(image.OS, want.OS) && fits(image.Architecture, want.Architecture) &&
		(want.Variant == "" || fits(image.Variant, want.Variant))
}

// choose picks the entry of an index for want. Of several the one without a variant is the safest (amd64 before
// amd64/v3, which this machine may lack).
func choose(index *v1.IndexManifest, want v1.Platform) (v1.Descriptor, error) {
	var fit []v1.Descriptor
	var others []string
	for _, m := range index.Manifests {
		p := v1.Platform{}
		if m.Platform != nil {
			p = *m.Platform
		}
		switch {
		case p.OS == "unknown" || p.Architecture == "unknown":
			// Build tools put attestations beside the images under this name.
		case runs(p, want):
			fit = append(fit, m)
		case !slices.Contains(others, platformName(p)):
			others = append(others, platformName(p))
		}
	}
	if len(fit) == 0 {
		return v1.Descriptor{}, wrongPlatform(others, want)
	}
	said := func(m v1.Descriptor) bool { return m.Platform != nil && m.Platform.Architecture != "" }
	for _, good := range []func(v1.Descriptor) bool{
		func(m v1.Descriptor) bool { return said(m) && m.Platform.Variant == want.Variant },
		func(m v1.Descriptor) bool { return said(m) && m.Platform.Variant == "" },
		said,
	} {
		if i := slices.IndexFunc(fit, good); i >= 0 {
			return fit[i], nil
		}
	}
	return fit[0], nil
}

func wrongPlatform(has []string, want v1.Platform) error {
	is := "it is for no platform at all"
	if len(has) > 0 {
		is = "it is for " + strings.Join(has, ", ")
	}
	return &fault{
		reason: Platform, err: fmt.Errorf("%s, this machine is %s", is, platformName(want)),
		next: "name an image that is built for " + platformName(want),
	}
}
