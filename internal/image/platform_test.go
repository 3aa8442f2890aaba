package image

import (
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestOtherPlatform: an image for another architecture is refused at once, and the error names both (CASES.md 19).
func TestOtherPlatform(t *testing.T) {
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	reg := newTestRegistry(t, nil)
	ref := reg.push(t, "a:1", imageFor(t, v1.Platform{OS: "linux", Architecture: other}, v1.Config{}, layerOf(t, file("f", ""))))
	s := openStore(t, Options{})
	_, err := s.Get(t.Context(), ref)
	wantError(t, err, Platform, true, "linux/"+other, "linux/"+runtime.GOARCH)
	if left := list(t, s.path("images")); len(left) > 0 {
		t.Errorf("left of it in the store: %v", left)
	}
}
