// Command demo runs an example and then the same containers all at once, and prints the peaks of both. `make demo` runs
// it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/view"
)

func main() {
	d := &demo{}
	flag.StringVar(&d.nohuddle, "nohuddle", "bin/nohuddle", "the CLI")
	flag.StringVar(&d.images, "images", "build/images", "OCI layout with the example images")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: demo [FLAGS] EXAMPLE")
		os.Exit(2)
	}
	if err := d.run(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type demo struct{ nohuddle, images string }

func (d *demo) run(example string) (err error) {
	dir, err := os.MkdirTemp("", "nohuddle-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	scratch := filepath.Join(dir, "scratch")
	state := filepath.Join(dir, "state")

	fmt.Printf("$ nohuddle run %s --images %s\n", example, d.images)
	if err := d.cli(nil, "run", example, "--name", "demo", "--scratch", scratch, "--view", "plain", "--state-dir", state); err != nil {
		return err
	}
	var row v1alpha1.Drive
	if err := d.cli(&row, "get", "demo", "-o", "json", "--state-dir", state); err != nil {
		return err
	}

	fmt.Println("\nThe same containers all at once, on what the run has left in the scratch:")
	manifest := filepath.Join(dir, "at-once.json")
	if err := atOnce(&row, manifest); err != nil {
		return err
	}
	var all v1alpha1.Drive
	if err := d.cli(&all, "run", manifest, "--name", "at-once", "--scratch", scratch, "--view", "none", "-o", "json", "--state-dir", state); err != nil {
		return err
	}
	return compare(row.Status, all.Status)
}

// cli runs the CLI; its output goes to the terminal, or is read as JSON into v.
func (d *demo) cli(v any, args ...string) error {
	cmd := exec.Command(d.nohuddle, args...)
	cmd.Env = append(os.Environ(), "NOHUDDLE_IMAGES="+d.images)
	cmd.Stderr = os.Stderr
	if v == nil {
		cmd.Stdout = os.Stdout
		return cmd.Run()
	}
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, v)
}

// atOnce writes a playbook with the same plays, as they were run, in a slot each and with nothing to wait for. Some fail
// that way, because another takes their input away: for the memory that they hold it makes no difference.
func atOnce(ran *v1alpha1.Drive, path string) error {
	prog, err := playbook.Compile(ran.Spec.Playbook, ran.Spec.Params)
	if err != nil {
		return err
	}
	spec := v1alpha1.PlaybookSpec{Scratch: ran.Spec.Playbook.Scratch}
	for _, p := range prog.Plays {
		text, err := p.Render(ended{prog, ran.Status}, nil)
		if err != nil {
			return err
		}
		play := v1alpha1.Play{
			Name: p.Spec.Name, Image: text.Image, Command: text.Command, Args: text.Args, Script: text.Script,
			WorkingDir: text.WorkingDir, Resources: p.Spec.Resources, Needs: &[]string{}, OnError: v1alpha1.OnErrorContinue,
		}
		for _, e := range text.Env {
			play.Env = append(play.Env, v1alpha1.EnvVar{Name: e.Name, Value: e.Value})
		}
		spec.Plays = append(spec.Plays, play)
	}
	count := int32(len(spec.Plays))
	spec.Slots = []v1alpha1.SlotGroup{{Name: "slot", Count: &count}}
	b, err := json.Marshal(map[string]any{"apiVersion": playbook.GroupVersion, "kind": "Playbook", "spec": spec})
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// ended is a drive that has ended, as expressions see it.
type ended struct {
	prog   *playbook.Program
	status v1alpha1.DriveStatus
}

func (e ended) DriveName() string  { return "demo" }
func (e ended) DrivePhase() string { return string(e.status.Phase) }

func (e ended) Play(index int) playbook.PlayValue {
	for _, p := range e.status.Plays {
		if p.Name == e.prog.Plays[index].Spec.Name {
			return playbook.PlayValue{Phase: string(p.Phase), Outputs: p.Outputs}
		}
	}
	return playbook.PlayValue{}
}

func compare(row, all v1alpha1.DriveStatus) error {
	if row.PeakMemory == nil || all.PeakMemory == nil {
		return errors.New("this machine doesn't count the memory of cgroups, so there are no peaks to compare")
	}
	rows := [][]string{{"", "CONTAINERS", "PEAK MEMORY"}}
	rows = append(rows,
		[]string{"nohuddle", fmt.Sprint(len(row.Slots)), view.Memory(row.PeakMemory)},
		[]string{"all at once", fmt.Sprint(len(all.Slots)), view.Memory(all.PeakMemory)})
	return view.Write(os.Stdout, rows)
}
