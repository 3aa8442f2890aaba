// Package view owns what people see of drives: tables, the lines of a drive that runs, and the live picture of it.
// It formats what it is given and decides nothing.
package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// Write prints rows as a table whose columns line up.
func Write(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(t, strings.TrimRight(strings.Join(r, "\t"), "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// Plays is the table of a drive's plays.
func Plays(s v1alpha1.DriveStatus) [][]string {
	rows := [][]string{{"PLAY", "PHASE", "SLOT", "ATTEMPT", "EXIT", "START", "DURATION", "PEAK"}}
	for _, p := range s.Plays {
		if p.Items != nil { // its items follow
			continue
		}
		row := []string{p.Name, string(p.Phase), dash(p.Slot), "-", "-", "-", "-", Memory(p.PeakMemory)}
		if p.Attempt > 0 {
			row[3] = strconv.Itoa(int(p.Attempt))
		}
		if p.ExitCode != nil {
			row[4] = strconv.Itoa(int(*p.ExitCode))
		}
		if p.StartedAt != nil && s.StartedAt != nil {
			row[5] = "+" + Duration(p.StartedAt.Sub(s.StartedAt.Time))
			if p.FinishedAt != nil {
				row[6] = Duration(p.FinishedAt.Sub(p.StartedAt.Time))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Summary says how a drive ended, in a line.
func Summary(name string, s v1alpha1.DriveStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "drive %s: %s", name, s.Phase)
	if s.Message != "" {
		b.WriteString(": " + Clean(s.Message))
	}
	if s.StartedAt != nil && s.FinishedAt != nil {
		b.WriteString(" (" + Duration(s.FinishedAt.Sub(s.StartedAt.Time)))
		if s.PeakMemory != nil {
			b.WriteString(", peak memory " + Memory(s.PeakMemory))
		}
		b.WriteString(")")
	}
	return b.String()
}

// Drives is the table of drives.
func Drives(drives []*v1alpha1.Drive, now time.Time) [][]string {
	rows := [][]string{{"NAME", "PHASE", "PLAYS", "AGE", "DURATION"}}
	for _, d := range drives {
		done, all := 0, 0
		for _, p := range d.Status.Plays {
			if p.Items != nil {
				continue
			}
			all++
			if p.Phase.Terminal() {
				done++
			}
		}
		took := "-"
		if s := d.Status; s.StartedAt != nil {
			end := now
			if s.FinishedAt != nil {
				end = s.FinishedAt.Time
			}
			took = Duration(end.Sub(s.StartedAt.Time))
		}
		phase := string(d.Status.Phase)
		if phase == "" {
			phase = string(v1alpha1.DrivePending)
		}
		rows = append(rows, []string{
			d.Name, phase, fmt.Sprintf("%d/%d", done, all), Duration(now.Sub(d.CreationTimestamp.Time)), took,
		})
	}
	return rows
}

// Duration is a duration as people read it: two units at most.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}

// Memory is an amount of memory as people read it, "-" where it isn't known.
func Memory(q *resource.Quantity) string {
	if q == nil {
		return "-"
	}
	v := float64(q.Value())
	for _, unit := range []string{"B", "Ki", "Mi", "Gi"} {
		if v < 1000 || unit == "Gi" {
			if v < 9.95 && unit != "B" {
				return strconv.FormatFloat(v, 'f', 1, 64) + unit
			}
			return strconv.FormatFloat(v, 'f', 0, 64) + unit
		}
		v /= 1024
	}
	return q.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
