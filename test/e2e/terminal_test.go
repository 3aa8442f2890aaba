package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal of 80 columns, seen from the user's side.
type terminal struct {
	t      *testing.T
	user   *os.File
	screen output
	done   chan struct{}
}

// onTerminal starts the program on a terminal of its own.
func (p *player) onTerminal(args ...string) (*terminal, *process) {
	p.t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer side.Close()
	term := &terminal{t: p.t, user: user, done: make(chan struct{})}
	go func() {
		defer close(term.done)
		buf := make([]byte, 4096)
		for {
			n, err := user.Read(buf)
			_, _ = term.screen.Write(buf[:n])
			if err != nil { // EIO: nobody is on the other side any more
				return
			}
		}
	}()
	cmd := exec.Command(filepath.Join(bin, "nohuddle"), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c := p.startCommand(cmd)
	p.t.Cleanup(func() { user.Close() })
	return term, c
}

// escapes are what a terminal obeys and doesn't show.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?>]*[a-zA-Z]|\x1b[=>]|\x1b\][^\x07]*\x07`)

// text is what the terminal was sent, without what it doesn't show.
func (term *terminal) text() string { return escapes.ReplaceAllString(term.screen.String(), "") }

func (term *terminal) sees(text string) {
	term.t.Helper()
	eventually(term.t, "\""+text+"\" on the terminal", func() bool { return strings.Contains(term.text(), text) })
}

func TestLiveView(t *testing.T) {
	p := newPlayer(t)
	term, c := p.onTerminal("run", "examples/hello", "--name", "d")
	c.wait().exits(0)
	<-term.done
	text := term.text()
	for _, want := range []string{"huddle | Hello, world", "shout | HELLO, WORLD!", "bye succeeded", "0/5 plays", "slot-0", "PLAY    PHASE", "drive d: Succeeded ("} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal was not shown %q", want)
		}
	}
	// The table comes last, below everything else; and the cursor is there again.
	table := text[strings.LastIndex(text, "PLAY    PHASE"):]
	if strings.Contains(table, "●") || strings.Contains(table, "plays  ") {
		t.Errorf("there is a picture below the table: %q", table)
	}
	all := term.screen.String()
	if hidden, shown := strings.LastIndex(all, "\x1b[?25l"), strings.LastIndex(all, "\x1b[?25h"); hidden > shown {
		t.Error("the cursor is hidden at the end")
	}
	// Questions to the terminal would be answered to the user's shell.
	for _, question := range []string{"\x1b[c", "\x1b[6n", "$p", "\x1b]11;?", "\x1b[?u"} {
		if strings.Contains(all, question) {
			t.Errorf("the terminal is asked %q", question)
		}
	}
	if t.Failed() {
		t.Logf("%q", all)
	}
}

// Ctrl-C on the terminal reaches everything in the foreground: it must end the drive, not the containers.
func TestLiveViewCtrlC(t *testing.T) {
	p := newPlayer(t)
	term, c := p.onTerminal("run", p.playbook(sleeper), "--name", "d")
	term.sees("sleep | asleep")
	if _, err := term.user.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	c.wait().exits(130)
	<-term.done
	for _, want := range []string{"cancelling", "sleep | stopped", "clean | cleaned up", "drive d: Cancelled"} {
		if !strings.Contains(term.text(), want) {
			t.Errorf("the terminal was not shown %q: %q", want, term.text())
		}
	}
}
