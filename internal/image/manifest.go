package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxDocument bounds what is read into memory: manifests, indexes and configs. Registries take manifests up to 4 MiB.
const maxDocument = 16 << 20

// contents reads an image's documents. Both methods must return exactly what has the descriptor's digest.
type contents interface {
	manifest(ctx context.Context, d v1.Descriptor) ([]byte, error)
	config(ctx context.Context, d v1.Descriptor) ([]byte, error)
	layer(d v1.Descriptor) blob
}

// findManifest follows top, through indexes, to the image for platform.
func findManifest(ctx context.Context, c contents, top v1.Descriptor, platform v1.Platform) (*found, error) {
	const deepest = 4
	for range deepest {
		raw, err := c.manifest(ctx, top)
		if err != nil {
			return nil, err
		}
		var index v1.IndexManifest
		if err := json.Unmarshal(raw, &index); err != nil {
			return nil, faultf(Malformed, "its manifest %s is no JSON: %w", top.Digest, err)
		}
		if index.Manifests == nil {
			return findConfig(ctx, c, top, raw, platform)
		}
		if top, err = choose(&index, platform); err != nil {
			return nil, err
		}
	}
	return nil, faultf(Malformed, "its index holds indexes more than %d deep", deepest)
}

func findConfig(ctx context.Context, c contents, d v1.Descriptor, raw []byte, platform v1.Platform) (*found, error) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, faultf(Malformed, "its manifest %s can't be read: %w", d.Digest, err)
	}
	switch m.Config.MediaType {
	case types.OCIConfigJSON, types.DockerConfigJSON:
	default:
		return nil, faultf(Malformed, "it is no container image but holds %q", artifactType(m))
	}
	rawConfig, err := c.config(ctx, m.Config)
	if err != nil {
		return nil, err
	}
	config, err := parseConfig(rawConfig, len(m.Layers), platform)
	if err != nil {
		return nil, err
	}
	f := &found{digest: d.Digest.String(), config: config}
	for _, l := range m.Layers {
		f.layers = append(f.layers, c.layer(l))
	}
	return f, nil
}

func artifactType(m *v1.Manifest) string {
	switch {
	case m.ArtifactType != "":
		return m.ArtifactType
	case m.Config.MediaType != "":
		return string(m.Config.MediaType)
	default:
		return string(m.MediaType)
	}
}

func parseConfig(raw []byte, layers int, platform v1.Platform) (*v1.ConfigFile, error) {
	config, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, faultf(Malformed, "its config can't be read: %w", err)
	}
	is := v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}
	if !runs(is, platform) {
		return nil, wrongPlatform([]string{platformName(is)}, platform)
	}
	if n := len(config.RootFS.DiffIDs); n != layers {
		return nil, faultf(Malformed, "its manifest has %d layers, its config %d", layers, n)
	}
	for _, d := range config.RootFS.DiffIDs {
		if d.Algorithm != "sha256" {
			return nil, faultf(Malformed, "its config names a layer %s, and only sha256 is known", d)
		}
	}
	return config, nil
}

// verified says whether raw is what d describes.
func verified(raw []byte, d v1.Descriptor) error {
	got, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("hash a document: %w", err)
	}
	if got != d.Digest {
		return faultf(Corrupt, "what should be %s is %s", d.Digest, got)
	}
	return nil
}
