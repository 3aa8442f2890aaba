package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/simulate"
	"github.com/nohuddle/nohuddle/internal/view"
)

func (a *app) planCommand() *cobra.Command {
	var params []string
	var output string
	c := &cobra.Command{
		Use:   "plan FILE|DIR",
		Short: "Show what would run when in which slot, and what the pod would ask for",
		Long: `Show what would run when in which slot, and what the pod would ask for at each moment, if every play succeeded and took
equally long; and what a pod with a container for each play would ask for. A play in brackets is staged: it starts when
those before it have ended.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			drive, path, err := readManifest(args[0])
			if err != nil {
				return err
			}
			if err := setParams(drive, params); err != nil {
				return err
			}
			if _, err := compile(drive, path); err != nil {
				return err
			}
			f, err := simulate.Run(drive.Name, drive.Spec.Playbook, drive.Spec.Params)
			if err != nil {
				return &exit{exitFailed, err}
			}
			if output != "" {
				return a.print(output, f)
			}
			return a.printForecast(f)
		},
	}
	paramFlag(c, &params)
	outputFlag(c, &output)
	return c
}

func paramFlag(c *cobra.Command, params *[]string) {
	c.Flags().StringArrayVarP(params, "param", "p", nil, "set a param of the playbook: name=value (repeatable)")
}

func (a *app) printForecast(f *simulate.Forecast) error {
	if len(f.Moments) == 0 {
		fmt.Fprintln(a.out, "no play would run")
		return nil
	}
	header := []string{"MOMENT"}
	for _, s := range f.Moments[0].Slots {
		header = append(header, strings.ToUpper(s.Name))
	}
	rows := [][]string{append(header, "POD REQUESTS")}
	for i, m := range f.Moments {
		row := []string{strconv.Itoa(i + 1)}
		for _, s := range m.Slots {
			switch {
			case s.Play == "":
				row = append(row, "-")
			case s.Phase == v1alpha1.PlayStaged:
				row = append(row, "("+s.Play+")")
			case s.Reused:
				row = append(row, s.Play+" (reused)")
			default:
				row = append(row, s.Play)
			}
		}
		rows = append(rows, append(row, resources(m.Request)))
	}
	if err := view.Write(a.out, rows); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "the pod asks for at most %s; all plays at once would ask for %s\n", resources(f.Peak), resources(f.AllAtOnce))
	if len(f.Unknown) > 0 {
		fmt.Fprintf(a.out, "known at run time only: %s (taken to run, with one item each)\n", strings.Join(f.Unknown, ", "))
	}
	return nil
}

// resources is a list of resources in a fixed order.
func resources(list corev1.ResourceList) string {
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := list[name]; ok && !q.IsZero() {
			out = append(out, string(name)+" "+q.String())
		}
	}
	for _, name := range sortedNames(list) {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			q := list[name]
			out = append(out, string(name)+" "+q.String())
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
