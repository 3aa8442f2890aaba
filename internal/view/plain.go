package view

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

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
	for _, token := range slices.Sorted(maps.Keys(p.tails)) {
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
		for piece := f.piece(); piece != nil; piece = f.piece() {
			p.write(f, piece)
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// piece takes the next line, or as much of a long one as is shown in one piece; nil if neither is complete yet. What was
// overwritten (\r) is dropped at once: a progress bar is one line that grows without end.
func (f *follower) piece() []byte {
	length := bytes.IndexByte(f.part, '\n')
	complete := length >= 0
	if !complete {
		length = len(f.part)
	}
	text := bytes.TrimRight(f.part[:length], "\r")
	if !complete && len(text) < length {
		length = len(text) + 1
		f.part = f.part[:length]
	}
	stale := bytes.LastIndexByte(text, '\r') + 1
	f.part = f.part[stale:]
	length -= stale
	switch {
	case length > maxLine:
		length = maxLine
		for i := 0; i < utf8.UTFMax-1 && !utf8.RuneStart(f.part[length]); i++ {
			length--
		}
	case complete:
		length++
	default:
		return nil
	}
	piece := f.part[:length]
	f.part = f.part[length:]
	return piece
}

func (p *Plain) write(f *follower, b []byte) {
	fmt.Fprintf(p.w, "%s | %s\n", f.label, Clean(string(b)))
}

// escapes are the sequences that terminals obey (ECMA-48): control sequences, strings such as titles, the others.
var escapes = regexp.MustCompile(`\x1b\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|\x1b[\]PX^_][^\x07\x1b]*(\x07|\x1b\\)?|\x1b[\x20-\x2f]*[\x30-\x7e]`)

// Clean makes text fit for a terminal, in one line: of what was overwritten (\r) the last state, no escape sequences, no
// control characters, no invalid UTF-8.
func Clean(s string) string {
	s = strings.TrimRight(s, "\r\n")
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(escapes.ReplaceAllString(s, ""), "�"))
}
