package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// CASES.md 4: the logs of plays that alternate over two slots can be read after the drive. CASES.md 15: the shell's own
// text stays as it is.
func TestHello(t *testing.T) {
	p := newPlayer(t)
	p.run("run", "examples/hello", "--name", "hello", "-p", "name=you").exits(0).prints(
		"huddle | Hello, you\n", "shout | HELLO, YOU! (process ", ", home /root)\n", "boast skipped", "drive hello: Succeeded (")
	for play, want := range map[string]string{
		"huddle": "Hello, you\n", "count": "", "boast": "", "bye": "HELLO, YOU\ndigest d2ccf80f1b11, from hello\n",
	} {
		if r := p.run("logs", "hello", play).exits(0); r.stdout != want {
			t.Errorf("the log of %s is %q, want %q", play, r.stdout, want)
		}
	}
	d := p.run("get", "hello", "-o", "json").exits(0).drive()
	want := map[string]string{"letters": "8", "digest": "d2ccf80f1b11"}
	if diff := cmp.Diff(want, play(t, d, "count").Outputs); diff != "" {
		t.Error(diff)
	}
	slots := map[string]bool{}
	for _, s := range d.Status.Plays {
		slots[s.Slot] = true
	}
	if !slots["slot-0"] || !slots["slot-1"] {
		t.Errorf("the plays ran in %v, not in both slots", slots)
	}
}

// CASES.md 41, in small: a DAG, forEach, retries and finally.
func TestCI(t *testing.T) {
	p := newPlayer(t)
	dist := t.TempDir()
	d := p.run("run", "examples/ci", "--name", "ci", "--scratch", dist, "-o", "json", "-p", "version=2.0.0").exits(0).drive()
	if d.Status.Phase != v1alpha1.DriveSucceeded {
		t.Errorf("the drive is %s", d.Status.Phase)
	}
	vendor := play(t, d, "vendor")
	if vendor.Attempt != 2 || len(vendor.Attempts) != 1 || *vendor.Attempts[0].ExitCode != 75 || vendor.Outputs["attempt"] != "2" {
		t.Errorf("vendor is %+v", vendor)
	}
	if n := play(t, d, "compile").Items; n == nil || *n != 2 {
		t.Errorf("compile has %v items", n)
	}
	for play, want := range map[string]string{
		"notify":    "release 2.0.0: compile Succeeded, publish Succeeded\n",
		"publish":   "published 2 packages\n",
		"checksums": "page-2.0.0-amd64.tar.gz: OK\npage-2.0.0-i386.tar.gz: OK\n",
		"web":       "<h1>Tools & toys 2.0.0</h1>\n",
	} {
		if r := p.run("logs", "ci", play).exits(0); r.stdout != want {
			t.Errorf("the log of %s is %q, want %q", play, r.stdout, want)
		}
	}
	// CASES.md 26: the attempts' logs are kept apart.
	if r := p.run("logs", "ci", "vendor", "--attempt", "1").exits(0); r.stdout != "no answer, try again\n" {
		t.Errorf("the log of vendor's first attempt is %q", r.stdout)
	}
	sums, err := os.ReadFile(filepath.Join(dist, "public", "SHA256SUMS"))
	if err != nil || strings.Count(string(sums), "\n") != 2 {
		t.Errorf("%q, %v", sums, err)
	}
	// A preview is not published.
	d = p.run("run", "examples/ci", "-o", "json", "-p", "version=2.0.0-rc.1").exits(0).drive()
	if got := play(t, d, "publish").Phase; got != v1alpha1.PlaySkipped {
		t.Errorf("publish is %s", got)
	}
}

// CASES.md 39: a whole genome, small. The number of variants and the body of the VCF are the same each time.
func TestWholeGenome(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(root, "examples", "wgs", "testdata", "expected.vcf"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPlayer(t)
	for _, name := range []string{"first", "second"} {
		dir := filepath.Join(t.TempDir(), "made", "by-run")
		d := p.run("run", "examples/wgs", "--name", name, "--scratch", dir, "-o", "json").exits(0).drive()
		if got := play(t, d, "call").Outputs["variants"]; got != "86" {
			t.Errorf("%s: %s variants, want 86", name, got)
		}
		if got := play(t, d, "fetch").Outputs["pairs"]; got != "10000" {
			t.Errorf("%s: %s pairs of reads, want 10000", name, got)
		}
		vcf, err := os.ReadFile(filepath.Join(dir, "results", "variants.vcf"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), body(string(vcf))); diff != "" {
			t.Errorf("%s: the variants differ:\n%s", name, diff)
		}
		if svg, err := os.ReadFile(filepath.Join(dir, "results", "coverage.svg")); err != nil || !strings.Contains(string(svg), "86 variants") {
			t.Errorf("%s: the plot has no title with the number of variants: %v", name, err)
		}
		for _, s := range d.Status.Plays {
			if s.PeakMemory == nil || s.PeakMemory.IsZero() {
				t.Errorf("%s: the peak memory of %s is not known", name, s.Name)
			}
		}
	}
}

// body is a VCF without its header, which has dates in it.
func body(vcf string) string {
	var b strings.Builder
	for line := range strings.Lines(vcf) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}
