package image

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/nohuddle/nohuddle/internal/image/reference"
)

// registry is a registry, as the source of one image.
type registry struct {
	ref     reference.Ref
	name    name.Reference
	puller  *remote.Puller
	conns   *idleTransport
	backoff time.Duration
	top     *remote.Descriptor // what name means now; nil before it was asked
}

func (s *Store) newRegistry(ref reference.Ref) (*registry, error) {
	n, err := name.ParseReference(ref.Name)
	if err != nil {
		return nil, faultf(Malformed, "it can't be parsed: %w", err)
	}
	conns := newIdleTransport(s.idle)
	puller, err := remote.NewPuller(
		remote.WithAuthFromKeychain(keychain{s.opts.Keychain}),
		remote.WithTransport(conns),
		remote.WithUserAgent("nohuddle"),
		// Its own retries sleep through a cancelled context; ours (see retry) don't.
		remote.WithRetryStatusCodes(),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare to pull from %s: %w", n.Context().RegistryStr(), err)
	}
	return &registry{ref: ref, name: n, puller: puller, conns: conns, backoff: s.backoff}, nil
}

func (r *registry) close() error {
	r.conns.inner.CloseIdleConnections()
	return nil
}

// key of a tag or digest is its name. Latest is what its digest is now.
func (r *registry) key(ctx context.Context) (string, error) {
	if r.ref.Digest != "" || r.ref.Tag != "latest" {
		return "registry " + r.ref.Name, nil
	}
	if err := r.resolve(ctx); err != nil {
		return "", err
	}
	return "registry " + r.ref.Repository + "@" + r.top.Digest.String(), nil
}

func (r *registry) resolve(ctx context.Context) error {
	if r.top != nil {
		return nil
	}
	return r.retry(ctx, func() (err error) {
		r.top, err = r.puller.Get(ctx, r.name)
		return err
	})
}

func (r *registry) find(ctx context.Context, platform v1.Platform) (*found, error) {
	if err := r.resolve(ctx); err != nil {
		return nil, err
	}
	return findManifest(ctx, r, v1.Descriptor{Digest: r.top.Digest, Size: r.top.Size, MediaType: r.top.MediaType}, platform)
}

func (r *registry) manifest(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	if r.top.Digest == d.Digest {
		return r.top.Manifest, nil
	}
	var raw []byte
	err := r.retry(ctx, func() error {
		got, err := r.puller.Get(ctx, r.name.Context().Digest(d.Digest.String()))
		if err == nil {
			raw = got.Manifest
		}
		return err
	})
	return raw, err
}

func (r *registry) config(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	var raw []byte
	err := r.retry(ctx, func() error {
		rc, err := r.open(ctx, d)
		if err != nil {
			return err
		}
		defer rc.Close()
		raw, err = io.ReadAll(io.LimitReader(rc, maxDocument))
		return err
	})
	if err != nil {
		return nil, err
	}
	return raw, verified(raw, d)
}

func (r *registry) open(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	l, err := r.puller.Layer(ctx, r.name.Context().Digest(d.Digest.String()))
	if err != nil {
		return nil, err
	}
	return l.Compressed()
}

func (r *registry) layer(d v1.Descriptor) blob {
	return blob{digest: d.Digest, size: d.Size, retry: r.retry, open: func(ctx context.Context) (io.ReadCloser, error) {
		return r.open(ctx, d)
	}}
}

// keychain marks the errors of a keychain, such as a credential helper that isn't installed.
type keychain struct{ authn.Keychain }

func (k keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), target)
}

func (k keychain) ResolveContext(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	auth, err := authn.Resolve(ctx, k.Keychain, target)
	if err != nil {
		return nil, &fault{
			reason: Unauthorized,
			err:    fmt.Errorf("the credentials for %s can't be read: %w", target.RegistryStr(), err),
			next:   "check the docker config.json and its credential helpers",
		}
	}
	return auth, nil
}
