package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE|DIR...",
		Short: "Tell every problem of playbooks, each with its line",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			bad := 0
			for _, arg := range args {
				_, path, err := readManifest(arg)
				if err != nil {
					a.report(err)
					bad++
					continue
				}
				fmt.Fprintf(a.out, "%s is valid\n", path)
			}
			if bad > 0 {
				return &exit{code: exitInvalid}
			}
			return nil
		},
	}
}
