package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// The exit codes of what can't be executed, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// defaultPath is where programs are looked for if neither the image nor the play sets PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// command is an attempt made ready to be executed.
type command struct {
	path string
	argv []string
	env  []string
	dir  string
}

// refusal is why an attempt can't be executed.
type refusal struct {
	code    int
	reason  protocol.Reason
	message string
}

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

// prepare makes an assignment's command ready: files written, directory made, program found, sizes checked.
func (s *Shim) prepare(a protocol.Assignment) (*command, *refusal) {
	env := s.environment(a)
	c := &command{argv: a.Argv, dir: a.WorkingDir}
	if c.dir == "" {
		c.dir, _ = os.Getwd()
	}
	if err := os.MkdirAll(c.dir, 0o777); err != nil {
		return nil, refuse(exitNotExecutable, "the working directory %s can't be made: %v", c.dir, bare(err))
	}
	if a.Script != "" {
		file, err := s.ctl.writeScript(a.Token, a.Script)
		if err != nil {
			return nil, refuse(exitNotExecutable, "the script can't be written: %v", err)
		}
		c.argv = []string{file}
		if !strings.HasPrefix(a.Script, "#!") {
			c.argv = []string{"/bin/sh", file}
		}
	}
	if len(c.argv) == 0 {
		return nil, refuse(exitNotFound, "there is nothing to execute: neither the play nor the image names a command")
	}
	for k, v := range env {
		c.env = append(c.env, k+"="+v)
	}
	slices.Sort(c.env)
	if r := c.measure(); r != nil {
		return nil, r
	}
	var r *refusal
	c.path, r = find(c.argv[0], value(env, "PATH", defaultPath), c.dir)
	if r != nil && a.Script != "" && c.argv[0] == "/bin/sh" {
		r.message = "the image has no /bin/sh to run the script: begin it with #! and a program of the image, or use command"
	}
	return c, r
}

// environment is what the play sees: the container's without what is the shim's, then the play's.
func (s *Shim) environment(a protocol.Assignment) map[string]string {
	env := map[string]string{}
	for k, v := range split(os.Environ()) {
		if !strings.HasPrefix(k, protocol.EnvPrefix) {
			env[k] = v
		}
	}
	for _, v := range a.Env {
		env[v.Name] = v.Value
		if v.Secret == "" {
			continue
		}
		secret, ok := s.secrets[v.Secret]
		if !ok {
			delete(env, v.Name) // an optional one that isn't there: the engine refuses the others before it starts
			continue
		}
		env[v.Name] = secret
	}
	env[protocol.EnvOutput] = s.ctl.path(protocol.OutputFile(a.Token))
	env[protocol.EnvPlay] = a.Play
	env[protocol.EnvAttempt] = strconv.Itoa(int(a.Attempt))
	env[protocol.EnvDrive] = a.Drive
	return env
}

// measure holds each string against what the kernel takes.
func (c *command) measure() *refusal {
	for i, arg := range c.argv {
		if len(arg) > protocol.MaxArgument {
			r := refuse(exitNotExecutable, "argument %d has %d bytes, the kernel takes at most %d: pass it in a file on the scratch volume", i, len(arg), protocol.MaxArgument)
			r.reason = protocol.TooLarge
			return r
		}
	}
	for _, kv := range c.env {
		if len(kv) > protocol.MaxArgument {
			name, _, _ := strings.Cut(kv, "=")
			r := refuse(exitNotExecutable, "the variable %s has %d bytes with its name, the kernel takes at most %d: pass it in a file on the scratch volume", name, len(kv), protocol.MaxArgument)
			r.reason = protocol.TooLarge
			return r
		}
	}
	return nil
}

// explain says why the kernel did not execute the command.
func (c *command) explain(err error) *refusal {
	switch {
	case errors.Is(err, unix.ENOENT):
		return refuse(exitNotFound, "the image lacks what %s is to be run by%s", c.path, interpreter(c.path))
	case errors.Is(err, unix.ENOEXEC):
		return refuse(exitNotExecutable, "%s is neither a program for this machine nor a script that begins with #!", c.path)
	case errors.Is(err, unix.E2BIG):
		total := 0
		for _, s := range slices.Concat(c.argv, c.env) {
			total += len(s) + 1
		}
		r := refuse(exitNotExecutable, "arguments and environment have %d bytes together, which is more than the kernel takes here: pass them in a file on the scratch volume", total)
		r.reason = protocol.TooLarge
		return r
	default:
		return refuse(exitNotExecutable, "%s can't be executed: %v", c.path, bare(err))
	}
}

// interpreter names what a script's first line asks for.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	if name, ok := strings.CutPrefix(line, "#!"); ok {
		return ": " + shorten(strings.TrimSpace(name))
	}
	return ", such as its dynamic loader"
}

// find looks a program up as a shell does.
func find(name, path, dir string) (string, *refusal) {
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, name)
		}
		return full, executable(full)
	}
	var first *refusal
	for _, d := range filepath.SplitList(path) {
		full := filepath.Join(d, name)
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, full)
		}
		r := executable(full)
		if r == nil {
			return full, nil
		}
		if r.code == exitNotExecutable && first == nil {
			first = r
		}
	}
	if first == nil {
		first = refuse(exitNotFound, "%s is not in the image: its PATH is %s", name, path)
	}
	return "", first
}

func executable(path string) *refusal {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return refuse(exitNotFound, "%s is not in the image", path)
	case err != nil:
		return refuse(exitNotExecutable, "%s can't be executed: %v", path, bare(err))
	case info.IsDir():
		return refuse(exitNotExecutable, "%s is a directory, not a program", path)
	case unix.Access(path, unix.X_OK) != nil:
		return refuse(exitNotExecutable, "%s is not executable for the user %d: its mode is %s", path, os.Getuid(), info.Mode())
	}
	return nil
}

// bare is the system's error without the operation and the path that the sentence around it names anyway.
func bare(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
