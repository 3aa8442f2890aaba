package shim

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// CASES.md 28.
func TestParseOutputs(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name, text string
		want       map[string]string
		err        string
	}{
		{name: "empty", want: map[string]string{}},
		{name: "lines", text: "a=1\n\nB_2=two = 2\n_=\n", want: map[string]string{"a": "1", "B_2": "two = 2", "_": ""}},
		{name: "no final newline", text: "a=1", want: map[string]string{"a": "1"}},
		{name: "bytes are kept", text: "a= $x `y` \\\r\n", want: map[string]string{"a": " $x `y` \\\r"}},
		{name: "the last one counts", text: "a=1\na=2\n", want: map[string]string{"a": "2"}},
		{name: "several lines", text: "a<<EOF\none\n\ntwo=2\nEOF\nb=1\n", want: map[string]string{"a": "one\n\ntwo=2", "b": "1"}},
		{name: "no lines", text: "a<<EOF\nEOF\n", want: map[string]string{"a": ""}},
		{name: "a word in the value", text: "a=b<<c\n", want: map[string]string{"a": "b<<c"}},
		{name: "4095 bytes", text: "a=" + long(4095), want: map[string]string{"a": long(4095)}},
		{name: "4097 bytes", text: "a=" + long(4097), want: map[string]string{"a": long(4097)}},
		{name: "the largest", text: "a=" + long(32<<10), want: map[string]string{"a": long(32 << 10)}},
		{name: "one byte too many", text: "a=" + long(32<<10+1), err: "output a has 32769 bytes, at most 32768 are allowed"},
		{name: "65537 bytes", text: "a=" + long(65537), err: "output a has 65537 bytes, at most 32768"},
		{
			name: "all together", text: "a=" + long(32<<10) + "\nb=" + long(32<<10) + "\n",
			err: "the outputs have 65538 bytes together, at most 65536 are allowed",
		},
		{name: "no sign", text: "a=1\nhello\n", err: `line 2 of $NOHUDDLE_OUTPUT is neither key=value nor key<<WORD: "hello"`},
		{name: "one angle bracket", text: "a<b\n", err: "line 1 of $NOHUDDLE_OUTPUT is neither"},
		{name: "key with a dash", text: "a-b=1\n", err: `the key "a-b" must have letters`},
		{name: "key with a space", text: "a =1\n", err: `the key "a " must have letters`},
		{name: "key begins with a digit", text: "1a=1\n", err: `the key "1a"`},
		{name: "empty key", text: "=1\n", err: `the key ""`},
		{name: "not closed", text: "a<<EOF\none\n", err: `line 1 of $NOHUDDLE_OUTPUT: the value of a has no closing line "EOF"`},
		{name: "no word", text: "a<<\none\n\n", err: "has no closing line"},
		{name: "not UTF-8", text: "ok=1\na=\xff\n", err: "line 2 of $NOHUDDLE_OUTPUT: the value of a is not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseOutputs(tt.text)
			if tt.err == "" && (err != nil || !maps.Equal(got, tt.want)) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got %v, %v; want %v, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

// Whatever a play puts in the place of its outputs, the shim neither waits for it nor reads it endlessly.
func TestReadOutputsOfAnyFile(t *testing.T) {
	path := func(t *testing.T) string { return filepath.Join(t.TempDir(), "out") }
	check := func(t *testing.T, path, want string) {
		t.Helper()
		if _, err := readOutputs(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want one with %q", err, want)
		}
	}
	t.Run("none", func(t *testing.T) {
		if out, err := readOutputs(path(t)); err != nil || len(out) != 0 {
			t.Errorf("got %v, %v", out, err)
		}
	})
	t.Run("fifo", func(t *testing.T) {
		p := path(t)
		if err := syscall.Mkfifo(p, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, p, "is not a regular file")
	})
	t.Run("directory", func(t *testing.T) { check(t, t.TempDir(), "is not a regular file") })
	t.Run("device", func(t *testing.T) {
		p := path(t)
		if err := os.Symlink("/dev/zero", p); err != nil {
			t.Fatal(err)
		}
		check(t, p, "is not a regular file")
	})
	t.Run("huge", func(t *testing.T) {
		p := path(t)
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(p, 1<<40); err != nil {
			t.Fatal(err)
		}
		check(t, p, "has 1099511627776 bytes, an attempt's outputs may have 65536 together")
	})
}

func FuzzParseOutputs(f *testing.F) {
	for _, text := range []string{"", "a=1\n", "a<<EOF\none\nEOF\n", "a<<\n\n", "a=\xff", "a<b", "=", "a<<a\na"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := ParseOutputs(text)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		total := 0
		var again strings.Builder
		for k, v := range out {
			if !validKey(k) || len(v) > protocol.MaxOutput || !utf8.ValidString(v) {
				t.Fatalf("output %q=%q was let through", k, v)
			}
			total += len(k) + len(v)
			again.WriteString(k + "<<" + v + "END\n" + v + "\n" + v + "END\n")
		}
		if total > protocol.MaxOutputs {
			t.Fatalf("%d bytes were let through", total)
		}
		for _, v := range out { // a word of several lines is none
			if strings.Contains(v, "\n") {
				return
			}
		}
		if got, err := ParseOutputs(again.String()); err != nil || !maps.Equal(got, out) {
			t.Fatalf("%v written out again is %v, %v", out, got, err)
		}
	})
}
