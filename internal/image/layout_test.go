package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func marked(t *testing.T, mark string) v1.Image {
	return imageOf(t, v1.Config{User: mark}, layerOf(t, file("mark", mark)))
}

func wantMark(t *testing.T, img *Image, mark string) {
	t.Helper()
	if img.Config.User != mark || content(t, img.Layers[len(img.Layers)-1], "mark") != mark {
		t.Errorf("it is the image %q, want %q", img.Config.User, mark)
	}
}

func TestLayoutBeforeRegistry(t *testing.T) {
	reg := newTestRegistry(t, nil)
	remote := reg.push(t, "a:1", marked(t, "registry"))
	other := reg.push(t, "a:2", marked(t, "registry 2"))
	p := newLayout(t)
	addToLayout(t, p, remote, marked(t, "old"))
	addToLayout(t, p, "2", marked(t, "a tag only")) // Names nothing of a registry.
	s := openStore(t, Options{Layouts: []string{filepath.Join(t.TempDir(), "none"), string(p)}})

	img := get(t, s, remote)
	wantMark(t, img, "old")
	wantMark(t, get(t, s, reg.host+"/a@"+img.Digest), "old")
	wantMark(t, get(t, s, other), "registry 2")

	// Built again under the same name: what was stored must not hide it.
	rebuilt := newLayout(t)
	addToLayout(t, rebuilt, remote, marked(t, "new"))
	if err := os.RemoveAll(string(p)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(string(rebuilt), string(p)); err != nil {
		t.Fatal(err)
	}
	wantMark(t, get(t, s, remote), "new")
}

func TestLayoutByPath(t *testing.T) {
	one := newLayout(t)
	addToLayout(t, one, "v1", marked(t, "alone"))
	two := newLayout(t)
	addToLayout(t, two, "v1", marked(t, "first"))
	addToLayout(t, two, "example.com/b:2", marked(t, "second"))
	s := openStore(t, Options{})
	wantMark(t, get(t, s, "oci:"+string(one)), "alone")
	wantMark(t, get(t, s, "oci:"+string(two)+":v1"), "first")
	wantMark(t, get(t, s, "oci:"+string(two)+":example.com/b:2"), "second")
	wantMark(t, get(t, s, "oci:"+string(two)+":example.com/b:2"), "second")

	none := filepath.Join(t.TempDir(), "none")
	for ref, words := range map[string][]string{
		"oci:" + string(two):            {"several images", "v1", "example.com/b:2"},
		"oci:" + string(two) + ":v3":    {"no image of that name", "v1, example.com/b:2"},
		"oci:" + none:                   {none, "check the path"},
		"oci-archive:" + none:           {none, "check the path"},
		"docker-archive:" + none + ":a": {none, "check the path"},
	} {
		_, err := s.Get(testContext(t), ref)
		wantError(t, err, NotFound, true, words...)
	}
}

func TestLayoutBroken(t *testing.T) {
	tests := []struct {
		what   string
		spoil  func(t *testing.T, dir string, blobs map[string]string)
		reason Reason
	}{
		{"no index", func(t *testing.T, dir string, _ map[string]string) { remove(t, dir, "index.json") }, Malformed},
		{"index is no JSON", func(t *testing.T, dir string, _ map[string]string) { overwrite(t, "{", dir, "index.json") }, Malformed},
		{"no manifest", func(t *testing.T, _ string, b map[string]string) { remove(t, b["manifest"]) }, Corrupt},
		{"another manifest", func(t *testing.T, _ string, b map[string]string) { overwrite(t, "{}", b["manifest"]) }, Corrupt},
		{"no config", func(t *testing.T, _ string, b map[string]string) { remove(t, b["config"]) }, Corrupt},
		{"no layer", func(t *testing.T, _ string, b map[string]string) { remove(t, b["layer"]) }, Corrupt},
		{"another layer", func(t *testing.T, _ string, b map[string]string) {
			overwrite(t, string(archive(t, file("evil", "x"))), b["layer"])
		}, Corrupt},
		{"a directory for a layer", func(t *testing.T, _ string, b map[string]string) {
			remove(t, b["layer"])
			if err := os.Mkdir(b["layer"], 0o700); err != nil {
				t.Fatal(err)
			}
		}, Other},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			p := newLayout(t)
			img := marked(t, "x")
			addToLayout(t, p, "a:1", img)
			tt.spoil(t, string(p), blobPaths(t, string(p), img))
			s := openStore(t, Options{Layouts: []string{string(p)}})
			for _, ref := range []string{"a:1", "oci:" + string(p)} {
				_, err := s.Get(testContext(t), ref)
				wantError(t, err, tt.reason, tt.reason != Other, "image "+ref)
			}
			nothingLeft(t, s)
		})
	}
}

