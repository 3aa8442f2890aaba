package playbook

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the problems that bad files have now beside them")

// TestBadFiles: each file's problems are told all in one go, each with its place (the .want file beside it).
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(f), data)
			if err == nil {
				t.Fatal("it is taken for good")
			}
			if _, ok := errors.AsType[Problems](err); !ok {
				t.Errorf("the error is %T, want Problems", err)
			}
			got, golden := err.Error()+"\n", strings.TrimSuffix(f, ".yaml")+".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("problems:\n%swant:\n%s", got, want)
			}
		})
	}
}

func TestExamplesParse(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/playbook.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(f, data); err != nil {
			t.Error(err)
		}
	}
}

// TestParseTakesWhatItPrints: a drive that was printed, its status included, can be read again.
func TestParseTakesWhatItPrints(t *testing.T) {
	data, err := os.ReadFile("../../examples/ci/playbook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	drive, err := Parse("ci", data)
	if err != nil {
		t.Fatal(err)
	}
	drive.Status.Phase, drive.CreationTimestamp = "Succeeded", metav1.Now()
	printed, err := yaml.Marshal(drive)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("printed", printed)
	if err != nil {
		t.Fatal(err)
	}
	drive.Status.Phase, drive.CreationTimestamp = "", metav1.Time{}
	back, err := yaml.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := yaml.Marshal(drive); !bytes.Equal(back, want) {
		t.Errorf("it comes back as\n%s\nwant\n%s", back, want)
	}
}

// TestStringsStay: text of shells passes byte for byte (CASES.md 15).
func TestStringsStay(t *testing.T) {
	script := "#!/bin/bash\necho $$ $(date) ${HOME} $(( 1 + 1 )) %s \\n \"q\" 'q' {{x}} `id` é\t!\n"
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": GroupVersion, "kind": "Playbook",
		"spec": map[string]any{"plays": []any{map[string]any{"name": "a", "image": "x", "script": script}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	drive, err := Parse("f", manifest)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := Compile(drive.Spec.Playbook, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := prog.Plays[0].Render(nil, nil)
	if err != nil || text.Script != script {
		t.Errorf("the script becomes %q (%v), want %q", text.Script, err, script)
	}
}

// TestSecretKeyRef: the fields of a struct that Kubernetes embeds are its own.
func TestSecretKeyRef(t *testing.T) {
	drive, err := Parse("f", []byte(`
apiVersion: nohuddle.dev/v1alpha1
kind: Playbook
spec:
  plays:
  - {name: a, image: x, env: [{name: T, valueFrom: {secretKeyRef: {name: creds, key: token, optional: true}}}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	prog, err := Compile(drive.Spec.Playbook, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := SecretRef{Name: "creds", Key: "token", Optional: true}
	if len(prog.Secrets) != 1 || prog.Secrets[0] != want {
		t.Errorf("the secrets are %v, want only %v", prog.Secrets, want)
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	drive, err := Parse("f", []byte(`
apiVersion: nohuddle.dev/v1alpha1
kind: Playbook
spec:
  plays:
  - &base {name: a, image: x, timeout: 3s, command: ["true"]}
  - {<<: *base, name: b}
`))
	if err != nil {
		t.Fatal(err)
	}
	if p := drive.Spec.Playbook.Plays[1]; p.Name != "b" || p.Image != "x" || p.Timeout.Seconds() != 3 {
		t.Errorf("the second play is %+v", p)
	}
}

// TestAliasBomb: what aliases make of a file is bounded.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: nohuddle.dev/v1alpha1\nkind: Playbook\nspec:\n  plays:\n")
	b.WriteString("  - {name: a, image: x, forEach: &long [" + strings.Repeat("x, ", 5000) + "x]}\n")
	b.WriteString(strings.Repeat("  - {name: a, image: x, forEach: *long}\n", 10_000))
	_, err := Parse("bomb", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "aliases make more than 500000 values") {
		t.Errorf("the bomb is answered by %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "../../examples/*/playbook.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			if data, err := os.ReadFile(name); err == nil {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		drive, err := Parse("f", data)
		if err != nil {
			problems, _ := errors.AsType[Problems](err)
			for _, p := range problems {
				if p.Message == "" || p.Line < 1 || p.Column < 1 {
					t.Errorf("a problem without place or message: %+v", p)
				}
			}
			return
		}
		if drive.Spec.Playbook == nil {
			t.Error("no playbook and no problem")
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add("a ${{ b }} $$ ${{ \"}}\" }}")
	f.Fuzz(func(t *testing.T, s string) {
		segments, at, err := scan(s)
		if err != nil {
			if at < 0 || at > len(s) {
				t.Errorf("the problem is at byte %d of %q", at, s)
			}
			return
		}
		rest := s
		for _, seg := range segments {
			_, after, ok := strings.Cut(rest, seg.text)
			if !ok {
				t.Fatalf("%q is not in what is left of %q: %q", seg.text, s, rest)
			}
			rest = after
		}
		if !strings.Contains(s, "${{") && (len(segments) > 1 || len(segments) == 1 && segments[0].text != s) {
			t.Errorf("%q becomes %v", s, segments)
		}
	})
}
