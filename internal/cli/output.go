package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

func outputFlag(c *cobra.Command, output *string) {
	c.Flags().StringVarP(output, "output", "o", "", "print the object: json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// checkOutput refuses a format that there isn't.
func checkOutput(output string) error {
	switch output {
	case "", "json", "yaml":
		return nil
	}
	return invalid(fmt.Errorf("-o %s: the formats are json and yaml", output))
}

// print prints an object.
func (a *app) print(output string, v any) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if output == "yaml" {
		if b, err = yaml.JSONToYAML(b); err != nil {
			return err
		}
	}
	_, err = a.out.Write(b)
	return err
}
