package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/sys/userns"
	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/image/reference"
)

// Options are a store's settings. The zero value is usable.
type Options struct {
	// Layouts are OCI layout directories. An image whose annotation org.opencontainers.image.ref.name is the full name
	// of what is asked for is taken from there, before any registry is asked. Directories that don't exist are skipped.
	Layouts []string
	// Keychain has the credentials for registries. Default: authn.DefaultKeychain, the user's docker credentials.
	Keychain authn.Keychain
	// Platform is what images must be for. Default: this machine's.
	Platform v1.Platform
	// Progress is told, now and then and from any goroutine but one at a time, how far a reference is: what is
	// "pulling" or "unpacking", done and total are bytes of compressed layers. It must return soon. Default: nobody.
	Progress func(ref, what string, done, total int64)
	// Rootless unpacks as a user who may not change owners: all files belong to the user.
	Rootless bool
}

// Store holds the images that this user has on this machine. It is safe for concurrent use, and several processes may
// have the same directory open.
type Store struct {
	dir       string
	opts      Options
	rootless  bool
	userXattr bool
	idle      time.Duration // the longest that a registry may send nothing
	backoff   time.Duration // before the first retry; doubled for each one after

	mu     sync.Mutex
	closed bool
	leases map[string]*os.File // by digest: the records of the images that this store has given out
}

// Open opens the store in dir, makes it if it doesn't exist, and removes what dead processes have left half-made in it.
// Default of dir: nohuddle/images in the user's cache folder.
func Open(dir string, opts Options) (*Store, error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find a folder for images: %w: set XDG_CACHE_HOME or HOME", err)
		}
		dir = filepath.Join(cache, "nohuddle", "images")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the image store %s: %w", dir, err)
	}
	if opts.Keychain == nil {
		opts.Keychain = authn.DefaultKeychain
	}
	if opts.Platform.OS == "" {
		opts.Platform.OS = runtime.GOOS
	}
	if opts.Platform.Architecture == "" {
		opts.Platform.Architecture = runtime.GOARCH
	}
	s := &Store{
		dir: dir, opts: opts, rootless: opts.Rootless,
		// The kernel keeps trusted.* attributes to root outside of user namespaces.
		userXattr: opts.Rootless || os.Geteuid() != 0 || userns.RunningInUserNS(),
		idle:      30 * time.Second, backoff: 250 * time.Millisecond,
		leases: map[string]*os.File{},
	}
	silenceUmoci()
	for _, sub := range []string{"refs", "images", s.layersDir(), "locks", "tmp"} {
		// 0700, because images hold setuid programs that only containers should be able to start.
		if err := os.MkdirAll(s.path(sub), 0o700); err != nil {
			return nil, fmt.Errorf("open the image store %s: %w: give this user the right to write there", dir, err)
		}
	}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("remove what a killed process left in the image store %s: %w", dir, err)
	}
	return s, nil
}

// Close gives the store's images free for Prune. None of them may be used after it.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for digest, f := range s.leases {
		errs = append(errs, f.Close())
		delete(s.leases, digest)
	}
	return errors.Join(errs...)
}

// Get returns the image that ref names, unpacked; until the store is closed, Prune of any process leaves it alone.
//
// A tag other than latest and a digest are taken from the store if they are there (in Kubernetes' words: IfNotPresent);
// for latest the registry is always asked. A registry's passing troubles are retried for some seconds.
//
// Errors are an *Error, or wrap the context's.
func (s *Store) Get(ctx context.Context, ref string) (*Image, error) {
	parsed, err := reference.Parse(ref)
	if err != nil {
		return nil, &Error{Reason: Malformed, Err: err}
	}
	img, err := s.get(ctx, ref, parsed)
	if err != nil {
		return nil, s.explain(ctx, ref, err)
	}
	return img, nil
}

func (s *Store) get(ctx context.Context, ref string, parsed reference.Ref) (*Image, error) {
	src, err := s.source(parsed)
	if err != nil {
		return nil, err
	}
	defer src.close()
	key, err := src.key(ctx)
	if err != nil {
		return nil, err
	}
	if key != "" {
		key = platformName(s.opts.Platform) + " " + key
	}
	if digest, ok := s.resolved(key); ok {
		if img := s.stored(ref, digest); img != nil {
			return img, nil
		}
	}
	// From here on there are layers that no record mentions yet: Prune must not take them for waste.
	unpruned, err := lockFile(ctx, s.path("locks", "prune"), unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer unpruned.Close()
	found, err := src.find(ctx, s.opts.Platform)
	if err != nil {
		return nil, err
	}
	img := s.stored(ref, found.digest)
	if img == nil {
		if img, err = s.make(ctx, ref, found); err != nil {
			return nil, err
		}
	}
	return img, s.resolve(key, parsed.String(), found.digest)
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// layersDir keeps layers that were unpacked in another way apart: they hold other owners and attributes.
func (s *Store) layersDir() string {
	switch {
	case s.rootless:
		return "layers-rootless"
	case s.userXattr:
		return "layers-userxattr"
	default:
		return "layers"
	}
}

func (s *Store) layerPath(chain string) string { return s.path(s.layersDir(), chain) }
