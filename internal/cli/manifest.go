package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/playbook"
)

// manifestName is the file that stands for a folder.
const manifestName = "playbook.yaml"

// readManifest reads a manifest: a file, a folder with a playbook.yaml, or - for standard input.
func readManifest(arg string) (*v1alpha1.Drive, string, error) {
	var in io.Reader = os.Stdin
	path := "<stdin>"
	if arg != "-" {
		path = arg
		if info, err := os.Stat(arg); err == nil && info.IsDir() {
			path = filepath.Join(arg, manifestName)
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, "", invalid(fmt.Errorf("there is no %s: name a playbook's file, or a folder with a %s", path, manifestName))
		}
		if err != nil {
			return nil, "", invalid(fmt.Errorf("read the playbook: %w", err))
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, playbook.MaxFile+1))
	if err != nil {
		return nil, "", invalid(fmt.Errorf("read the playbook %s: %w", path, err))
	}
	drive, err := playbook.Parse(path, data)
	if err != nil {
		return nil, "", invalid(err)
	}
	return drive, path, nil
}

// setParams takes name=value arguments over the manifest's own.
func setParams(drive *v1alpha1.Drive, args []string) error {
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return invalid(fmt.Errorf("-p %s: write name=value", arg))
		}
		if drive.Spec.Params == nil {
			drive.Spec.Params = map[string]string{}
		}
		drive.Spec.Params[name] = value
	}
	return nil
}

// compile compiles the drive's playbook with its params.
func compile(drive *v1alpha1.Drive, path string) (*playbook.Program, error) {
	prog, err := playbook.Compile(drive.Spec.Playbook, drive.Spec.Params)
	if problems, ok := errors.AsType[playbook.Problems](err); ok {
		for i := range problems {
			problems[i].File = path
		}
	}
	if err != nil {
		return nil, invalid(err)
	}
	return prog, nil
}
