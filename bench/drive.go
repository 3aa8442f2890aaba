package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/drive"
	"github.com/nohuddle/nohuddle/internal/engine/local"
	"github.com/nohuddle/nohuddle/internal/playbook"
)

// chain is a playbook of n plays in a row, or all at once where slots is n.
func chain(n, slots int, command ...string) *v1alpha1.PlaybookSpec {
	count := int32(slots)
	spec := &v1alpha1.PlaybookSpec{Slots: []v1alpha1.SlotGroup{{Name: "slot", Count: &count}}}
	for i := range n {
		p := v1alpha1.Play{Name: fmt.Sprintf("p%d", i), Image: busybox, Command: command}
		if slots == n {
			p.Needs = &[]string{}
		}
		spec.Plays = append(spec.Plays, p)
	}
	return spec
}

func (b *bench) engine(ctx context.Context, name string, prog *playbook.Program) (*local.Engine, error) {
	return local.New(ctx, local.Config{
		Drive: name, Dir: filepath.Join(b.dir, name), Images: b.images, Shim: b.shim, Scratch: prog.Scratch,
	})
}

// drive runs a playbook to its end.
func (b *bench) drive(ctx context.Context, name string, spec *v1alpha1.PlaybookSpec) (status v1alpha1.DriveStatus, err error) {
	prog, err := playbook.Compile(spec, nil)
	if err != nil {
		return status, err
	}
	eng, err := b.engine(ctx, name, prog)
	if err != nil {
		return status, err
	}
	defer func() { err = errors.Join(err, eng.Close(ctx)) }()
	status, err = drive.Run(ctx, drive.Options{
		Name: name, Program: prog, Engine: eng, Save: func(v1alpha1.DriveStatus) error { return nil },
	}, nil)
	if err == nil && status.Phase != v1alpha1.DriveSucceeded {
		err = fmt.Errorf("drive %s: %s: %s", name, status.Phase, status.Message)
	}
	return status, err
}

// quantile is the smallest value that at least the share q of the values don't exceed.
func quantile(values []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// handovers is how many hand-overs are measured.
const handovers = 200

// handover measures from the end of a play's process to the start of the next one's, which was staged meanwhile: with
// all that the shim does in between, so more than from the result's appearance.
func (b *bench) handover(ctx context.Context) ([]figure, error) {
	status, err := b.drive(ctx, "handover", chain(handovers+1, 2, "sleep", "0.3"))
	if err != nil {
		return nil, err
	}
	var gaps []time.Duration
	for i := range handovers {
		gaps = append(gaps, status.Plays[i+1].StartedAt.Sub(status.Plays[i].FinishedAt.Time))
	}
	detail := fmt.Sprintf("end of a process → start of the next, %d plays of 0.3 s", handovers+1)
	return []figure{
		{Name: "hand-over p50", Value: ms(quantile(gaps, 0.5)), Unit: "ms", Most: 2, Detail: detail},
		{Name: "hand-over p99", Value: ms(quantile(gaps, 0.99)), Unit: "ms", Most: 10, Detail: detail},
	}, nil
}

// hold is a command that holds 100 MiB until as many plays as its argument says do: dd fills its buffer, and nobody
// takes it before.
func hold(together int) []string {
	return []string{"sh", "-c", `cd /scratch; dd if=/dev/zero bs=100M count=1 2>/dev/null | {
		dd bs=1 count=1 of=/dev/null 2>/dev/null; echo >> held
		until [ $(wc -l < held) -ge $0 ]; do sleep 0.05; done; sleep 0.2; cat > /dev/null; }`, strconv.Itoa(together)}
}

// memory compares the peak of ten plays in a row with that of one, and with that of ten at once.
func (b *bench) memory(ctx context.Context) ([]figure, error) {
	peak := func(name string, plays, slots, together int) (float64, error) {
		st, err := b.drive(ctx, name, chain(plays, slots, hold(together)...))
		if err != nil {
			return 0, err
		}
		if st.PeakMemory == nil {
			return 0, errors.New("this machine doesn't count the memory of cgroups")
		}
		return float64(st.PeakMemory.Value()), nil
	}
	row, err := peak("row", 10, 2, 1)
	if err != nil {
		return nil, err
	}
	one, err := peak("one", 1, 1, 1)
	if err != nil {
		return nil, err
	}
	all, err := peak("all", 10, 10, 10)
	if err != nil {
		return nil, err
	}
	mib := func(v float64) float64 { return v / (1 << 20) }
	return []figure{
		{Name: "peak of ten plays / of one", Value: row / one, Unit: "ratio", Most: 1.15, Detail: fmt.Sprintf("%.1f MiB / %.1f MiB; each holds 100 MiB", mib(row), mib(one))},
		{Name: "peak of ten plays / of ten at once", Value: row / all, Unit: "ratio", Most: 0.12, Detail: fmt.Sprintf("%.1f MiB / %.1f MiB", mib(row), mib(all))},
	}, nil
}
