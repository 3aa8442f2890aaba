package playbook

import (
	"errors"
	"strings"
)

// opening and closing enclose an expression in a string.
const (
	opening = "${{"
	closing = "}}"
)

// segment is a piece of a string: literal text, or the source of an expression.
type segment struct {
	text       string
	expression bool
	// at is the offset of the text in the string.
	at int
}

var (
	errUnclosed = errors.New(`${{ is not closed by }}; a literal ${{ is written ${{ "${{" }}`)
	errQuote    = errors.New(`${{ is not closed by }}: a string in it has no closing quote`)
)

// scan cuts a string into its literal pieces and its expressions. On an error, at is the offset of the ${{ at fault.
func scan(s string) (segments []segment, at int, err error) {
	pos := 0
	for {
		i := strings.Index(s[pos:], opening)
		if i < 0 {
			if pos < len(s) {
				segments = append(segments, segment{text: s[pos:], at: pos})
			}
			return segments, 0, nil
		}
		if i > 0 {
			segments = append(segments, segment{text: s[pos : pos+i], at: pos})
		}
		start := pos + i + len(opening)
		end, err := expressionEnd(s, start)
		if err != nil {
			return segments, pos + i, err
		}
		segments = append(segments, segment{text: s[start:end], expression: true, at: start})
		pos = end + len(closing)
	}
}

// expressionEnd finds the }} that ends the expression which begins at pos: one that is in no string, no comment and no
// braces of the expression itself.
func expressionEnd(s string, pos int) (int, error) {
	depth := 0
	for i := pos; i < len(s); {
		switch c := s[i]; {
		case c == '"' || c == '\'' || c == '`':
			next, ok := stringEnd(s, i, pos)
			if !ok {
				return 0, errQuote
			}
			i = next
			continue
		case strings.HasPrefix(s[i:], "//"):
			if nl := strings.IndexByte(s[i:], '\n'); nl >= 0 {
				i += nl
			} else {
				i = len(s)
			}
			continue
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case strings.HasPrefix(s[i:], closing):
			return i, nil
		}
		i++
	}
	return 0, errUnclosed
}

// stringEnd is the offset behind the string literal whose quote is at i, in an expression that begins at begin.
func stringEnd(s string, i, begin int) (int, bool) {
	quote := s[i]
	end, raw := s[i:i+1], quote == '`' || isRaw(s[begin:i])
	if triple := strings.Repeat(end, 3); quote != '`' && strings.HasPrefix(s[i:], triple) {
		end = triple
	}
	for j := i + len(end); j < len(s); {
		switch {
		case strings.HasPrefix(s[j:], end):
			return j + len(end), true
		case s[j] == '\\' && !raw:
			j += 2
			continue
		case s[j] == '\n' && len(end) == 1:
			return 0, false
		}
		j++
	}
	return 0, false
}

// isRaw says whether a quote after this text begins a string in which a backslash is just a backslash.
func isRaw(before string) bool {
	i := len(before)
	for i > 0 && isWord(before[i-1]) {
		i--
	}
	switch strings.ToLower(before[i:]) {
	case "r", "br", "rb":
		return true
	}
	return false
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// template is a string with expressions; one without them has its text as its only piece, or no piece.
type template []piece

// piece is literal text, or an expression where that is set.
type piece struct {
	text string
	expr *expression
	// broken stands for an expression that doesn't compile; a Program has none.
	broken bool
}

func (p piece) literal() bool { return p.expr == nil && !p.broken }

// merged joins neighbouring literal text.
func (t template) merged() template {
	var out template
	for _, p := range t {
		if n := len(out); n > 0 && p.literal() && out[n-1].literal() {
			out[n-1].text += p.text
			continue
		}
		out = append(out, p)
	}
	return out
}

// static is the template's text if it has no expression.
func (t template) static() (string, bool) {
	switch {
	case len(t) == 0:
		return "", true
	case len(t) == 1 && t[0].literal():
		return t[0].text, true
	}
	return "", false
}

// render replaces the expressions by their values.
func (t template) render(a *activation) (string, error) {
	if s, ok := t.static(); ok {
		return s, nil
	}
	var b strings.Builder
	for _, p := range t {
		if p.literal() {
			b.WriteString(p.text)
			continue
		}
		s, err := p.expr.text(a)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// known is the template's text with nothing in place of expressions: the least that it can become.
func (t template) known() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.text)
	}
	return b.String()
}
