package shim_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// CASES.md 29: the values of secrets are masked in both copies of the output and in the outputs, also when writes split
// them; those that are too short are not, and the log says so.
func TestSecretsAreMasked(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{env: []string{
		protocol.EnvSecretPrefix + "token=s3cr3t-value", protocol.EnvSecretPrefix + "key=-----BEGIN-----\nabc\ndef\n-----END-----\n",
		protocol.EnvSecretPrefix + "short=xy", protocol.EnvSecretPrefix + "others=of another play",
	}})
	a := sh("play", `
		echo "the token is $TOKEN."
		printf 's3cr'; sleep 0.1; printf '3t-value\n'
		echo "$KEY" >&2
		echo of another play
		echo "short: $SHORT"
		echo "leak=<$TOKEN>" >> "$NOHUDDLE_OUTPUT"
		printf 's3cr3t-val'`)
	a.Env = []protocol.EnvVar{
		{Name: "TOKEN", Secret: "token"}, {Name: "KEY", Secret: "key"}, {Name: "SHORT", Secret: "short"},
		{Name: "OPTIONAL", Secret: "missing"},
	}
	result := p.run("one", a)
	want(t, result, 0, "", "")
	if got := result.Outputs["leak"]; got != "<***>" {
		t.Errorf("the output is %q", got)
	}
	for what, text := range map[string]string{"log": p.log("play.1"), "container's log": r.output() + r.errors()} {
		for _, line := range []string{"the token is ***.\n", "\n***\n", "short: xy\n", "s3cr3t-val"} {
			if !strings.Contains(text, line) {
				t.Errorf("%q is missing from the %s: %q", line, what, text)
			}
		}
		for _, secret := range []string{"s3cr3t-value", "BEGIN", "abc", "another play"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in the %s: %q", secret, what, text)
			}
		}
	}
	if !strings.Contains(p.log("play.1"), "the value of SHORT has fewer than 4 bytes and is not masked") {
		t.Errorf("no warning of the short one: %q", p.log("play.1"))
	}
	// Nor are they in anything else that is kept. The state follows the result.
	await(t, "the state of one", func() bool {
		_, err := os.Stat(p.ctl + "/" + protocol.StateFile("one"))
		return err == nil
	})
	for _, file := range []string{protocol.ResultFile("play.1"), protocol.ClaimFile("play.1"), protocol.StateFile("one")} {
		if text := p.read(p.ctl + "/" + file); strings.Contains(text, "s3cr3t-value") {
			t.Errorf("the token is in %s: %s", file, text)
		}
	}
}

// A message of the shim names what the play was to execute, and that may hold a secret.
func TestSecretsInMessages(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{env: []string{protocol.EnvSecretPrefix + "token=s3cr3t-value"}})
	result := p.run("one", protocol.Assignment{Token: "play.1", Argv: []string{"/bin/s3cr3t-value"}})
	want(t, result, 127, "", "/bin/*** is not in the image")
	bad := p.run("one", sh("output", `echo s3cr3t-value >> "$NOHUDDLE_OUTPUT"`))
	want(t, bad, 0, protocol.BadOutput, `"***"`)
	if text := p.log("play.1") + r.errors(); strings.Contains(text, "s3cr3t") {
		t.Errorf("the secret is in %q", text)
	}
}

// CASES.md 7: a play sees its own secrets only, and can't read the others from the shim.
func TestSecretsOfOtherPlays(t *testing.T) {
	p := newPod(t)
	p.start("one", container{user: 12345, env: []string{protocol.EnvSecretPrefix + "token=s3cr3t-value"}})
	want(t, p.run("one", sh("play", "tr '\\0' '\\n' < /proc/1/environ | wc -c; env | grep -c s3cr3t; exit 5")), 5, "", "")
	if log := p.log("play.1"); !strings.Contains(log, "ermission denied") || !strings.HasSuffix(log, "0\n") {
		t.Errorf("the log is %q", log)
	}
}
