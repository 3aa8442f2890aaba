package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/image"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/shim"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// Images is where the engine gets images from; *image.Store is one.
type Images interface {
	Get(ctx context.Context, ref string) (*image.Image, error)
}

// Config is what a pod on this machine is made from.
type Config struct {
	// Drive names the drive; containers, cgroups and the pod's host name are named after it.
	Drive string
	// Dir is the drive's folder. While the engine lives it holds the pod; after Close only logs/ is left of it.
	Dir    string
	Images Images
	// Shim is the path of nohuddle-shim on this machine.
	Shim string
	// Runtime is the OCI runtime: a name to be found in PATH, or a path. Default: runc, or else crun.
	Runtime string
	// Scratch is the volume that all plays share.
	Scratch v1alpha1.Scratch
	// ScratchDir keeps the scratch's bytes after Close, on disk whatever the medium; it is made if it doesn't exist.
	// Default: a folder in Dir that is removed by Close.
	ScratchDir string
	// Secrets are the values of secrets by the names that assignments have for them.
	Secrets map[string]string
	// HostNetwork gives the pod this machine's network. Default: one of its own with nothing but lo.
	HostNetwork bool
}

// Engine is one pod. It is an engine.Engine.
type Engine struct {
	cfg     Config
	runtime *ociRuntime
	pod     *namespaces
	// rootless says that there are no cgroups to be had.
	rootless bool
	ctl      *control
	cgroup   cgroup
	scratch  string

	ctx     context.Context // ends with the engine
	stop    context.CancelFunc
	working sync.WaitGroup
	changed chan struct{}

	mu    sync.Mutex
	slots []*slot
	lost  *loss

	closing sync.Once
	closed  error
}

// loss is why the pod was lost.
type loss struct{ reason, message string }

// New makes the pod, without slots. Its error is one sentence that says what this machine lacks.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	rt, err := findRuntime(cfg.Runtime, filepath.Join(cfg.Dir, "run", "state"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(cfg.Shim); err != nil {
		return nil, fmt.Errorf("nohuddle-shim is not at %s: build it with `make build`, or name its path in NOHUDDLE_SHIM", cfg.Shim)
	}
	// Containers outlive the runtime that starts them and become this process's children.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of containers: %w", err)
	}
	e := &Engine{
		cfg: cfg, runtime: rt, changed: make(chan struct{}, 1), rootless: Rootless(),
		cgroup: cgroupOf(cfg.Drive, cfg.Dir), scratch: cfg.ScratchDir,
	}
	e.ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := e.build(); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return e, nil
}

// build makes what the slots share.
func (e *Engine) build() error {
	if e.scratch == "" {
		e.scratch = e.path("scratch")
	}
	for dir, mode := range map[string]fs.FileMode{
		e.cfg.Dir: 0o755, e.path("run"): 0o700, e.path("slots"): 0o755, e.path("logs"): 0o755, e.path("etc"): 0o755,
	} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("make the drive's folder: %w", err)
		}
	}
	// Plays run as whatever users their images name.
	for _, dir := range []string{e.path("ctl"), e.path("shm"), e.scratch} {
		if err := openDir(dir); err != nil {
			return err
		}
	}
	if err := e.writeEtc(); err != nil {
		return err
	}
	var err error
	if e.pod, err = newNamespaces(e.hostname(), e.cfg.HostNetwork); err != nil {
		return err
	}
	if err := e.pod.inside(e.mountShared); err != nil {
		return err
	}
	if e.ctl, err = watchControl(e.path("ctl"), e.tell); err != nil {
		return err
	}
	if limit := e.cfg.Scratch.SizeLimit; limit != nil && !e.scratchInMemory() {
		e.working.Go(func() { e.guardScratch(limit) })
	}
	return nil
}

// openDir makes a directory that every user can write to.
func openDir(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make the directory %s: %w", dir, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return fmt.Errorf("open the directory %s to all users: %w", dir, err)
	}
	return nil
}

