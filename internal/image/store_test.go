package image

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestGetFromRegistry(t *testing.T) {
	var asked atomic.Int64
	reg := newTestRegistry(t, func(http.ResponseWriter, *http.Request) bool { asked.Add(1); return false })
	want := imageOf(t, v1.Config{Entrypoint: []string{"/a"}, Env: []string{"A=1"}, User: "7", WorkingDir: "/w"},
		layerOf(t, dir("d", 0o750), file("d/a", "one")), layerOf(t, file("d/b", "two")))
	ref := reg.push(t, "team/app:1", want)
	s := openStore(t, Options{})

	img := get(t, s, ref)
	if img.Digest != digestOf(t, want) {
		t.Errorf("digest %s, want %s", img.Digest, digestOf(t, want))
	}
	if diff := cmp.Diff(v1.Config{Entrypoint: []string{"/a"}, Env: []string{"A=1"}, User: "7", WorkingDir: "/w"}, img.Config); diff != "" {
		t.Errorf("config -want +got:\n%s", diff)
	}
	if len(img.Layers) != 2 || content(t, img.Layers[0], "d/a") != "one" || content(t, img.Layers[1], "d/b") != "two" {
		t.Errorf("layers %v", img.Layers)
	}
	if left := list(t, s.path("tmp")); len(left) > 0 {
		t.Errorf("left in tmp: %v", left)
	}

	asked.Store(0)
	again := get(t, s, ref)
	if diff := cmp.Diff(img, again); diff != "" {
		t.Errorf("the stored image differs: %s", diff)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("a stored tag asked the registry %d times", n)
	}
	byDigest := reg.host + "/team/app@" + img.Digest
	get(t, s, byDigest)
	asked.Store(0)
	get(t, s, byDigest)
	if n := asked.Load(); n > 0 {
		t.Errorf("a stored digest asked the registry %d times", n)
	}
}

// Kubernetes' default pull policy: Always for latest, IfNotPresent for any other tag.
func TestGetLatestAsksAlways(t *testing.T) {
	var down atomic.Bool
	reg := newTestRegistry(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return down.Load()
	})
	one, two := imageOf(t, v1.Config{User: "1"}), imageOf(t, v1.Config{User: "2"})
	latest, tag := reg.push(t, "a:latest", one), reg.push(t, "a:1", one)
	s := openStore(t, Options{})
	for _, ref := range []string{latest, tag} {
		if got := get(t, s, ref).Config.User; got != "1" {
			t.Errorf("%s: user %s", ref, got)
		}
	}
	reg.push(t, "a:latest", two)
	reg.push(t, "a:1", two)
	if got := get(t, s, reg.host+"/a").Config.User; got != "2" {
		t.Errorf("latest is the old image still")
	}
	if got := get(t, s, tag).Config.User; got != "1" {
		t.Errorf("the stored tag was pulled again")
	}
	down.Store(true)
	if _, err := s.Get(testContext(t), latest); err == nil {
		t.Error("latest was taken from the store while the registry is down")
	}
	get(t, s, tag)
}

func TestGetIsFastOnceStored(t *testing.T) {
	reg := newTestRegistry(t, nil)
	layers := make([]v1.Layer, 20)
	for i := range layers {
		layers[i] = layerOf(t, file("f", strings.Repeat("x", i)))
	}
	ref := reg.push(t, "a:1", imageOf(t, v1.Config{}, layers...))
	p := newLayout(t)
	addToLayout(t, p, "example.com/other:1", imageOf(t, v1.Config{}))
	s := openStore(t, Options{Layouts: []string{string(p)}})
	get(t, s, ref)
	best := time.Hour
	for range 20 {
		start := time.Now()
		get(t, s, ref)
		best = min(best, time.Since(start))
	}
	if best > time.Millisecond {
		t.Errorf("a stored image took %s at best, want at most 1 ms", best)
	}
}

func TestGetTogetherUnpacksOnce(t *testing.T) {
	var mu sync.Mutex
	blobs := map[string]int{}
	reg := newTestRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			mu.Lock()
			defer mu.Unlock()
			blobs[r.URL.Path]++
		}
		return false
	})
	var layers []v1.Layer
	for _, f := range []string{"a", "b", "c", "d"} {
		layers = append(layers, layerOf(t, file(f, strings.Repeat(f, 1<<20))))
	}
	img := imageOf(t, v1.Config{}, layers...)
	ref := reg.push(t, "a:1", img)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 { // Stores of their own, as processes would have.
		s := openStoreIn(t, dir, Options{})
		wg.Go(func() {
			got, err := s.Get(testContext(t), ref)
			if err != nil {
				t.Error(err)
			} else if len(got.Layers) != 4 {
				t.Errorf("layers %v", got.Layers)
			}
		})
	}
	wg.Wait()
	for _, l := range layers {
		d, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if n := blobs["/v2/a/blobs/"+d.String()]; n != 1 {
			t.Errorf("layer %s was fetched %d times", d, n)
		}
	}
}

func TestGetRepairsTheStore(t *testing.T) {
	reg := newTestRegistry(t, nil)
	ref := reg.push(t, "a:1", imageOf(t, v1.Config{}, layerOf(t, file("a", "x"))))
	s := openStore(t, Options{})
	img := get(t, s, ref)
	for what, breakIt := range map[string]func() error{
		"no layer":      func() error { return os.RemoveAll(filepath.Dir(img.Layers[0])) },
		"empty record":  func() error { return os.Truncate(s.recordPath(img.Digest), 0) },
		"no record":     func() error { return os.Remove(s.recordPath(img.Digest)) },
		"garbled alias": func() error { return os.WriteFile(s.path("refs", list(t, s.path("refs"))[0]), []byte("{"), 0o600) },
	} {
		if err := breakIt(); err != nil {
			t.Fatal(err)
		}
		if got := content(t, get(t, s, ref).Layers[0], "a"); got != "x" {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestGetCancelled(t *testing.T) {
	reached := make(chan struct{}, 10)
	reg := newTestRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		reached <- struct{}{}
		<-r.Context().Done()
		return true
	})
	ref := reg.push(t, "a:1", imageOf(t, v1.Config{}, layerOf(t, file("a", "x"))))
	s := openStore(t, Options{})
	ctx, cancel := context.WithCancel(testContext(t))
	go func() { <-reached; cancel() }()
	_, err := s.Get(ctx, ref)
	var e *Error
	if !errors.Is(err, context.Canceled) || errors.As(err, &e) {
		t.Errorf("got %v, want the context's error", err)
	}
	nothingLeft(t, s)
}

func TestProgress(t *testing.T) {
	reg := newTestRegistry(t, nil)
	ref := reg.push(t, "a:1", imageOf(t, v1.Config{}, layerOf(t, file("a", "x")), layerOf(t, file("b", "y"))))
	type call struct {
		ref, what   string
		done, total int64
	}
	var calls []call
	s := openStore(t, Options{Progress: func(ref, what string, done, total int64) { calls = append(calls, call{ref, what, done, total}) }})
	get(t, s, ref)
	if len(calls) == 0 {
		t.Fatal("no progress was told")
	}
	last := calls[len(calls)-1]
	if last.ref != ref || last.what != "unpacking" || last.done != last.total || last.total == 0 {
		t.Errorf("last told %+v", last)
	}
}

func TestOpenUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(file, "store"), Options{})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names the folder", err)
	}
}
