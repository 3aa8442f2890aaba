package view

import (
	"bytes"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/plan"
)

// live shows the picture of the drive at the foot of the terminal; the lines of Plain scroll by above it.
type live struct {
	*lines
	program *tea.Program
	done    sync.WaitGroup
}

// frame is the pause between two pictures while nothing happens.
const frame = 200 * time.Millisecond

func newLive(w io.Writer, name string, start time.Time, logs Logs) *live {
	// Keys are left to the terminal, so that Ctrl-C stays the signal that it is elsewhere.
	program := tea.NewProgram(&model{picture: Picture{Name: name, Start: start}}, tea.WithOutput(w), tea.WithInput(nil), tea.WithoutSignalHandler())
	l := &live{program: program}
	l.lines = newLines(&above{program: program}, start, logs)
	l.done.Go(func() { _, _ = program.Run() }) // a broken terminal must not break the drive
	return l
}

func (l *live) Watch(s v1alpha1.DriveStatus, o plan.Observed) { l.program.Send(watched{s, o}) }

func (l *live) Close() {
	l.lines.Close()
	l.program.Send(ended{})
	l.done.Wait()
}

// above is a writer whose lines appear above the picture.
type above struct {
	program *tea.Program
	part    []byte
}

func (a *above) Write(p []byte) (int, error) {
	a.part = append(a.part, p...)
	for {
		i := bytes.IndexByte(a.part, '\n')
		if i < 0 {
			return len(p), nil
		}
		a.program.Println(string(a.part[:i]))
		a.part = a.part[i+1:]
	}
}

// The messages of the model.
type (
	watched struct {
		status v1alpha1.DriveStatus
		seen   plan.Observed
	}
	ticked struct{}
	ended  struct{}
)

// model is the picture as bubbletea has it.
type model struct {
	picture       Picture
	width, height int
	over          bool
}

func tick() tea.Cmd { return tea.Tick(frame, func(time.Time) tea.Msg { return ticked{} }) }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case watched:
		m.picture.Status, m.picture.Seen = msg.status, msg.seen
	case ticked:
		return m, tick()
	case ended:
		m.over = true // the final table follows
		return m, tea.Quit
	}
	return m, nil
}

// View implements tea.Model.
func (m *model) View() tea.View {
	if m.over {
		return tea.NewView("")
	}
	return tea.NewView(m.picture.Draw(time.Now(), m.width, m.height))
}
