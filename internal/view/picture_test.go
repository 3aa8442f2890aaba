package view

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// drawn is a picture without its colours.
func drawn(p Picture, width, height int) string {
	var lines []string
	for l := range strings.Lines(p.Draw(epoch.Add(time.Minute), width, height)) {
		lines = append(lines, strings.TrimRight(escapes.ReplaceAllString(l, ""), " \n"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// game is a drive in its middle.
func game() Picture {
	st := finished()
	st.Phase, st.FinishedAt = v1alpha1.DriveRunning, nil
	st.Plays = append(st.Plays, v1alpha1.PlayStatus{Name: strings.Repeat("long-name-", 6), Phase: v1alpha1.PlayStaged})
	st.Slots = []v1alpha1.SlotStatus{
		{Name: "slot-0", Swap: 3, Play: "call"},
		{Name: "slot-1", Swap: 2, Play: strings.Repeat("long-name-", 6)},
		{Name: "slot-2", Swap: 1},
		{Name: "slot-3"},
		{Name: "gpu-0", Swap: 1, Play: "notify"},
	}
	return Picture{Name: "wgs", Start: epoch, Status: st, Seen: plan.Observed{Slots: map[string]plan.ObservedSlot{
		"gpu-0": {Doing: "getting registry.example.com/a/very/long/path/of/an/image/that/does/not/fit/into/a/line:1.2.3"},
	}}}
}

// many is a drive of n plays of which the first done have ended.
func many(n, done int) Picture {
	p := Picture{Name: "many", Start: epoch, Status: v1alpha1.DriveStatus{Phase: v1alpha1.DriveRunning}}
	for i := range n {
		s := v1alpha1.PlayStatus{Name: fmt.Sprintf("play-%d", i), Phase: v1alpha1.PlayPending}
		switch {
		case i < done:
			s.Phase, s.StartedAt, s.FinishedAt = v1alpha1.PlaySucceeded, at(0), at(time.Second)
		case i == done:
			s.Phase, s.StartedAt = v1alpha1.PlayRunning, at(50*time.Second)
		}
		p.Status.Plays = append(p.Status.Plays, s)
	}
	p.Status.Slots = []v1alpha1.SlotStatus{{Name: "slot-0", Swap: 1, Play: fmt.Sprintf("play-%d", min(done, n-1))}, {Name: "slot-1"}}
	return p
}

func TestPictureGolden(t *testing.T) {
	for name, c := range map[string]struct {
		picture       Picture
		width, height int
	}{
		"game":        {game(), 80, 24},
		"narrow":      {game(), 30, 24},
		"low":         {game(), 80, 6},
		"start":       {Picture{Name: "wgs", Start: epoch}, 80, 24},
		"many-first":  {many(1000, 0), 80, 24},
		"many-middle": {many(1000, 500), 80, 24},
		"many-last":   {many(1000, 1000), 80, 24},
	} {
		t.Run(name, func(t *testing.T) {
			got := drawn(c.picture, c.width, c.height)
			file := filepath.Join("testdata", "picture", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: run the test with -update", err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPictureFitsEveryTerminal(t *testing.T) {
	wide := many(40, 10)
	for i := range 64 {
		wide.Status.Slots = append(wide.Status.Slots, v1alpha1.SlotStatus{Name: fmt.Sprintf("more-%d", i)})
	}
	for name, p := range map[string]Picture{"game": game(), "many": many(1000, 500), "wide": wide, "empty": {}} {
		for _, width := range []int{0, 1, 10, 40, 80, 200} {
			for _, height := range []int{0, 3, 5, 24, 100} {
				lines := strings.Split(p.Draw(epoch, width, height), "\n")
				maxWidth, maxHeight := width, height
				if width == 0 {
					maxWidth = defaultWidth
				}
				if height == 0 {
					maxHeight = defaultHeight
				}
				if len(lines) > maxHeight {
					t.Errorf("%s has %d lines on a terminal of %d by %d", name, len(lines), width, height)
				}
				for _, l := range lines {
					if w := lipgloss.Width(l); w > maxWidth {
						t.Errorf("%s has a line of %d columns on a terminal of %d by %d: %q", name, w, width, height, l)
					}
				}
			}
		}
	}
}

func TestPictureShowsTheFirstActivePlay(t *testing.T) {
	for done := range 100 {
		if got := drawn(many(100, done), 80, 24); !strings.Contains(got, fmt.Sprintf("● play-%d ", done)) {
			t.Errorf("play-%d runs and is not in the picture:\n%s", done, got)
		}
	}
}
