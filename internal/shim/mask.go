package shim

import (
	"bytes"
	"slices"
	"sort"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// minSecret is the shortest value that is masked, in bytes: shorter ones occur by chance.
const minSecret = 4

// masker replaces secrets in a stream, also where writes split them. It holds back what may still become a secret.
type masker struct {
	secrets [][]byte // longest first
	held    []byte
}

// short are the variables of a play whose values are too short to be masked.
func (s *Shim) short(a protocol.Assignment) []string {
	var out []string
	for _, v := range a.Env {
		if v.Secret != "" && len(s.secrets[v.Secret]) < minSecret {
			out = append(out, v.Name)
		}
	}
	return out
}

func newMasker(values map[string]string) *masker {
	m := &masker{}
	for _, v := range values {
		if len(v) >= minSecret {
			m.secrets = append(m.secrets, []byte(v))
		}
	}
	sort.Slice(m.secrets, func(i, j int) bool { return len(m.secrets[i]) > len(m.secrets[j]) })
	return m
}

// write takes bytes and returns those that can go out, valid until the next call.
func (m *masker) write(p []byte) []byte {
	if len(m.secrets) == 0 {
		return p
	}
	all := slices.Concat(m.held, p)
	var out []byte
	i := 0
	for i < len(all) {
		n, partial := m.match(all[i:])
		if partial {
			break
		}
		if n > 0 {
			out = append(out, "***"...)
			i += n
			continue
		}
		out = append(out, all[i])
		i++
	}
	m.held = append([]byte(nil), all[i:]...)
	return out
}

// match says how long the secret is that b begins with, or that b may be the beginning of one.
func (m *masker) match(b []byte) (n int, partial bool) {
	for _, s := range m.secrets {
		if bytes.HasPrefix(b, s) {
			return len(s), false
		}
		if len(b) < len(s) && bytes.HasPrefix(s, b) {
			return 0, true
		}
	}
	return 0, false
}

// flush returns what is held back; the stream has ended.
func (m *masker) flush() []byte {
	out := m.held
	m.held = nil
	return out
}

// text masks a whole text.
func (m *masker) text(s string) string {
	return string(m.write([]byte(s))) + string(m.flush())
}
