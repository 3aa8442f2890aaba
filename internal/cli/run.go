package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/drive"
	"github.com/nohuddle/nohuddle/internal/engine/local"
	"github.com/nohuddle/nohuddle/internal/image"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/store"
	"github.com/nohuddle/nohuddle/internal/view"
)

// runOptions are the flags of run.
type runOptions struct {
	params, images, secrets        []string
	output, name, scratch, network string
	runtime, view                  string
}

func (a *app) runCommand() *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run FILE|DIR",
		Short: "Run a playbook or a drive on this machine",
		Long: `Run a playbook or a drive on this machine, in containers. FILE is a manifest, DIR a folder with a playbook.yaml, - is
standard input.

Ctrl-C cancels: what runs is stopped, finally runs. A second Ctrl-C kills everything at once.

The exit code is 0 if the drive succeeded, 1 if it failed, 2 if it could not be started as it was asked for, and 130 if
it was cancelled.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), o, args[0]) },
	}
	f := c.Flags()
	paramFlag(c, &o.params)
	outputFlag(c, &o.output)
	f.StringVar(&o.name, "name", "", "name of the drive (default: the manifest's; for a playbook, with five characters at random)")
	f.StringArrayVar(&o.images, "images", nil, "OCI layout to take images from before any registry is asked (repeatable; also $NOHUDDLE_IMAGES, separated by colons)")
	f.StringArrayVar(&o.secrets, "secrets", nil, "file with Secret manifests that secretKeyRef refers to (repeatable)")
	f.StringVar(&o.scratch, "scratch", "", "keep the scratch volume in this folder (default: a temporary one)")
	f.StringVar(&o.network, "network", "pod", "pod: a network of its own with nothing but loopback; host: this machine's")
	f.StringVar(&o.runtime, "runtime", "", "OCI runtime (default runc, or else crun)")
	f.StringVar(&o.view, "view", "auto", "auto, live, plain or none")
	return c
}

func (o *runOptions) check() error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.network != "pod" && o.network != "host" {
		return invalid(fmt.Errorf("--network %s: it is pod or host", o.network))
	}
	switch o.view {
	case "auto", "live", "plain", "none":
		return nil
	}
	return invalid(fmt.Errorf("--view %s: it is auto, live, plain or none", o.view))
}

func (a *app) run(ctx context.Context, o *runOptions, arg string) error {
	if err := o.check(); err != nil {
		return err
	}
	if again, err := asRoot(); again || err != nil {
		return err
	}
	d, path, err := readManifest(arg)
	if err != nil {
		return err
	}
	if err := setParams(d, o.params); err != nil {
		return err
	}
	prog, err := compile(d, path)
	if err != nil {
		return err
	}
	secrets, err := readSecrets(o.secrets)
	if err != nil {
		return err
	}
	values, err := secretValues(prog, secrets)
	if err != nil {
		return err
	}
	if d.Name, err = driveName(d, o.name, path); err != nil {
		return err
	}
	d.GenerateName, d.CreationTimestamp = "", metav1.Now()
	s, err := a.store()
	if err != nil {
		return err
	}
	if err := a.reclaim(s); err != nil {
		fmt.Fprintln(a.err, "nohuddle: "+err.Error()) // it doesn't stand in this drive's way
	}
	// From here on there is something to remove: no signal ends this process before that is done.
	signals := catchSignals()
	entry, err := s.Create(d)
	if _, taken := errors.AsType[*store.TakenError](err); taken {
		return invalid(err)
	}
	if err != nil {
		return &exit{exitFailed, err}
	}
	defer entry.Close()
	r := &running{app: a, options: o, drive: d, program: prog, entry: entry, signals: signals}
	if err := r.start(ctx, values); err != nil {
		// Nothing has run: a drive that never began is none.
		return &exit{exitFailed, errors.Join(err, os.RemoveAll(entry.Dir))}
	}
	return r.finish(r.drivePod(ctx))
}

// asRoot runs the program again as root of a user namespace, where the user isn't root. again says that it has: the
// error is how that ended.
func asRoot() (again bool, err error) {
	code, again, err := local.BecomeRoot()
	switch {
	case err != nil:
		return again, &exit{exitFailed, err}
	case code != 0:
		return again, &exit{code: code}
	}
	return again, nil
}

// running is a drive that this process runs.
type running struct {
	app     *app
	options *runOptions
	drive   *v1alpha1.Drive
	program *playbook.Program
	entry   *store.Entry
	images  *image.Store
	engine  *local.Engine
	signals <-chan os.Signal
	// What the user wants meanwhile; set by obey's goroutine.
	cancelled, killed atomic.Bool
}

// start makes the pod.
func (r *running) start(ctx context.Context, secrets map[string]string) error {
	shim, err := findShim()
	if err != nil {
		return err
	}
	scratch := r.options.scratch
	if scratch != "" {
		if scratch, err = filepath.Abs(scratch); err != nil {
			return err
		}
	}
	if r.images, err = r.app.openImages(layouts(r.options.images)); err != nil {
		return err
	}
	r.engine, err = local.New(ctx, local.Config{
		Drive: r.drive.Name, Dir: r.entry.Dir, Images: r.images, Shim: shim, Runtime: r.options.runtime,
		Scratch: r.program.Scratch, ScratchDir: scratch, Secrets: secrets, HostNetwork: r.options.network == "host",
	})
	if err != nil {
		return errors.Join(err, r.images.Close())
	}
	return nil
}

// drivePod takes the drive to its end, showing it and obeying Ctrl-C on the way.
func (r *running) drivePod(ctx context.Context) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	out := r.app.out
	if r.options.output != "" {
		out = r.app.err
	}
	screen := view.New(r.options.view, out, r.drive.Name, time.Now(), r.engine.Log)
	intents := make(chan v1alpha1.Intent, 1)
	if r.drive.Spec.Intent != "" && r.drive.Spec.Intent != v1alpha1.IntentRun {
		intents <- r.drive.Spec.Intent
	}
	stop := r.obey(intents, kill, screen)
	defer stop()
	status, err := drive.Run(ctx, drive.Options{
		Name: r.drive.Name, Program: r.program, Engine: r.engine,
		Save:  r.save,
		Tell:  screen.Tell,
		Watch: screen.Watch,
	}, intents)
	screen.Close()
	r.drive.Status = status
	if r.killed.Load() && err != nil {
		return errKilled
	}
	return err
}

func (r *running) save(status v1alpha1.DriveStatus) error {
	r.drive.Status = status
	if r.cancelled.Load() {
		r.drive.Spec.Intent = v1alpha1.IntentCancel
	}
	return r.entry.Save(r.drive)
}

// finish removes the pod, stores and shows how the drive ended, and says so by the exit code.
func (r *running) finish(err error) error {
	closing := errors.Join(r.engine.Close(context.Background()), r.images.Close())
	st := &r.drive.Status
	switch {
	case errors.Is(err, errKilled):
		*st = plan.Abandon(*st, time.Now(), v1alpha1.DriveCancelled, "Killed", err.Error())
	case err != nil:
		*st = plan.Abandon(*st, time.Now(), v1alpha1.DriveFailed, "EngineFailed", err.Error())
	}
	saving := r.save(*st)
	if err := r.show(); err != nil {
		return &exit{exitFailed, err}
	}
	if err := errors.Join(closing, saving); err != nil {
		return &exit{exitFailed, err}
	}
	switch st.Phase {
	case v1alpha1.DriveSucceeded:
		return nil
	case v1alpha1.DriveCancelled:
		return &exit{exitCancelled, errors.New(view.Summary(r.drive.Name, *st))}
	default:
		return &exit{exitFailed, errors.New(view.Summary(r.drive.Name, *st))}
	}
}

func (r *running) show() error {
	if r.options.output != "" {
		return r.app.print(r.options.output, r.drive)
	}
	if r.options.view == "none" {
		return nil
	}
	if err := view.Write(r.app.out, view.Plays(r.drive.Status)); err != nil {
		return err
	}
	if r.drive.Status.Phase == v1alpha1.DriveSucceeded {
		fmt.Fprintln(r.app.out, view.Summary(r.drive.Name, r.drive.Status))
	}
	return nil
}

// driveName is the flag's, the drive's own, or one made from the playbook's or the file's.
func driveName(d *v1alpha1.Drive, flag, path string) (string, error) {
	switch {
	case flag != "":
		if message := playbook.NameProblem(flag); message != "" {
			return "", invalid(fmt.Errorf("--name %s is not a name: %s", flag, message))
		}
		return flag, nil
	case d.Name != "":
		return d.Name, nil
	}
	base := strings.TrimRight(d.GenerateName, "-")
	if base == "" {
		base = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if abs, err := filepath.Abs(path); err == nil && filepath.Base(path) == manifestName {
			base = filepath.Base(filepath.Dir(abs))
		}
	}
	if playbook.NameProblem(base) != "" {
		base = "drive"
	}
	return base[:min(len(base), 57)] + "-" + rand.String(5), nil
}

// layouts are the OCI layouts of the flags and of the environment.
func layouts(flags []string) []string {
	out := flags
	for _, dir := range filepath.SplitList(os.Getenv("NOHUDDLE_IMAGES")) {
		if dir != "" {
			out = append(out, dir)
		}
	}
	return out
}

func (a *app) openImages(layouts []string) (*image.Store, error) {
	dir := ""
	if a.cacheDir != "" {
		dir = filepath.Join(a.cacheDir, "images")
	}
	return image.Open(dir, image.Options{Layouts: layouts, Rootless: os.Geteuid() != 0 || local.Rootless()})
}

// findShim looks for nohuddle-shim where it may be installed.
func findShim() (string, error) {
	if path := os.Getenv("NOHUDDLE_SHIM"); path != "" {
		return filepath.Abs(path)
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(exe)
	for _, path := range []string{filepath.Join(dir, "nohuddle-shim"), filepath.Join(dir, "..", "libexec", "nohuddle", "nohuddle-shim")} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("nohuddle-shim is not beside %s: build it with `make build`, or name its path in NOHUDDLE_SHIM", exe)
}
