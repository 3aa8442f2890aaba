package view

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// shelf holds the logs of attempts, which grow while they are read.
type shelf map[string]*bytes.Buffer

func (s shelf) open(token string) (io.ReadCloser, error) {
	b, ok := s[token]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(b), nil
}

// write adds to the log of a first attempt.
func (s shelf) write(play, text string) {
	token := protocol.Token(play, 1)
	if s[token] == nil {
		s[token] = &bytes.Buffer{}
	}
	s[token].WriteString(text)
}

func event(reason, play string, d time.Duration) plan.Event {
	e := plan.Event{Time: epoch.Add(d), Reason: reason, Play: play}
	if play != "" {
		e.Attempt, e.Slot = 1, "slot-0"
	}
	return e
}

func TestPlainInterleavesEventsAndLogs(t *testing.T) {
	var b strings.Builder
	logs := shelf{}
	p := NewPlain(&b, epoch, logs.open)
	p.Tell(event(plan.EventDriveStarted, "", 0))
	p.Tell(event(plan.EventPlayStaged, "align", 0))
	p.Tell(event(plan.EventPlayStarted, "align", 10*time.Millisecond))
	p.Poll() // it has written nothing
	logs.write("align", "one\ntw")
	p.Poll()
	second := event(plan.EventPlayStarted, "fetch", time.Second)
	second.Slot = "slot-1"
	p.Tell(second)
	logs.write("fetch", "half a line")
	p.Poll() // and holds it back
	logs.write("align", "o\n\nthree")
	p.Poll()
	p.Tell(event(plan.EventPlaySucceeded, "align", 2*time.Second)) // after the rest of its output
	failed := event(plan.EventPlayRetried, "fetch", 3*time.Second)
	failed.Message = "attempt 1 failed (exit code 75), next in 5s"
	p.Tell(failed)
	again := event(plan.EventPlayStarted, "fetch", 8*time.Second)
	again.Attempt = 2
	p.Tell(again)
	logs[protocol.Token("fetch", 2)] = bytes.NewBufferString("the second attempt's\n")
	again.Reason, again.Message, again.Time = plan.EventPlayFailed, "exit code 1", epoch.Add(90*time.Second)
	p.Tell(again)
	p.Tell(event(plan.EventPlaySkipped, "call", 90*time.Second))
	p.Tell(event("DriveFailed", "", 91*time.Second))
	p.Poll() // all has been shown
	want := `
   +10ms  align started in slot-0
align | one
   +1.0s  fetch started in slot-1
align | two
align | 
align | three
   +2.0s  align succeeded
fetch | half a line
   +3.0s  fetch will be tried again: attempt 1 failed (exit code 75), next in 5s
   +8.0s  fetch started in slot-0 (attempt 2)
fetch | the second attempt's
  +1m30s  fetch failed (attempt 2): exit code 1
  +1m30s  call skipped
  +1m31s  DriveFailed
`
	if diff := cmp.Diff(strings.TrimLeft(want, "\n"), b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPlainTellsOnceThatALogCantBeRead(t *testing.T) {
	var b strings.Builder
	p := NewPlain(&b, epoch, func(string) (io.ReadCloser, error) { return nil, errors.New("it is a pipe") })
	p.Tell(event(plan.EventPlayStarted, "a", 0))
	p.Poll()
	p.Poll()
	p.Tell(event(plan.EventPlaySucceeded, "a", 0))
	want := "   +0ms  a started in slot-0\na | (its output can't be read: it is a pipe)\n   +0ms  a succeeded\n"
	if diff := cmp.Diff(want, strings.ReplaceAll(b.String(), "    +0ms", "   +0ms")); diff != "" {
		t.Error(diff)
	}
}

// shown is what Plain shows of output that is written in these pieces.
func shown(t *testing.T, pieces ...string) []string {
	t.Helper()
	var b strings.Builder
	logs := shelf{}
	p := NewPlain(&b, epoch, logs.open)
	p.Tell(event(plan.EventPlayStarted, "a", 0))
	for _, piece := range pieces {
		logs.write("a", piece)
		p.Poll()
	}
	p.Tell(event(plan.EventPlaySucceeded, "a", 0))
	var out []string
	for l := range strings.Lines(b.String()) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(l, "\n"), "a | "); ok {
			out = append(out, text)
		}
	}
	return out
}

// CASES.md 27.
func TestPlainShowsAnyOutput(t *testing.T) {
	long := strings.Repeat("é", maxLine) // twice as many bytes
	for name, c := range map[string]struct {
		pieces []string
		want   []string
	}{
		"no final newline":             {[]string{"one\ntwo"}, []string{"one", "two"}},
		"lines of DOS":                 {[]string{"one\r\ntwo\r", "\n"}, []string{"one", "two"}},
		"a progress bar":               {[]string{"1%\r2%", "\r3%\r\n"}, []string{"3%"}},
		"a progress bar without end":   {[]string{"1%\r2%\r"}, []string{"2%"}},
		"invalid UTF-8":                {[]string{"a\xff\xfeb\n"}, []string{"a�b"}},
		"a character in two writes":    {[]string{"caf\xc3", "\xa9\n"}, []string{"café"}},
		"control characters":           {[]string{"a\x00b\x07c\x08\td\x7f\u009b\n"}, []string{"abc d"}},
		"colours":                      {[]string{"\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b(B\n"}, []string{"red plain"}},
		"nothing but carriage returns": {[]string{strings.Repeat("\r", 10<<20)}, []string{""}},
		"10 MB of progress":            {[]string{strings.Repeat("50%\r", 10<<18) + "100%\n"}, []string{"100%"}},
		"a long line":                  {[]string{long}, []string{strings.Repeat("é", maxLine/2), strings.Repeat("é", maxLine/2)}},
		"a long line and its end":      {[]string{"x" + long + "\nnext\n"}, []string{"x" + strings.Repeat("é", maxLine/2-1), strings.Repeat("é", maxLine/2), "é", "next"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, shown(t, c.pieces...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlainHoldsNoMoreThanALine(t *testing.T) {
	logs := shelf{}
	p := NewPlain(io.Discard, epoch, logs.open)
	p.Tell(event(plan.EventPlayStarted, "a", 0))
	for range 100 {
		logs.write("a", strings.Repeat("\r50%", 10<<10))
		p.Poll()
		if n := len(p.tails[protocol.Token("a", 1)].part); n > maxLine {
			t.Fatalf("%d bytes are held back", n)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"plain":                      "plain",
		"two\nlines\n":               "two lines",
		"old\rnew":                   "new",
		"\x1b]8;;http://a\x1b\\link": "link",
		"\x1bPdevice\x1b\\control":   "control",
		"\x1b":                       "",
		"\x1b[2J\x1b[Hgone":          "gone",
		"\x1b]52;c;bm90IHlvdXJz":     "",
		"日本 ✓":                       "日本 ✓",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31mb\r\xff\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q becomes invalid UTF-8: %q", s, got)
		}
		for _, r := range got {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q keeps %q", s, r)
			}
		}
		if again := Clean(got); again != got {
			t.Errorf("%q becomes %q, and that %q", s, got, again)
		}
	})
}

func ExampleNewPlain() {
	var b strings.Builder
	p := NewPlain(&b, epoch, shelf{}.open)
	p.Tell(event(plan.EventPlayStarted, "align", 120*time.Millisecond))
	fmt.Println(strings.TrimSpace(b.String()))
	// Output: +120ms  align started in slot-0
}
