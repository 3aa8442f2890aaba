package shim_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// CASES.md 7: of the shim's own variables a play sees those that are meant for it.
func TestEnvironment(t *testing.T) {
	p := newPod(t)
	first := sh("first", "cat /proc/self/environ > first")
	first.Env = []protocol.EnvVar{{Name: "ONE", Value: "1"}, {Name: "BASE", Value: "over"}, {Name: "TWICE", Value: "a"}, {Name: "TWICE", Value: "b"}}
	first = p.next(first)
	p.start("one", container{first: &first, env: []string{
		"BASE=container", "KEPT=$HOME a=b | ;", protocol.EnvSecretPrefix + "token=s3cr3t", protocol.EnvAssignmentFile + "=" + p.ctl + "/assign-one",
	}})
	want(t, p.result("first.1"), 0, "", "")
	second := sh("second", "cat /proc/self/environ > second")
	second.Attempt, second.Token = 2, "second.2"
	want(t, p.run("one", second), 0, "", "")

	common := map[string]string{"PATH": os.Getenv("PATH"), "KEPT": "$HOME a=b | ;", "PWD": p.work, "NOHUDDLE_DRIVE": "drive"}
	with := func(m map[string]string) map[string]string {
		maps.Copy(m, common)
		return m
	}
	for play, wanted := range map[string]map[string]string{
		"first": with(map[string]string{
			"ONE": "1", "BASE": "over", "TWICE": "b",
			"NOHUDDLE_PLAY": "first", "NOHUDDLE_ATTEMPT": "1", "NOHUDDLE_OUTPUT": p.ctl + "/out-first.1",
		}),
		"second": with(map[string]string{
			"BASE": "container", "NOHUDDLE_PLAY": "second", "NOHUDDLE_ATTEMPT": "2", "NOHUDDLE_OUTPUT": p.ctl + "/out-second.2",
		}),
	} {
		got := map[string]string{}
		for kv := range strings.SplitSeq(strings.TrimSuffix(p.read(play), "\x00"), "\x00") {
			k, v, _ := strings.Cut(kv, "=")
			got[k] = v
		}
		delete(got, "OLDPWD") // of the shell that starts the shim
		if !maps.Equal(got, wanted) {
			t.Errorf("%s saw\n%q, want\n%q", play, got, wanted)
		}
	}
}

// CASES.md 15: nothing between the playbook and the shell touches the bytes.
func TestBytesOfCommandsAreKept(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	args := []string{"$$", "$(date)", "$HOME", "a b", "'c'", `"d"`, "%s", "{{x}}", "${{ y }}", `trailing\`, "", "\n", "Ü", "a\tb"}
	a := protocol.Assignment{Token: "args.1", Argv: append([]string{"/usr/bin/printf", "<%s>"}, args...)}
	want(t, p.run("one", a), 0, "", "")
	if got, wanted := p.log("args.1"), "<"+strings.Join(args, "><")+">"; got != wanted {
		t.Errorf("got %q, want %q", got, wanted)
	}
}

// CASES.md 15, 17: a script is kept byte for byte, and runs with the interpreter that it names, or /bin/sh.
func TestScripts(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	tests := []struct{ name, script, want string }{
		{"shebang", "#!/usr/bin/perl\nprint \"$0\\n\" eq '' ? 1 : 'perl', \"\\n\";", "perl\n"},
		{"no shebang", "echo \"$(echo sub)\" $((1+1)) 'single' \"dou ble\" \\$HOME\n", "sub 2 single dou ble $HOME\n"},
		{"no final newline", "echo x", "x\n"},
		{"carriage return", "printf '%s' 'a\r'", "a\r"},
		{"what looks like a template", "echo '%s {{x}} ${{ y }} $$' trailing\\\\\n", "%s {{x}} ${{ y }} $$ trailing\\\n"},
		{"arguments of the shebang", "#!/bin/sh -e\nfalse\necho not reached\n", ""},
		{"a long one", "#!/bin/sh\n# " + strings.Repeat("x", 100_000) + "\necho end\n", "end\n"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			token := protocol.Token(fmt.Sprintf("p%d", i), 1)
			code := 0
			if strings.Contains(tt.script, "false") {
				code = 1
			}
			want(t, p.run("one", protocol.Assignment{Token: token, Script: tt.script}), code, "", "")
			if got := p.log(token); got != tt.want {
				t.Errorf("it printed %q, want %q", got, tt.want)
			}
			if got := p.read(p.ctl + "/" + protocol.ScriptFile(token)); got != tt.script {
				t.Errorf("the script became %.200q", got)
			}
		})
	}
}

// CASES.md 16: what the kernel can't take is refused with both sizes.
func TestTooLarge(t *testing.T) {
	p := newPod(t)
	// Such an assignment comes from a file: an environment couldn't hold it.
	p.start("one", container{})
	long := strings.Repeat("x", 131_071)
	fits := protocol.Assignment{Token: "fits.1", Argv: []string{"/usr/bin/test", "-n", long}}
	want(t, p.run("one", fits), 0, "", "")
	argument := protocol.Assignment{Token: "argument.1", Argv: []string{"/bin/echo", "-n", long + "x"}}
	want(t, p.run("one", argument), 126, protocol.TooLarge, "argument 2 has 131072 bytes, the kernel takes at most 131071")
	variable := protocol.Assignment{Token: "variable.1", Argv: []string{"/bin/true"}, Env: []protocol.EnvVar{{Name: "BIG", Value: long}}}
	want(t, p.run("one", variable), 126, protocol.TooLarge, "the variable BIG has 131075 bytes with its name, the kernel takes at most 131071")
	all := protocol.Assignment{Token: "all.1", Argv: []string{"/bin/true"}}
	for range 60 {
		all.Argv = append(all.Argv, long)
	}
	want(t, p.run("one", all), 126, protocol.TooLarge, "arguments and environment have 78")
}
