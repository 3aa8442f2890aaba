package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nohuddle/nohuddle/internal/engine/local"
	"github.com/nohuddle/nohuddle/internal/store"
	"github.com/nohuddle/nohuddle/internal/view"
)

func (a *app) pruneCommand() *cobra.Command {
	var age time.Duration
	var all, images bool
	c := &cobra.Command{
		Use:   "prune [DRIVE...]",
		Short: "Remove what killed runs left, old drives, and images that nothing uses",
		Long: `Remove what runs that were killed have left on this machine (processes, mounts, cgroups, files), drives that ended more
than --older-than ago with their logs, and with --images or --all unpacked images that nothing has used since. With
names, those drives are removed and nothing else.`,
		ValidArgsFunction: a.driveArg,
		RunE: func(c *cobra.Command, args []string) error {
			if again, err := asRoot(); again || err != nil { // a container's files can be removed by its root only
				return err
			}
			s, err := a.store()
			if err != nil {
				return err
			}
			if err := a.reclaim(s); err != nil {
				return &exit{exitFailed, err}
			}
			if len(args) > 0 {
				return a.removeDrives(s, args)
			}
			if all {
				age = 0
			}
			if err := a.removeOld(s, age); err != nil {
				return err
			}
			if !images && !all {
				return nil
			}
			return a.pruneImages(c.Context(), age)
		},
	}
	c.Flags().DurationVar(&age, "older-than", 7*24*time.Hour, "remove drives that ended longer ago than this")
	c.Flags().BoolVar(&all, "all", false, "remove all drives that have ended, and all images that nothing uses")
	c.Flags().BoolVar(&images, "images", false, "remove images that have not been used for --older-than, too")
	return c
}

// reclaim removes what killed runs have left on the machine. Their drives and logs stay.
func (a *app) reclaim(s *store.Store) error {
	return s.Abandoned(func(name, dir string) error {
		left, err := local.Remove(name, dir)
		if left && err == nil {
			fmt.Fprintf(a.err, "removed what drive %s had left, whose process was killed\n", name)
		}
		return err
	})
}

func (a *app) removeDrives(s *store.Store, names []string) error {
	var errs []error
	for _, name := range names {
		err := s.Remove(name)
		if errors.Is(err, store.ErrRunning) {
			err = fmt.Errorf("drive %s runs: cancel it first, with Ctrl-C where it was started", name)
		}
		if err == nil {
			fmt.Fprintf(a.out, "removed drive %s\n", name)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return notFound(err)
	}
	return nil
}

func (a *app) removeOld(s *store.Store, age time.Duration) error {
	drives, err := s.List()
	if err != nil {
		fmt.Fprintln(a.err, "nohuddle: "+err.Error())
	}
	var names []string
	for _, d := range drives {
		if end := d.Status.FinishedAt; d.Status.Phase.Terminal() && end != nil && time.Since(end.Time) >= age {
			names = append(names, d.Name)
		}
	}
	return a.removeDrives(s, names)
}

func (a *app) pruneImages(ctx context.Context, age time.Duration) error {
	images, err := a.openImages(nil)
	if err != nil {
		return &exit{exitFailed, err}
	}
	defer images.Close()
	freed, err := images.Prune(ctx, age)
	if err != nil {
		return &exit{exitFailed, err}
	}
	fmt.Fprintf(a.out, "removed %d images, %s\n", freed.Images, view.Memory(resource.NewQuantity(freed.Bytes, resource.BinarySI)))
	return nil
}