func blobPaths(t *testing.T, dir string, img v1.Image) map[string]string {
	t.Helper()
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	path := func(h v1.Hash) string { return filepath.Join(dir, "blobs", h.Algorithm, h.Hex) }
	return map[string]string{"manifest": path(d), "config": path(m.Config.Digest), "layer": path(m.Layers[0].Digest)}
}

func remove(t *testing.T, elem ...string) {
	t.Helper()
	if err := os.Remove(filepath.Join(elem...)); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, data string, elem ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(elem...), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tarOf packs a directory.
func tarOf(t *testing.T, dir string) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "a.tar")
	overwrite(t, buf.String(), out)
	return out
}

func TestLayoutArchive(t *testing.T) {
	p := newLayout(t)
	img := marked(t, "packed")
	addToLayout(t, p, "v1", img)
	file := tarOf(t, string(p))
	s := openStore(t, Options{})
	got := get(t, s, "oci-archive:"+file)
	wantMark(t, got, "packed")
	if got.Digest != digestOf(t, img) {
		t.Errorf("digest %s, want that of the manifest %s", got.Digest, digestOf(t, img))
	}
	wantMark(t, get(t, s, "oci-archive:"+file+":v1"), "packed")

	overwrite(t, "no tar file", file)
	_, err := s.Get(testContext(t), "oci-archive:"+file)
	wantError(t, err, Malformed, true, file)
}

func TestDockerArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tar")
	tag := func(s string) name.Tag {
		tag, err := name.NewTag(s)
		if err != nil {
			t.Fatal(err)
		}
		return tag
	}
	s := openStore(t, Options{})
	if err := tarball.WriteToFile(path, tag("app:1"), marked(t, "one")); err != nil {
		t.Fatal(err)
	}
	wantMark(t, get(t, s, "docker-archive:"+path), "one")
	if err := tarball.MultiWriteToFile(path, map[name.Tag]v1.Image{tag("app:1"): marked(t, "one b"), tag("app:2"): marked(t, "two")}); err != nil {
		t.Fatal(err)
	}
	wantMark(t, get(t, s, "docker-archive:"+path+":app:2"), "two")
	wantMark(t, get(t, s, "docker-archive:"+path+":docker.io/library/app:1"), "one b")
	_, err := s.Get(testContext(t), "docker-archive:"+path)
	wantError(t, err, NotFound, true, "2 images", "app")
	_, err = s.Get(testContext(t), "docker-archive:"+path+":app:3")
	wantError(t, err, NotFound, true, "no image of that name")
}

// Docker writes uncompressed layers, and old versions link one layer to another.
func TestDockerArchiveAsDockerWritesIt(t *testing.T) {
	layer := archive(t, file("mark", "plain"))
	diffID, _, err := v1.SHA256(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(v1.ConfigFile{OS: "linux", Config: v1.Config{User: "plain"}, RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diffID, diffID}}})
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	overwrite(t, string(archive(t, file("one/layer.tar", string(layer)), symlink("two/layer.tar", "../one/layer.tar"),
		file("c.json", string(config)), file("manifest.json", `[{"Config":"c.json","RepoTags":null,"Layers":["one/layer.tar","two/layer.tar"]}]`))), path)
	img := get(t, openStore(t, Options{}), "docker-archive:"+path)
	wantMark(t, img, "plain")
	if len(img.Layers) != 2 || img.Digest != id.String() {
		t.Errorf("got %+v", img)
	}
}

func FuzzArchives(f *testing.F) {
	whole := archive(f, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", `{}`), symlink("l", "l"), file("index.json", `{"manifests":[{}]}`))
	f.Add(whole)
	f.Add(whole[:700])
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "a.tar")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, Options{})
		for _, transport := range []string{"oci-archive:", "docker-archive:"} {
			if _, err := s.Get(testContext(t), transport+path); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("not one line: %q", err)
			}
		}
	})
}
