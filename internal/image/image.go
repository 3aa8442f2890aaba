package image

import (
	"errors"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Image is an unpacked image. It is only to be read.
type Image struct {
	// Ref is the reference that it was asked for by.
	Ref string
	// Digest is that of the image's manifest, for this platform where there are several: sha256:…. An image of a
	// docker-archive has no manifest: there it is the digest of its config, which Docker calls the image's id.
	Digest string
	// Config says what to run and how.
	Config v1.Config
	// Layers are the directories for overlayfs's lowerdir, lowest first. There can be none.
	Layers []string
	// UserXattr says that the layers must be mounted with overlayfs's option userxattr.
	UserXattr bool
}

// ErrNoCommand is what Argv returns when neither the image nor the play says what to run.
var ErrNoCommand = errors.New("the image has neither ENTRYPOINT nor CMD: name command")

// Argv is the program and its arguments for a play with this command and args, by Kubernetes' rules: a command replaces
// the image's ENTRYPOINT and its CMD, args replace the CMD alone. An empty list counts as absent.
func (i *Image) Argv(command, args []string) ([]string, error) {
	if len(command) == 0 {
		if entrypoint := i.Config.Entrypoint; len(entrypoint) != 1 || entrypoint[0] != "" { // [""] is how builders clear it
			command = entrypoint
		}
		if len(args) == 0 {
			args = i.Config.Cmd
		}
	}
	argv := make([]string, 0, len(command)+len(args))
	argv = append(append(argv, command...), args...)
	if len(argv) == 0 {
		return nil, ErrNoCommand
	}
	return argv, nil
}
