package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/moby/sys/user"
)

// User is who a container's process runs as.
type User struct {
	UID, GID uint32
	// Groups are the additional ones; there can be none.
	Groups []uint32
	// Home is "" or "/" where the image's /etc/passwd doesn't know the user.
	Home string
}

// User resolves who the image's process runs as: spec is user, uid, user:group or any mixture, "" what the image's
// config says (root where it says nothing). Names are those of the image's own /etc/passwd and /etc/group; a number needs
// no entry there, and has the group 0 without one.
func (i *Image) User(spec string) (User, error) {
	if spec == "" {
		spec = i.Config.User
	}
	files := stack{layers: i.Layers, userXattr: i.UserXattr}
	passwd, err := openDatabase(files, "etc/passwd")
	if err != nil {
		return User{}, err
	}
	defer passwd.Close()
	group, err := openDatabase(files, "etc/group")
	if err != nil {
		return User{}, err
	}
	defer group.Close()
	u, err := user.GetExecUser(spec, &user.ExecUser{Home: "/"}, passwd, group)
	switch {
	case errors.Is(err, user.ErrNoPasswdEntries):
		return User{}, i.unknown(spec, "user", strings.SplitN(spec, ":", 2)[0], "/etc/passwd")
	case errors.Is(err, user.ErrNoGroupEntries):
		return User{}, i.unknown(spec, "group", spec[strings.Index(spec, ":")+1:], "/etc/group")
	case err != nil:
		return User{}, fmt.Errorf("image %s: resolve the user %q: %w", i.Ref, spec, err)
	}
	out := User{UID: uint32(u.Uid), GID: uint32(u.Gid), Home: u.Home}
	for _, g := range u.Sgids {
		out.Groups = append(out.Groups, uint32(g))
	}
	return out, nil
}

func (i *Image) unknown(spec, kind, name, file string) error {
	return fmt.Errorf("image %s: to run as %q it needs the %s %q, which its %s doesn't have: use a number", i.Ref, spec, kind, name, file)
}

// openDatabase opens a file that images may lack.
func openDatabase(files stack, name string) (io.ReadCloser, error) {
	f, err := files.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	} else if err != nil {
		return nil, fmt.Errorf("read the image's /%s: %w", name, err)
	}
	const longest = 10 << 20
	if info, err := f.Stat(); err == nil && info.Size() > longest {
		f.Close()
		return nil, fmt.Errorf("read the image's /%s: it has more than %d bytes", name, longest)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, longest), f}, nil
}
