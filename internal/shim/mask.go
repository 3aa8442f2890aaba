package shim

import (
	"bytes"
	"slices"
	"strings"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// minSecret is the shortest value that is masked, in bytes: shorter ones occur by chance.
const minSecret = 4

// masker replaces secrets in a stream, also where writes split them. It holds back what may still become a secret.
type masker struct {
	secrets [][]byte // longest first
	first   [256]bool
	in, out []byte
}

// exact is what is looked for of a secret's value. The newline that files and here-documents end with is no part of it: a
// shell drops it, too.
func exact(value string) string { return strings.TrimRight(value, "\r\n") }

// short are the variables of a play whose values are too short to be masked. One that is absent or empty is no secret.
func (s *Shim) short(a protocol.Assignment) []string {
	var out []string
	for _, v := range a.Env {
		if n := len(exact(s.secrets[v.Secret])); v.Secret != "" && n > 0 && n < minSecret {
			out = append(out, v.Name)
		}
	}
	return out
}

func newMasker(values map[string]string) *masker {
	m := &masker{}
	for _, v := range values {
		if v = exact(v); len(v) >= minSecret {
			m.secrets = append(m.secrets, []byte(v))
			m.first[v[0]] = true
		}
	}
	slices.SortFunc(m.secrets, func(a, b []byte) int { return len(b) - len(a) })
	return m
}

// write takes bytes and returns those that can go out, valid until the next call.
func (m *masker) write(p []byte) []byte {
	if len(m.secrets) == 0 {
		return p
	}
	m.in = append(m.in, p...)
	return m.mask(false)
}

// flush returns what is held back; the stream has ended.
func (m *masker) flush() []byte { return m.mask(true) }

// mask moves what is decided from in to out; at the end of the stream everything is.
func (m *masker) mask(end bool) []byte {
	m.out = m.out[:0]
	i := 0
	for i < len(m.in) {
		if !m.first[m.in[i]] {
			m.out = append(m.out, m.in[i])
			i++
			continue
		}
		n, partial := m.match(m.in[i:])
		switch {
		case partial && !end:
			m.in = m.in[:copy(m.in, m.in[i:])]
			return m.out
		case n > 0:
			m.out = append(m.out, "***"...)
			i += n
		default:
			m.out = append(m.out, m.in[i])
			i++
		}
	}
	m.in = m.in[:0]
	return m.out
}

// match says how long the longest secret is that b begins with; partial, that b may be the beginning of a longer one.
func (m *masker) match(b []byte) (n int, partial bool) {
	for _, s := range m.secrets {
		if bytes.HasPrefix(b, s) {
			return len(s), partial
		}
		partial = partial || len(b) < len(s) && bytes.HasPrefix(s, b)
	}
	return 0, partial
}

// text masks a whole text.
func (m *masker) text(s string) string {
	out := bytes.Clone(m.write([]byte(s))) // flush uses its room again
	return string(append(out, m.flush()...))
}
