package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/engine/local"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// rounds is how often the two ways are measured, in turns.
const rounds = 15

// swap measures the substitution of a parked slot, from the wish to the claim of the next attempt, against what bare
// runc takes for the same bundle.
func (b *bench) swap(ctx context.Context) ([]figure, error) {
	prog, err := playbook.Compile(chain(1, 1, "true"), nil)
	if err != nil {
		return nil, err
	}
	eng, err := b.engine(ctx, "swap", prog)
	if err != nil {
		return nil, err
	}
	defer eng.Close(ctx)
	if err := b.attempt(ctx, eng, 1); err != nil {
		return nil, err
	}
	bundle, err := b.bundle(eng, []string{"/bin/sleep", "1000"})
	if err != nil {
		return nil, err
	}
	defer bundle.remove()
	if err := bundle.do("create", bundle.id); err != nil {
		return nil, err
	}
	if err := bundle.do("start", bundle.id); err != nil {
		return nil, err
	}
	var ours, bare []time.Duration
	for i := range rounds {
		start := time.Now()
		if err := b.attempt(ctx, eng, int64(i+2)); err != nil {
			return nil, err
		}
		ours = append(ours, time.Since(start))
		start = time.Now()
		if err := bundle.replace(); err != nil {
			return nil, err
		}
		bare = append(bare, time.Since(start))
	}
	o, r := quantile(ours, 0.5), quantile(bare, 0.5)
	return []figure{{
		Name: "swap / bare runc", Value: float64(o) / float64(r), Unit: "ratio", Most: 1.3,
		Detail: fmt.Sprintf("p50 of %d: %.0f ms / %.0f ms for kill, delete, create, start", rounds, ms(o), ms(r)),
	}}, nil
}

// attempt has the slot's container substituted and returns when the new one has claimed its attempt.
func (b *bench) attempt(ctx context.Context, eng *local.Engine, swap int64) error {
	token := protocol.Token("p0", int32(swap))
	err := eng.Apply(ctx, plan.Pod{Slots: []plan.Slot{{
		Name: "slot-0", Swap: swap, Image: busybox, Command: []string{"true"},
		Assignment: protocol.Assignment{Seq: swap, Token: token, Drive: "swap", Play: "p0", Attempt: int32(swap), GraceMillis: 1000},
	}}})
	if err != nil {
		return err
	}
	claimed, deadline := false, time.After(time.Minute)
	for {
		seen, err := eng.Observe(ctx)
		if err != nil {
			return err
		}
		if p := seen.Slots["slot-0"].Problem; p != nil {
			return errors.New(p.Message)
		}
		if _, ok := seen.Claims[token]; ok {
			claimed = true
		}
		if _, ok := seen.Results[token]; claimed && ok {
			return nil
		}
		select {
		case <-eng.Changed():
		case <-deadline:
			return errors.New("the slot was not substituted within a minute")
		}
	}
}

// bundle is a container of ours as plain runc runs it.
type bundle struct {
	id, dir, root, state string
}

// bundle makes a bundle like that of the slot's present container, with another command and namespaces of its own.
func (b *bench) bundle(eng *local.Engine, args []string) (*bundle, error) {
	spec, err := eng.Spec("slot-0")
	if err != nil {
		return nil, err
	}
	out := &bundle{id: "bench", dir: filepath.Join(b.dir, "bare"), state: filepath.Join(b.dir, "bare-state")}
	out.root = filepath.Join(out.dir, "root")
	img, err := b.images.Get(context.Background(), busybox)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"root", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(out.dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	opts := "lowerdir=" + img.Layers[0] + ",upperdir=" + filepath.Join(out.dir, "upper") + ",workdir=" + filepath.Join(out.dir, "work")
	if err := unix.Mount("overlay", out.root, "overlay", 0, opts); err != nil {
		return nil, fmt.Errorf("mount the bare bundle: %w", err)
	}
	spec.Process.Args, spec.Root.Path, spec.Linux.CgroupsPath = args, out.root, "/nohuddle-bench"
	for i := range spec.Linux.Namespaces {
		spec.Linux.Namespaces[i].Path = ""
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return out, os.WriteFile(filepath.Join(out.dir, "config.json"), data, 0o600)
}

// do runs runc.
func (u *bundle) do(verb string, args ...string) error {
	cmd := exec.Command("runc", append([]string{"--root", u.state, verb}, args...)...)
	cmd.Dir = u.dir
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("runc %s: %w", verb, err)
	}
	return nil
}

// replace substitutes the container as one would by hand.
func (u *bundle) replace() error {
	if err := u.do("kill", u.id, "KILL"); err != nil {
		return err
	}
	// As a caller has to: delete refuses a container whose process has not quite ended.
	for {
		if err := u.do("delete", u.id); err == nil {
			break
		}
	}
	if err := u.do("create", u.id); err != nil {
		return err
	}
	return u.do("start", u.id)
}

func (u *bundle) remove() {
	_ = u.do("delete", "--force", u.id)
	_ = unix.Unmount(u.root, unix.MNT_DETACH)
	_ = os.RemoveAll(u.dir)
}

// noop measures a whole drive of ten plays that do nothing, from the CLI's start to its end, against ten times
// `runc run` of the same bundle.
func (b *bench) noop(ctx context.Context) ([]figure, error) {
	manifest := filepath.Join(b.dir, "noop.json")
	data, err := json.Marshal(map[string]any{
		"apiVersion": "nohuddle.dev/v1alpha1", "kind": "Playbook", "spec": chain(10, 2, "true"),
	})
	if err == nil {
		err = os.WriteFile(manifest, data, 0o644)
	}
	if err != nil {
		return nil, err
	}
	prog, err := playbook.Compile(chain(1, 1, "true"), nil)
	if err != nil {
		return nil, err
	}
	eng, err := b.engine(ctx, "noop", prog)
	if err != nil {
		return nil, err
	}
	defer eng.Close(ctx)
	if err := b.attempt(ctx, eng, 1); err != nil {
		return nil, err
	}
	bundle, err := b.bundle(eng, []string{"/bin/true"})
	if err != nil {
		return nil, err
	}
	defer bundle.remove()
	var ours, bare []time.Duration
	for i := range rounds {
		start := time.Now()
		cmd := exec.Command(b.nohuddle, "run", manifest, "--images", b.layout, "--view", "none", "--state-dir", filepath.Join(b.dir, "state"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("nohuddle run: %w: %s", err, out)
		}
		ours = append(ours, time.Since(start))
		start = time.Now()
		for n := range 10 {
			if err := bundle.do("run", "bench-"+strconv.Itoa(i)+"-"+strconv.Itoa(n)); err != nil {
				return nil, err
			}
		}
		bare = append(bare, time.Since(start))
	}
	o, r := quantile(ours, 0.5), quantile(bare, 0.5)
	return []figure{{
		Name: "drive of ten no-op plays / ten times runc run", Value: float64(o) / float64(r), Unit: "ratio", Most: 1,
		Detail: fmt.Sprintf("p50 of %d: %.0f ms / %.0f ms", rounds, ms(o), ms(r)),
	}}, nil
}
