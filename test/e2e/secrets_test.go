package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const secrets = `apiVersion: v1
kind: Secret
metadata: {name: api}
stringData: {token: hunter2-hunter2}
data: {key: bGluZSBvbmUKbGluZSB0d28K}   # two lines
---
apiVersion: v1
kind: Secret
metadata: {name: other}
stringData: {token: not-asked-for, pin: "42"}
`

// CASES.md 29: exact and multi-line values are masked, also where two writes split them. CASES.md 7: a play sees its own
// secrets alone.
func TestSecrets(t *testing.T) {
	p := newPlayer(t)
	dir := t.TempDir()
	path := p.playbook(`
  plays:
  - name: uses
    image: examples.nohuddle.dev/busybox:1.35
    workingDir: /scratch
    env:
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: api, key: token}}}
    - {name: KEY, valueFrom: {secretKeyRef: {name: api, key: key}}}
    - {name: PIN, valueFrom: {secretKeyRef: {name: other, key: pin}}}
    - {name: ABSENT, valueFrom: {secretKeyRef: {name: other, key: none, optional: true}}}
    command: [sh, -c]
    args:
    - |
      printf '%s' "$TOKEN" > token; printf '%s' "$KEY" > key
      echo "token $TOKEN, absent ${ABSENT-unset}, pin $PIN"
      printf 'split %s' "$(echo "$TOKEN" | cut -c1-9)"; echo "$(echo "$TOKEN" | cut -c10-) done"
      echo "<$KEY>"
  - name: stderr
    image: examples.nohuddle.dev/busybox:1.35
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: api, key: token}}}]
    command: [sh, -c, 'echo "to stderr: $TOKEN" >&2']
  - name: must-not
    image: examples.nohuddle.dev/busybox:1.35
    command: [sh, -c]
    args: ['env; cat /proc/1/environ /proc/self/environ | tr "\\0" "\\n"; cat /nohuddle/ctl/* 2>/dev/null; true']
`)
	r := p.run("run", path, "--name", "d", "--secrets", p.file("secrets.yaml", secrets), "--scratch", dir).exits(0)
	r.prints("uses | token ***, absent unset, pin 42\n", "uses | split *** done\n", "stderr | to stderr: ***\n")
	if n := strings.Count(r.stdout, "uses | nohuddle: "); n != 1 {
		t.Errorf("%d values are said not to be masked, want that of PIN alone\n%s", n, r)
	}
	for file, want := range map[string]string{"token": "hunter2-hunter2", "key": "line one\nline two\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(b) != want {
			t.Errorf("the play has read %q as its %s, %v", b, file, err)
		}
	}
	all := p.run("logs", "d").exits(0).stdout + p.run("get", "d", "-o", "json").exits(0).stdout + r.stdout + r.stderr + stored(t, p.dir("d"))
	for _, secret := range []string{"hunter2", "line one", "line two", "not-asked-for", "bGluZSB"} {
		for line := range strings.Lines(all) {
			if strings.Contains(line, secret) {
				t.Errorf("%q is told or stored: %q", secret, line)
			}
		}
	}
}

// stored is the content of all files of a folder.
func stored(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		b.Write(content)
		b.WriteString("\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSecretsAreRefused(t *testing.T) {
	p := newPlayer(t)
	path := p.playbook(`
  plays:
  - name: a
    image: examples.nohuddle.dev/busybox:1.35
    env:
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: api, key: token}}}
    - {name: PIN, valueFrom: {secretKeyRef: {name: other, key: pin}}}
`)
	p.run("run", path).exits(2).says(
		"the playbook refers to key pin of Secret other, key token of Secret api: hand the Secrets over with --secrets FILE")
	p.run("run", path, "--secrets", "absent.yaml").exits(2).says("read secrets: open absent.yaml: no such file or directory")
	for name, text := range map[string]string{
		"base64":  "apiVersion: v1\nkind: Secret\nmetadata: {name: api}\ndata: {token: 'hunter2!'}\n",
		"text":    "hunter2 hunter2\n",
		"syntax":  "a: [hunter2\n",
		"type":    "apiVersion: v1\nkind: Secret\nmetadata: {name: api}\nstringData: [hunter2]\n",
		"kind":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: api}\ndata: {token: 'hunter2!'}\n",
		"no name": "apiVersion: v1\nkind: Secret\nstringData: {token: hunter2}\n",
		"nul":     "apiVersion: v1\nkind: Secret\nmetadata: {name: api}\ndata: {token: aHVudGVyMgA=}\n---\nkind: Secret\nmetadata: {name: other}\nstringData: {pin: '1'}\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := p.run("run", path, "--secrets", p.file("secrets.yaml", text)).exits(2).says("ecret")
			if strings.Contains(r.stderr, "hunter2") {
				t.Errorf("a value is told\n%s", r)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(p.state, "nohuddle", "drives")); !os.IsNotExist(err) {
		t.Errorf("the drives: %v", err)
	}
}