func (e *Engine) path(elem ...string) string {
	return filepath.Join(append([]string{e.cfg.Dir}, elem...)...)
}

// hostname is the pod's: the drive's name as far as the kernel takes it.
func (e *Engine) hostname() string { return e.cfg.Drive[:min(len(e.cfg.Drive), 63)] }

// tell says that something has changed.
func (e *Engine) tell() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Changed implements engine.Engine.
func (e *Engine) Changed() <-chan struct{} { return e.changed }

// Apply implements engine.Engine.
func (e *Engine) Apply(_ context.Context, pod plan.Pod) error {
	if err := e.ctx.Err(); err != nil {
		return errors.New("the pod has been closed")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, want := range pod.Slots {
		if i == len(e.slots) {
			s := newSlot(e, want.Name)
			e.slots = append(e.slots, s)
			e.working.Go(s.loop)
		}
		e.slots[i].want(want)
	}
	return nil
}

// Observe implements engine.Engine.
func (e *Engine) Observe(context.Context) (plan.Observed, error) {
	e.mu.Lock()
	slots, lost := e.slots, e.lost
	e.mu.Unlock()
	o := plan.Observed{Slots: map[string]plan.ObservedSlot{}, PeakMemory: shim.PeakMemory(string(e.cgroup))}
	if len(slots) == 0 {
		return o, nil
	}
	o.Phase = plan.PodEnded
	for _, s := range slots {
		seen, ended := s.observe(e.ctl.state(s.name))
		o.Slots[s.name] = seen
		if !ended {
			o.Phase = plan.PodUp
		}
	}
	if lost != nil {
		o.Phase, o.Reason, o.Message = plan.PodLost, lost.reason, lost.message
	}
	// After the states: see plan.Observed.
	var err error
	o.Claims, o.Results, err = e.ctl.attempts()
	return o, err
}

// Spec is the OCI spec of the container that a slot has now, for comparisons with other ways to run it.
func (e *Engine) Spec(name string) (*specs.Spec, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.slots {
		if spec := s.spec.Load(); s.name == name && spec != nil {
			return spec, nil
		}
	}
	return nil, fmt.Errorf("slot %s has no container", name)
}

// lose gives the pod up.
func (e *Engine) lose(reason, message string) {
	e.mu.Lock()
	if e.lost == nil {
		e.lost = &loss{reason, message}
	}
	slots := e.slots
	e.mu.Unlock()
	for _, s := range slots {
		s.kill()
	}
	e.tell()
}

// Log implements engine.Engine.
func (e *Engine) Log(token string) (io.ReadCloser, error) { return OpenLog(e.cfg.Dir, token) }

// OpenLog opens what the attempt with this token has written, in the folder of a drive, whether that still runs or not.
// The error is fs.ErrNotExist for an attempt that hasn't begun.
func OpenLog(dir, token string) (io.ReadCloser, error) {
	if !protocol.ValidToken(token) {
		return nil, fmt.Errorf("log of %q: %w", token, fs.ErrNotExist)
	}
	f, err := openLog(filepath.Join(dir, "ctl", protocol.LogFile(token)))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = openLog(filepath.Join(dir, "logs", token+".log"))
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// openLog opens a file that plays can replace: no link is followed, no pipe waited for.
func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is not a file any more", path)
	}
	return f, nil
}

// Close implements engine.Engine.
func (e *Engine) Close(context.Context) error {
	e.closing.Do(func() {
		e.stop()
		e.mu.Lock()
		slots := e.slots
		e.mu.Unlock()
		for _, s := range slots {
			s.kill()
		}
		e.working.Wait()
		if e.ctl != nil {
			e.ctl.close()
		}
		_ = e.pod.close()
		e.runtime.close()
		// The processes are gone, and with the last of them and these files the mounts.
		_, e.closed = Remove(e.cfg.Drive, e.cfg.Dir)
	})
	return e.closed
}
