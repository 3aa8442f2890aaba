package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

var epoch = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: epoch.Add(d)} }

func memory(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

// finished is a drive with a play of each kind.
func finished() v1alpha1.DriveStatus {
	return v1alpha1.DriveStatus{
		Phase: v1alpha1.DriveFailed, Message: "play sort failed: it ran for longer than its timeout of 10m0s",
		StartedAt: at(0), FinishedAt: at(11 * time.Minute), PeakMemory: memory("300Mi"),
		Plays: []v1alpha1.PlayStatus{
			{
				Name: "align", Phase: v1alpha1.PlaySucceeded, Slot: "slot-0", Attempt: 1, ExitCode: new(int32(0)),
				StartedAt: at(120 * time.Millisecond), FinishedAt: at(4 * time.Second), PeakMemory: memory("268435456"),
			},
			{Name: "each", Phase: v1alpha1.PlaySucceeded, Items: new(int32(2))},
			{
				Name: "each.0", Item: new("chr1"), Phase: v1alpha1.PlaySucceeded, Slot: "slot-1", Attempt: 1, ExitCode: new(int32(0)),
				StartedAt: at(5 * time.Second), FinishedAt: at(65 * time.Second),
			},
			{Name: "each.1", Item: new("chr2"), Phase: v1alpha1.PlaySkipped},
			{
				Name: "sort", Phase: v1alpha1.PlayFailed, Slot: "slot-0", Attempt: 3, ExitCode: new(int32(143)),
				StartedAt: at(time.Minute), FinishedAt: at(11 * time.Minute),
			},
			{Name: "call", Phase: v1alpha1.PlayRunning, Slot: "slot-1", Attempt: 1, StartedAt: at(time.Minute)},
			{Name: "notify", Phase: v1alpha1.PlayPending},
		},
	}
}

func TestPlays(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, Plays(finished())); err != nil {
		t.Fatal(err)
	}
	want := `
PLAY    PHASE      SLOT    ATTEMPT  EXIT  START   DURATION  PEAK
align   Succeeded  slot-0  1        0     +120ms  3.8s      256Mi
each.0  Succeeded  slot-1  1        0     +5.0s   1m00s     -
each.1  Skipped    -       -        -     -       -         -
sort    Failed     slot-0  3        143   +1m00s  10m00s    -
call    Running    slot-1  1        -     +1m00s  -         -
notify  Pending    -       -        -     -       -         -
`
	if diff := cmp.Diff(strings.TrimLeft(want, "\n"), b.String()); diff != "" {
		t.Error(diff)
	}
	if got := Plays(v1alpha1.DriveStatus{}); len(got) != 1 {
		t.Errorf("a drive that has no plays yet has rows: %q", got[1:])
	}
}

func TestSummary(t *testing.T) {
	failed := finished()
	unclean := v1alpha1.DriveStatus{Phase: v1alpha1.DriveFailed, Message: "image a: \x1b[31mGET\x07 failed\nfor good"}
	for _, c := range []struct {
		status v1alpha1.DriveStatus
		want   string
	}{
		{failed, "drive d: Failed: play sort failed: it ran for longer than its timeout of 10m0s (11m00s, peak memory 300Mi)"},
		{v1alpha1.DriveStatus{Phase: v1alpha1.DriveSucceeded, StartedAt: at(0), FinishedAt: at(time.Second)}, "drive d: Succeeded (1.0s)"},
		{v1alpha1.DriveStatus{Phase: v1alpha1.DriveRunning, StartedAt: at(0)}, "drive d: Running"},
		{unclean, "drive d: Failed: image a: GET failed for good"},
	} {
		if got := Summary("d", c.status); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestDrives(t *testing.T) {
	failed := &v1alpha1.Drive{Status: finished()}
	failed.Name, failed.CreationTimestamp = "failed", metav1.NewTime(epoch)
	running := &v1alpha1.Drive{Status: v1alpha1.DriveStatus{Phase: v1alpha1.DriveRunning, StartedAt: at(50 * time.Minute)}}
	running.Name, running.CreationTimestamp = "running", metav1.NewTime(epoch.Add(50*time.Minute))
	fresh := &v1alpha1.Drive{}
	fresh.Name, fresh.CreationTimestamp = "fresh", metav1.NewTime(epoch.Add(time.Hour))
	want := [][]string{
		{"NAME", "PHASE", "PLAYS", "AGE", "DURATION"},
		{"fresh", "Pending", "0/0", "0ms", "-"},
		{"running", "Running", "0/0", "10m00s", "10m00s"},
		{"failed", "Failed", "4/6", "1h00m", "11m00s"},
	}
	if diff := cmp.Diff(want, Drives([]*v1alpha1.Drive{fresh, running, failed}, epoch.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                          "0s",
		0:                                     "0ms",
		999 * time.Microsecond:                "0ms",
		999 * time.Millisecond:                "999ms",
		time.Second:                           "1.0s",
		59*time.Second + 999*time.Millisecond: "59.9s",
		time.Minute:                           "1m00s",
		59*time.Minute + 59*time.Second:       "59m59s",
		time.Hour:                             "1h00m",
		47*time.Hour + 59*time.Minute:         "47h59m",
		48 * time.Hour:                        "2d",
		1000 * time.Hour:                      "41d",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestMemory(t *testing.T) {
	if got := Memory(nil); got != "-" {
		t.Errorf("an unknown amount is %q, want -", got)
	}
	for q, want := range map[string]string{
		"0": "0B", "1": "1B", "999": "999B", "1000": "1.0Ki", "1Ki": "1.0Ki", "1536": "1.5Ki", "10Ki": "10Ki", "10229": "10Ki",
		"999Ki": "999Ki", "1Mi": "1.0Mi", "300Mi": "300Mi", "1023Mi": "1.0Gi", "2Gi": "2.0Gi", "5Ti": "5120Gi",
	} {
		if got := Memory(memory(q)); got != want {
			t.Errorf("%s is %q, want %q", q, got, want)
		}
	}
}
