package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/engine/local"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

func (a *app) logsCommand() *cobra.Command {
	var attempt int32
	c := &cobra.Command{
		Use:   "logs DRIVE [PLAY]",
		Short: "Print what the plays of a drive have written",
		Long: `Print what the plays of a drive have written, or one play; an item of a play with forEach is PLAY.0, PLAY.1 and so on.
Without --attempt, every attempt is printed.`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.driveArg,
		RunE: func(_ *cobra.Command, args []string) error {
			s, drive, err := a.drive(args[0])
			if err != nil {
				return err
			}
			play := ""
			if len(args) > 1 {
				play = args[1]
			}
			attempts, err := attemptsOf(drive, play, attempt)
			if err != nil {
				return invalid(err)
			}
			return a.printLogs(s.Dir(drive.Name), attempts)
		},
	}
	c.Flags().Int32Var(&attempt, "attempt", 0, "print this attempt only, counted from 1")
	return c
}

// attempted is one attempt of a play.
type attempted struct {
	play   string
	number int32
	last   bool // the only or the last one of its play
}

// attemptsOf are the attempts of a drive that began, in the order of its plays; play "" is all, attempt 0 likewise.
func attemptsOf(drive *v1alpha1.Drive, play string, attempt int32) ([]attempted, error) {
	var out []attempted
	known := false
	for _, p := range drive.Status.Plays {
		if play != "" && p.Name != play && !strings.HasPrefix(p.Name, play+".") {
			continue
		}
		known = true
		if p.Items != nil {
			continue
		}
		for n := int32(1); n <= p.Attempt; n++ {
			if attempt == 0 || n == attempt {
				out = append(out, attempted{p.Name, n, n == p.Attempt})
			}
		}
	}
	switch {
	case !known:
		return nil, fmt.Errorf("drive %s has no play %s: `nohuddle get %s` shows its plays", drive.Name, play, drive.Name)
	case attempt != 0 && len(out) == 0:
		return nil, fmt.Errorf("there is no attempt %d: `nohuddle get %s` shows how many there were", attempt, drive.Name)
	}
	return out, nil
}

func (a *app) printLogs(dir string, attempts []attempted) error {
	out := &lastByte{w: a.out}
	for _, at := range attempts {
		f, err := local.OpenLog(dir, protocol.Token(at.play, at.number))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it wrote nothing, or has not begun
		}
		if err != nil {
			return &exit{exitFailed, fmt.Errorf("read the log of play %s in %s: %w", at.play, filepath.Base(dir), err)}
		}
		if len(attempts) > 1 {
			switch out.last {
			case 0:
			case '\n':
				fmt.Fprintln(out)
			default: // the log before has no final newline
				fmt.Fprint(out, "\n\n")
			}
			fmt.Fprintf(out, "==> %s, attempt %d <==\n", at.play, at.number)
		}
		_, err = io.Copy(out, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return &exit{exitFailed, err}
		}
	}
	return nil
}

// lastByte is a writer that knows the last byte it wrote; 0 before the first.
type lastByte struct {
	w    io.Writer
	last byte
}

// Write implements io.Writer.
func (l *lastByte) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if n > 0 {
		l.last = p[n-1]
	}
	return n, err
}
