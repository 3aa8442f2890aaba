// Command bench measures what a drive on this machine costs, each figure against the plain way in the same run, and
// prints a table and JSON. `make bench-local` runs it; docs/performance.md says what the figures mean.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nohuddle/nohuddle/internal/image"
	"github.com/nohuddle/nohuddle/internal/view"
)

// figure is one measured number.
type figure struct {
	Name string `json:"name"`
	// Value is in Unit: ms, or ratio.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Most is the highest value that is good.
	Most float64 `json:"atMost"`
	// Detail says what the value was made from.
	Detail string `json:"detail"`
}

func (f figure) good() bool { return f.Value <= f.Most }

// bench is what the measurements share.
type bench struct {
	nohuddle, shim, layout string
	dir                    string
	images                 *image.Store
}

// busybox is an image with a shell.
const busybox = "examples.nohuddle.dev/busybox:1.35"

func main() {
	b := &bench{}
	flag.StringVar(&b.nohuddle, "nohuddle", "bin/nohuddle", "the CLI")
	flag.StringVar(&b.shim, "shim", "bin/nohuddle-shim", "the shim")
	flag.StringVar(&b.layout, "images", "build/images", "OCI layout with the example images")
	out := flag.String("json", "build/bench.json", "file for the figures")
	flag.Parse()
	if err := b.run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(out string) (err error) {
	for _, p := range []*string{&b.nohuddle, &b.shim, &b.layout, &out} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	// Where drives are by default: not on a file system in memory.
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(cache, "nohuddle-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.images, err = image.Open("", image.Options{Layouts: []string{b.layout}}); err != nil {
		return err
	}
	defer b.images.Close()
	var figures []figure
	for _, measure := range []func(context.Context) ([]figure, error){b.handover, b.swap, b.noop, b.memory} {
		found, err := measure(context.Background())
		if err != nil {
			return err
		}
		for _, f := range found {
			fmt.Fprintf(os.Stderr, "%s: %.3g %s\n", f.Name, f.Value, f.Unit)
		}
		figures = append(figures, found...)
	}
	return report(figures, out)
}

func report(figures []figure, out string) error {
	rows := [][]string{{"FIGURE", "MEASURED", "AT MOST", "", "HOW"}}
	for _, f := range figures {
		verdict := "ok"
		if !f.good() {
			verdict = "MISSED"
		}
		rows = append(rows, []string{f.Name, fmt.Sprintf("%.3g %s", f.Value, f.Unit), fmt.Sprintf("%.3g", f.Most), verdict, f.Detail})
	}
	if err := view.Write(os.Stdout, rows); err != nil {
		return err
	}
	data, err := json.MarshalIndent(map[string]any{"figures": figures}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(out, append(data, '\n'), 0o644)
}
