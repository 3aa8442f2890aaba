package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nohuddle/nohuddle/internal/playbook"
)

// readSecrets reads Secret manifests, several to a file.
func readSecrets(files []string) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, invalid(fmt.Errorf("read secrets: %w", err))
		}
		dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			var s corev1.Secret
			err := dec.Decode(&s)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil { // the decoder's message could show a value
				return nil, invalid(fmt.Errorf("read secrets: %s holds something that is not a Secret of Kubernetes", file))
			}
			if s.Kind == "" && s.Name == "" {
				continue
			}
			if s.Kind != "Secret" || s.Name == "" {
				return nil, invalid(fmt.Errorf("read secrets: %s holds a %q named %q: only Secrets with a name are read", file, s.Kind, s.Name))
			}
			values := map[string]string{}
			for k, v := range s.Data {
				values[k] = string(v)
			}
			for k, v := range s.StringData {
				values[k] = v
			}
			out[s.Name] = values
		}
	}
	return out, nil
}

// secretValues picks the values that a program refers to, by the names that assignments have for them.
func secretValues(prog *playbook.Program, secrets map[string]map[string]string) (map[string]string, error) {
	out := map[string]string{}
	var missing []string
	for i, ref := range prog.Secrets {
		value, ok := secrets[ref.Name][ref.Key]
		switch {
		case ok && strings.IndexByte(value, 0) >= 0:
			return nil, invalid(fmt.Errorf("key %s of Secret %s holds a NUL byte, which no environment variable can carry", ref.Key, ref.Name))
		case ok:
			out[strconv.Itoa(i)] = value
		case !ref.Optional:
			missing = append(missing, fmt.Sprintf("key %s of Secret %s", ref.Key, ref.Name))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, invalid(fmt.Errorf("the playbook refers to %s: hand the Secrets over with --secrets FILE", strings.Join(missing, ", ")))
	}
	return out, nil
}
