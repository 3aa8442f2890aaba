package view

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// Logs opens what an attempt has written; fs.ErrNotExist before it began. An engine's Log is one.
type Logs func(token string) (io.ReadCloser, error)

// Plain writes a line for each event and each line of the plays' output, as they come.
type Plain struct {
	mu    sync.Mutex
	w     io.Writer
	start time.Time
	logs  Logs
	tails map[string]*follower
}

// NewPlain makes the view. start is the zero of its clock.
func NewPlain(w io.Writer, start time.Time, logs Logs) *Plain {
	return &Plain{w: w, start: start, logs: logs, tails: map[string]*follower{}}
}

// follower reads on in the log of one attempt.
type follower struct {
	label string
	file  io.ReadCloser
	part  []byte // of a line
}

// maxLine is the longest line that is shown in one piece, in bytes.
const maxLine = 4 << 10

// Tell writes an event.
func (p *Plain) Tell(e plan.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Reason {
	case plan.EventPlayStarted:
		p.tails[protocol.Token(e.Play, e.Attempt)] = &follower{label: e.Play}
	case plan.EventPlaySucceeded, plan.EventPlayFailed, plan.EventPlayRetried, plan.EventPlayCancelled:
		p.finish(protocol.Token(e.Play, e.Attempt))
	}
	if text := line(e); text != "" {
		fmt.Fprintf(p.w, "%8s  %s\n", "+"+Duration(e.Time.Sub(p.start)), text)
	}
}

// line is what an event says.
func line(e plan.Event) string {
	what := map[string]string{
		plan.EventPlayStarted: "started", plan.EventPlaySucceeded: "succeeded", plan.EventPlayFailed: "failed",
		plan.EventPlayRetried: "will be tried again", plan.EventPlaySkipped: "skipped", plan.EventPlayCancelled: "cancelled",
	}[e.Reason]
	switch {
	case e.Reason == plan.EventPlayStaged || e.Reason == plan.EventDriveStarted:
		return ""
	case e.Play == "":
		return strings.TrimSpace(e.Reason + " " + Clean(e.Message))
	case what == "":
		what = e.Reason
	}
	text := e.Play + " " + what
	if e.Slot != "" && e.Reason == plan.EventPlayStarted {
		text += " in " + e.Slot
	}
	if e.Attempt > 1 {
		text += fmt.Sprintf(" (attempt %d)", e.Attempt)
	}
	if e.Message != "" {
		text += ": " + Clean(e.Message)
	}
	return text
}

// Poll writes what the plays have written since the last call.
func (p *Plain) Poll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for token := range p.tails {
		p.read(token)
	}
}

// finish writes the rest of an attempt's output.
func (p *Plain) finish(token string) {
	f := p.tails[token]
	if f == nil {
		return
	}
	p.read(token)
	if len(f.part) > 0 {
		p.write(f, f.part)
	}
	if f.file != nil {
		_ = f.file.Close()
	}
	delete(p.tails, token)
}

func (p *Plain) read(token string) {
	f := p.tails[token]
	if f.file == nil {
		file, err := p.logs(token)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			fmt.Fprintf(p.w, "%s | (its output can't be read: %v)\n", f.label, err)
			delete(p.tails, token)
			return
		}
		f.file = file
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := f.file.Read(buf)
		f.part = append(f.part, buf[:n]...)
		for {
			i := bytes.IndexByte(f.part, '\n')
			if i < 0 && len(f.part) >= maxLine {
				i = maxLine - 1
			}
			if i < 0 {
				break
			}
			p.write(f, f.part[:i+1])
			f.part = f.part[i+1:]
		}
		if err != nil || n == 0 {
			return
		}
	}
}

func (p *Plain) write(f *follower, b []byte) {
	fmt.Fprintf(p.w, "%s | %s\n", f.label, Clean(strings.TrimRight(string(b), "\r\n")))
}

// Clean makes text fit for a terminal: of a line that was overwritten (\r) the last state, no control characters, no
// invalid UTF-8.
func Clean(s string) string {
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}
