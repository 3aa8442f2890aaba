package playbook

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example is a block of YAML in the documentation.
type example struct {
	line int
	text string
	// refused is what the problems must say; "" where the block must be good.
	refused string
}

var (
	yamlFence = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	// refusal stands on the line before the fence of a bad example.
	refusal = regexp.MustCompile(`<!-- refused: (.*) -->\n$`)
)

// TestDocumentation holds the examples of the documentation against the language. A block without apiVersion is the spec
// of a playbook; one of another API is no manifest of ours.
func TestDocumentation(t *testing.T) {
	for file, least := range map[string]int{"README.md": 1, "docs/language.md": 20} {
		t.Run(file, func(t *testing.T) {
			found := examples(t, "../../"+file)
			if len(found) < least {
				t.Errorf("%d examples are found, want at least %d", len(found), least)
			}
			for _, e := range found {
				if err := e.check(); err != nil {
					t.Errorf("%s:%d: %v", file, e.line, err)
				}
			}
		})
	}
}

// TestReadmeShowsHello: what the README shows is the example that it tells how to run.
func TestReadmeShowsHello(t *testing.T) {
	data, err := os.ReadFile("../../examples/hello/playbook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Parse("examples/hello", data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("README.md", []byte(examples(t, "../../README.md")[0].text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the README shows something else than examples/hello (-example +README):\n%s", diff)
	}
}

func examples(t *testing.T, file string) []example {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var out []example
	for _, at := range yamlFence.FindAllStringSubmatchIndex(text, -1) {
		e := example{line: 1 + strings.Count(text[:at[2]], "\n"), text: text[at[2]:at[3]]}
		if m := refusal.FindStringSubmatch(text[:at[0]]); m != nil {
			e.refused = m[1]
		}
		version := regexp.MustCompile(`(?m)^apiVersion: (.*)$`).FindStringSubmatch(e.text)
		switch {
		case version == nil:
			spec := "  " + strings.ReplaceAll(strings.TrimRight(e.text, "\n"), "\n", "\n  ")
			e.text = fmt.Sprintf("apiVersion: %s\nkind: Playbook\nspec:\n%s\n", GroupVersion, spec)
		case !strings.HasPrefix(version[1], "nohuddle.dev/"):
			continue
		}
		out = append(out, e)
	}
	return out
}

func (e *example) check() error {
	drive, err := Parse("", []byte(e.text))
	if err == nil {
		_, err = Compile(drive.Spec.Playbook, drive.Spec.Params)
	}
	switch {
	case e.refused == "":
		return err
	case err == nil:
		return fmt.Errorf("it is taken for good, want it refused by %q", e.refused)
	case !strings.Contains(err.Error(), e.refused):
		return fmt.Errorf("it is refused, but not by %q: %w", e.refused, err)
	}
	return nil
}
