package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/plan"
)

// Picture is what a terminal shows of a drive: its slots and its plays.
type Picture struct {
	Name   string
	Start  time.Time
	Status v1alpha1.DriveStatus
	Seen   plan.Observed
}

const (
	defaultWidth  = 80
	defaultHeight = 24
	// nameWidth is the room for names of plays and slots.
	nameWidth = 24
	// minPlays is the least number of plays that slots leave room for.
	minPlays = 3
)

var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	style = map[v1alpha1.PlayPhase]lipgloss.Style{
		v1alpha1.PlayRunning:   lipgloss.NewStyle().Foreground(lipgloss.Blue),
		v1alpha1.PlaySucceeded: lipgloss.NewStyle().Foreground(lipgloss.Green),
		v1alpha1.PlayFailed:    lipgloss.NewStyle().Foreground(lipgloss.Red),
	}
	glyph = map[v1alpha1.PlayPhase]string{
		v1alpha1.PlayPending: "·", v1alpha1.PlayStaged: "○", v1alpha1.PlayRunning: "●", v1alpha1.PlaySucceeded: "✓",
		v1alpha1.PlayFailed: "✗", v1alpha1.PlaySkipped: "–", v1alpha1.PlayCancelled: "–",
	}
)

// Draw draws it for a terminal of that size; 0 is 80 by 24. It fits the width, and leaves a third of the height.
func (p *Picture) Draw(now time.Time, width, height int) string {
	if width <= 0 {
		width = defaultWidth
	}
	if height <= 0 {
		height = defaultHeight
	}
	phases := map[string]v1alpha1.PlayStatus{}
	var leaves []v1alpha1.PlayStatus
	done := 0
	for _, s := range p.Status.Plays {
		phases[s.Name] = s
		if s.Items == nil {
			leaves = append(leaves, s)
			if s.Phase.Terminal() {
				done++
			}
		}
	}
	phase := cmp.Or(p.Status.Phase, v1alpha1.DrivePending)
	lines := []string{bold.Render(p.Name) + fmt.Sprintf("  %s  %d/%d plays  %s", phase, done, len(leaves), Duration(now.Sub(p.Start)))}
	// The terminal cuts what is too high at the top, where the slots are.
	room := max(height*2/3-len(lines), 2)
	slots := p.Status.Slots[:min(len(p.Status.Slots), max(room-minPlays, 1))]
	for _, s := range slots {
		lines = append(lines, p.slot(s, phases[s.Play], now))
	}
	for _, s := range window(leaves, room-len(slots)) {
		lines = append(lines, play(s, now))
	}
	cut := lipgloss.NewStyle().MaxWidth(width)
	for i, l := range lines {
		lines[i] = cut.Render(l)
	}
	return strings.Join(lines, "\n")
}

func (p *Picture) slot(s v1alpha1.SlotStatus, holds v1alpha1.PlayStatus, now time.Time) string {
	what := "parked"
	switch doing := p.Seen.Slots[s.Name].Doing; {
	case doing != "":
		what = doing
	case s.Play != "" && holds.Phase == v1alpha1.PlayRunning && holds.StartedAt != nil:
		what = s.Play + " " + Duration(now.Sub(holds.StartedAt.Time))
	case s.Play != "":
		what = s.Play + " staged"
	case s.Swap == 0:
		what = "empty"
	}
	return faint.Render(pad("  "+s.Name, nameWidth)) + " " + what
}

func play(s v1alpha1.PlayStatus, now time.Time) string {
	text := glyph[s.Phase] + " " + pad(s.Name, nameWidth-2) + " " + pad(string(s.Phase), 10)
	switch {
	case s.StartedAt != nil && s.FinishedAt != nil:
		text += Duration(s.FinishedAt.Sub(s.StartedAt.Time))
	case s.StartedAt != nil:
		text += Duration(now.Sub(s.StartedAt.Time))
	}
	if s.Attempt > 1 {
		text += fmt.Sprintf("  attempt %d", s.Attempt)
	}
	if s.ExitCode != nil && *s.ExitCode != 0 {
		text += fmt.Sprintf("  exit code %d", *s.ExitCode)
	}
	if st, ok := style[s.Phase]; ok {
		return st.Render(text)
	}
	return faint.Render(text)
}

// window is the part of the plays that fits, around the first that has not ended.
func window(plays []v1alpha1.PlayStatus, room int) []v1alpha1.PlayStatus {
	if len(plays) <= room {
		return plays
	}
	active := len(plays)
	for i, s := range plays {
		if !s.Phase.Terminal() {
			active = i
			break
		}
	}
	from := min(max(active-room/3, 0), len(plays)-room)
	return plays[from : from+room]
}

func pad(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return fmt.Sprintf("%-*s", n, s)
}
