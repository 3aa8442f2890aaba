package shim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

func TestExitCodes(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	for code := range 256 {
		r := p.run("one", sh(fmt.Sprintf("c%d", code), fmt.Sprintf("exit %d", code)))
		want(t, r, code, "", "")
		if got := r.Succeeded(); got != (code == 0) {
			t.Errorf("%d: succeeded is %v", code, got)
		}
	}
}

func TestExitCodesOfSignals(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGILL, syscall.SIGABRT, syscall.SIGFPE, syscall.SIGKILL,
		syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGPIPE, syscall.SIGTERM, 64,
	} {
		r := p.run("one", sh(fmt.Sprintf("s%d", s), fmt.Sprintf("kill -%d $$; sleep 1000", s)))
		want(t, r, 128+int(s), "", "")
	}
}

// CASES.md 17, 14: what can't be executed ends with a shell's codes, says why, and says it in the log too.
func TestNotExecuted(t *testing.T) {
	p := newPod(t)
	file := func(name string, mode os.FileMode, text string) string {
		path := filepath.Join(p.work, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	must(t, os.Mkdir(filepath.Join(p.work, "dir"), 0o755))
	bin := filepath.Join(p.work, "bin")
	must(t, os.Mkdir(bin, 0o755))
	file("bin/plain", 0o644, "#!/bin/sh\n")

	argv := func(args ...string) protocol.Assignment { return protocol.Assignment{Argv: args} }
	in := func(dir string, a protocol.Assignment) protocol.Assignment {
		a.WorkingDir = dir
		return a
	}
	tests := []struct {
		name    string
		a       protocol.Assignment
		code    int
		message string
	}{
		{"missing on PATH", argv("nohuddle-nothing"), 127, "nohuddle-nothing is not in the image: its PATH is "},
		{"missing file", argv("/no/such/file"), 127, "/no/such/file is not in the image"},
		{"below a file", argv("/etc/passwd/x"), 127, "/etc/passwd/x is not in the image"},
		{"missing relative file", argv("./nothing"), 127, filepath.Join(p.work, "nothing") + " is not in the image"},
		{"missing interpreter", argv(file("lost", 0o755, "#!/no/such/sh -e\n")), 127, "lacks what " + filepath.Join(p.work, "lost") + " is to be run by: /no/such/sh -e"},
		{"script with a missing interpreter", protocol.Assignment{Script: "#!/no/such/sh\n"}, 127, "/no/such/sh"},
		{"missing loader", argv(elf(t, file)), 127, "such as its dynamic loader"},
		{"not executable", argv(file("text", 0o644, "#!/bin/sh\n")), 126, "is not executable for the user 0: its mode is -rw-r--r--"},
		{
			"not executable on PATH",
			protocol.Assignment{Argv: []string{"plain"}, Env: []protocol.EnvVar{{Name: "PATH", Value: "/nowhere:" + bin}}},
			126, filepath.Join(bin, "plain") + " is not executable",
		},
		{"directory", argv(filepath.Join(p.work, "dir")), 126, "is a directory, not a program"},
		{"exec format", argv(file("garbage", 0o755, "neither\n")), 126, "is neither a program for this machine nor a script that begins with #!"},
		{"empty file", argv(file("empty", 0o755, "")), 126, "is neither a program for this machine"},
		{"nothing to execute", argv(), 127, "neither the play nor the image names a command"},
		{"working directory is a file", in("/etc/passwd", argv("true")), 126, "the working directory /etc/passwd can't be made: not a directory"},
		{"NUL in an argument", argv("echo", "a\x00b"), 126, "invalid argument"},
	}
	p.start("one", container{})
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.a.Token = protocol.Token(fmt.Sprintf("p%d", i), 1)
			want(t, p.run("one", tt.a), tt.code, "", tt.message)
			if log := p.log(tt.a.Token); !strings.Contains(log, tt.message) || !strings.HasPrefix(log, "nohuddle: ") {
				t.Errorf("the log is %q", log)
			}
		})
	}
}

// elf is a program whose dynamic loader doesn't exist.
func elf(t *testing.T, file func(string, os.FileMode, string) string) string {
	t.Helper()
	b, err := os.ReadFile("/bin/sh")
	must(t, err)
	text := strings.Replace(string(b), "/ld-linux", "/no-linux", 1)
	if text == string(b) {
		t.Fatal("/bin/sh names no loader")
	}
	return file("alien", 0o755, text)
}

// CASES.md 14: an image without a shell can't run a script, and says how else.
func TestNoShellInImage(t *testing.T) {
	p := newPod(t)
	p.start("one", container{before: "mkdir -p " + p.work + "/none && mount --bind " + p.work + "/none $(readlink -f /bin)"})
	r := p.run("one", protocol.Assignment{Token: "play.1", Script: "echo hello"})
	want(t, r, 127, "", "the image has no /bin/sh to run the script: begin it with #! and a program of the image, or use command")
}

func TestWorkingDirectory(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	a := sh("made", "pwd")
	a.WorkingDir = filepath.Join(p.work, "to", "be made")
	want(t, p.run("one", a), 0, "", "")
	want(t, p.run("one", sh("default", "pwd")), 0, "", "")
	if got, wanted := p.log("made.1")+p.log("default.1"), a.WorkingDir+"\n"+p.work+"\n"; got != wanted {
		t.Errorf("the plays ran in %q, want %q", got, wanted)
	}
	// A relative program is one of the working directory, as after cd.
	must(t, os.WriteFile(filepath.Join(a.WorkingDir, "run"), []byte("#!/bin/sh\nexit 9\n"), 0o755))
	relative := protocol.Assignment{Token: "relative.1", Argv: []string{"./run"}, WorkingDir: a.WorkingDir}
	want(t, p.run("one", relative), 9, "", "")
}
