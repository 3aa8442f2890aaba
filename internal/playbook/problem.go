package playbook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a manifest.
type Problem struct {
	// File as it was handed in; "" when the problem is in an object rather than a file.
	File string
	// Line and Column count from 1; 0 when there is no file. Columns count characters.
	Line, Column int
	// Path of the field: spec.plays[2].image. "" for the whole.
	Path string
	// Message says what is wrong and what to do, without the path.
	Message string

	// within locates the problem in a string of many lines: the number of line ends before it.
	within int
}

// String is "file:line:column: path: message", without the parts that are not known.
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.File != "" && p.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	case p.File != "":
		fmt.Fprintf(&b, "%s: ", p.File)
	case p.Line > 0:
		fmt.Fprintf(&b, "%d:%d: ", p.Line, p.Column)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is everything that is wrong with a manifest, in the order of its lines. It is an error.
type Problems []Problem //nolint:errname // it is a list of problems first, and an error where there are some

// Error has a line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// err is the problems as an error: nil when there are none, sorted otherwise.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps
}

// add appends a problem at a path.
func (ps *Problems) add(path, format string, args ...any) {
	*ps = append(*ps, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// field, index and key make the paths of problems.
func field(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func key(path, name string) string { return fmt.Sprintf("%s[%q]", path, name) }
