package view

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/plan"
)

// Screen shows a drive while it runs.
type Screen interface {
	// Tell shows an event.
	Tell(plan.Event)
	// Watch shows where the drive stands.
	Watch(v1alpha1.DriveStatus, plan.Observed)
	// Note shows a sentence that is not of the drive.
	Note(string)
	// Close shows what is left to show, and gives the terminal back.
	Close()
}

// New makes the screen of that kind: live, plain, none, or auto, which is live on a terminal and plain elsewhere.
func New(kind string, w io.Writer, name string, start time.Time, logs Logs) Screen {
	f, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
	switch {
	case kind == "none":
		return none{}
	case kind == "live" || kind == "auto" && terminal:
		return newLive(w, name, start, logs)
	default:
		return newLines(w, start, logs)
	}
}

// none shows nothing.
type none struct{}

func (none) Tell(plan.Event)                           {}
func (none) Watch(v1alpha1.DriveStatus, plan.Observed) {}
func (none) Note(string)                               {}
func (none) Close()                                    {}

// linesInterval is the pause between two looks at the plays' logs.
const linesInterval = 100 * time.Millisecond

// lines is Plain with a clock.
type lines struct {
	*Plain
	stop chan struct{}
	done sync.WaitGroup
}

func newLines(w io.Writer, start time.Time, logs Logs) *lines {
	l := &lines{Plain: NewPlain(w, start, logs), stop: make(chan struct{})}
	l.done.Go(func() {
		tick := time.NewTicker(linesInterval)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
				l.Poll()
			}
		}
	})
	return l
}

func (l *lines) Watch(v1alpha1.DriveStatus, plan.Observed) {}

func (l *lines) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.w, text)
}

func (l *lines) Close() {
	close(l.stop)
	l.done.Wait()
	l.Poll()
}
