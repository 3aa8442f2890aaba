package image

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is an entry of a layer's archive.
type entry struct {
	tar.Header
	body string
}

func file(name, body string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, body}
}

func dir(name string, mode int64) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}, ""}
}

func symlink(name, target string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, ""}
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		e.Size = int64(len(e.body))
		if e.ModTime.IsZero() {
			e.ModTime = time.Unix(1_000_000_000, 0)
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func layerOf(t testing.TB, entries ...entry) v1.Layer {
	t.Helper()
	data := archive(t, entries...)
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// imageOf is an image for this machine.
func imageOf(t testing.TB, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	return imageFor(t, v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, config, layers...)
}

func imageFor(t testing.TB, p v1.Platform, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1),
		&v1.ConfigFile{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		if img, err = mutate.AppendLayers(img, l); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

func digestOf(t testing.TB, img v1.Image) string {
	t.Helper()
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// testRegistry is a registry on the loopback whose answers can be tampered with.
type testRegistry struct {
	host string
}

func newTestRegistry(t testing.TB, before func(w http.ResponseWriter, r *http.Request) bool) *testRegistry {
	t.Helper()
	inner := ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))
	reg := &testRegistry{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || before == nil || r.Header.Get("Test-Setup") != "" || !before(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	reg.host = strings.TrimPrefix(srv.URL, "http://")
	return reg
}

// setupTransport marks a test's own requests, which are not tampered with.
type setupTransport struct{}

func (setupTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Test-Setup", "1")
	return http.DefaultTransport.RoundTrip(r)
}

// push pushes an image or an index and returns its reference.
func (r *testRegistry) push(t testing.TB, repoTag string, what any) string {
	t.Helper()
	ref, err := name.ParseReference(r.host + "/" + repoTag)
	if err != nil {
		t.Fatal(err)
	}
	switch what := what.(type) {
	case v1.Image:
		err = remote.Write(ref, what, remote.WithTransport(setupTransport{}))
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, what, remote.WithTransport(setupTransport{}))
	default:
		t.Fatalf("push %T", what)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ref.String()
}

func newLayout(t testing.TB) ocilayout.Path {
	t.Helper()
	p, err := ocilayout.Write(t.TempDir(), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func addToLayout(t testing.TB, p ocilayout.Path, name string, img v1.Image) {
	t.Helper()
	if err := p.AppendImage(img, ocilayout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name})); err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, opts Options) *Store {
	t.Helper()
	return openStoreIn(t, t.TempDir(), opts)
}

func openStoreIn(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	s.backoff = time.Millisecond
	s.idle = 5 * time.Second
	t.Cleanup(func() { s.Close() })
	return s
}

func get(t testing.TB, s *Store, ref string) *Image {
	t.Helper()
	img, err := s.Get(testContext(t), ref)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func content(t testing.TB, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// list is what a directory holds.
func list(t testing.TB, elem ...string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// nothingLeft fails if a failed Get has left anything behind.
func nothingLeft(t testing.TB, s *Store) {
	t.Helper()
	for _, sub := range []string{"tmp", s.layersDir(), "images", "refs"} {
		if left := list(t, s.path(sub)); len(left) > 0 {
			t.Errorf("left in %s: %v", sub, left)
		}
	}
}
