package shim

import (
	"bytes"
	"strings"
	"testing"
)

// CASES.md 29.
func TestMasker(t *testing.T) {
	tests := []struct {
		name    string
		secrets []string
		text    string
		want    string
	}{
		{"none", nil, "all of it", "all of it"},
		{"exact", []string{"s3cret"}, "a s3cret, s3cret.", "a ***, ***."},
		{"multi-line", []string{"one\ntwo\n"}, "<one\ntwo\n> one two", "<***\n> one two"},
		{"too short", []string{"abc"}, "abc", "abc"},
		{"too short but for its newline", []string{"abc\n"}, "abc\n", "abc\n"},
		{"overlap", []string{"abcd", "cdef"}, "abcdef", "***ef"},
		{"the longer of two", []string{"abcd", "abcdefgh"}, "abcdefgh abcdefgx", "*** ***efgx"},
		{"the shorter at the end", []string{"abcd", "abcdefgh"}, "x abcdef", "x ***ef"},
		{"a false start", []string{"aaab"}, "aaaaab", "aa***"},
		{"an end that could have been one", []string{"s3cret"}, "a s3cre", "a s3cre"},
		{"invalid UTF-8", []string{"\xff\xfe\xfd\xfc"}, "\xff\xff\xfe\xfd\xfc\xff", "\xff***\xff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values := map[string]string{}
			for i, s := range tt.secrets {
				values[string(rune('a'+i))] = s
			}
			if got := newMasker(values).text(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			// Split anywhere, also into single bytes.
			for size := 1; size < len(tt.text); size++ {
				if got := streamed(values, []byte(tt.text), size); got != tt.want {
					t.Errorf("in pieces of %d: got %q, want %q", size, got, tt.want)
				}
			}
		})
	}
}

func streamed(values map[string]string, text []byte, size int) string {
	m := newMasker(values)
	var out []byte
	for len(text) > 0 {
		n := min(size, len(text))
		out = append(out, m.write(text[:n])...)
		text = text[n:]
	}
	return string(append(out, m.flush()...))
}

// However a stream is split, it is masked as a whole, and no secret is left in it.
func FuzzMasker(f *testing.F) {
	f.Add("s3cret", "s3cr", "a s3cret, s3cr", uint(3))
	f.Add("abcd", "abcdefgh", "abcdef abcdefgh abcd", uint(1))
	f.Add("aaab", "aaaa", "aaaaaaaaab", uint(2))
	f.Add("one\ntwo\n", "\xff\xff\xff\xff", "one\ntwo\n\xff\xff", uint(5))
	f.Fuzz(func(t *testing.T, a, b, text string, size uint) {
		values := map[string]string{"a": a, "b": b}
		whole := newMasker(values).text(text)
		if got := streamed(values, []byte(text), int(size%64)+1); got != whole {
			t.Fatalf("in pieces %q, as a whole %q", got, whole)
		}
		if want := naive(values, text); whole != want {
			t.Fatalf("masked %q, want %q", whole, want)
		}
	})
}

// naive masks by the definition: at each place the longest secret that begins there.
func naive(values map[string]string, text string) string {
	var out bytes.Buffer
	for len(text) > 0 {
		longest := 0
		for _, v := range values {
			if v = exact(v); len(v) >= minSecret && strings.HasPrefix(text, v) {
				longest = max(longest, len(v))
			}
		}
		if longest > 0 {
			out.WriteString("***")
			text = text[longest:]
			continue
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	return out.String()
}
