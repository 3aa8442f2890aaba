package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/store"
	"github.com/nohuddle/nohuddle/internal/view"
)

func (a *app) listCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the drives of this machine, the newest first",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			s, err := a.store()
			if err != nil {
				return err
			}
			drives, err := s.List()
			if err != nil {
				fmt.Fprintln(a.err, "nohuddle: "+err.Error())
			}
			if output != "" {
				if drives == nil {
					drives = []*v1alpha1.Drive{} // no items are a list, too
				}
				return a.print(output, map[string]any{"apiVersion": "v1", "kind": "List", "items": drives})
			}
			if len(drives) == 0 && err == nil {
				fmt.Fprintln(a.err, "no drives yet: `nohuddle run FILE` makes one")
				return nil
			}
			return view.Write(a.out, view.Drives(drives, time.Now()))
		},
	}
	outputFlag(c, &output)
	return c
}

func (a *app) getCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:               "get DRIVE",
		Short:             "Show a drive: its plays, or with -o the whole object",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.driveArg,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			_, drive, err := a.drive(args[0])
			if err != nil {
				return err
			}
			if output != "" {
				return a.print(output, drive)
			}
			if err := view.Write(a.out, view.Plays(drive.Status)); err != nil {
				return err
			}
			fmt.Fprintln(a.out, view.Summary(drive.Name, drive.Status))
			return nil
		},
	}
	outputFlag(c, &output)
	return c
}

// drive finds a drive in the store.
func (a *app) drive(name string) (*store.Store, *v1alpha1.Drive, error) {
	s, err := a.store()
	if err != nil {
		return nil, nil, err
	}
	d, err := s.Get(name)
	if err != nil {
		return nil, nil, notFound(err)
	}
	return s, d, nil
}

// notFound gives a missing drive the exit code of a wrong argument.
func notFound(err error) error {
	if _, ok := errors.AsType[*store.NotFoundError](err); ok {
		return invalid(err)
	}
	return &exit{exitFailed, err}
}
