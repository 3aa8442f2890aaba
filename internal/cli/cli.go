// Package cli owns the commands of nohuddle: what they take, what they print and how they end. What they do is other
// packages' work.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/store"
)

// Exit codes.
const (
	exitFailed    = 1
	exitInvalid   = 2
	exitCancelled = 130
)

// exit is an error with the code that the program ends with.
type exit struct {
	code int
	err  error // nil when everything has been said
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// invalid marks what the user handed in as wrong.
func invalid(err error) error { return &exit{code: exitInvalid, err: err} }

// app is what the commands share.
type app struct {
	out, err io.Writer
	version  string
	stateDir string
	cacheDir string
}

// Main runs a command line, without the program's name, and returns the exit code.
func Main(args []string, version string) int {
	a := &app{out: os.Stdout, err: os.Stderr, version: version}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	return a.report(root.Execute())
}

// report tells an error and returns its exit code.
func (a *app) report(err error) int {
	if err == nil {
		return 0
	}
	code := exitInvalid // cobra's own errors are about the command line
	if e, ok := errors.AsType[*exit](err); ok {
		code, err = e.code, e.err
	}
	problems, isProblems := errors.AsType[playbook.Problems](err)
	switch {
	case err == nil:
	case isProblems:
		fmt.Fprintln(a.err, problems.Error()) // each line begins with its file
	default:
		fmt.Fprintln(a.err, "nohuddle: "+strings.TrimSpace(err.Error()))
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "nohuddle",
		Short:         "Run batch work in one pod whose containers are substituted in place",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&a.stateDir, "state-dir", "", "folder of drives and their logs (default $XDG_STATE_HOME/nohuddle)")
	root.PersistentFlags().StringVar(&a.cacheDir, "cache-dir", "", "folder of unpacked images (default $XDG_CACHE_HOME/nohuddle)")
	root.AddCommand(a.runCommand(), a.validateCommand(), a.planCommand(), a.logsCommand(), a.listCommand(), a.getCommand(),
		a.pruneCommand(), a.versionCommand())
	return root
}

func (a *app) store() (*store.Store, error) {
	s, err := store.Open(a.stateDir)
	if err != nil {
		return nil, &exit{exitFailed, err}
	}
	return s, nil
}

// driveArg completes the names of drives.
func (a *app) driveArg(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := store.Open(a.stateDir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	drives, _ := s.List()
	var names []string
	for _, d := range drives {
		names = append(names, d.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
