package shim

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// readOutputs reads what a play has written to $NOHUDDLE_OUTPUT. No file is no outputs.
func readOutputs(path string) (map[string]string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer would never open
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("$NOHUDDLE_OUTPUT is not a regular file any more: append to it")
	}
	// Syntax adds little to keys and values; far above the bound there is no use in reading.
	if size := info.Size(); size > 4*protocol.MaxOutputs {
		return nil, fmt.Errorf("$NOHUDDLE_OUTPUT has %d bytes, an attempt's outputs may have %d together", size, protocol.MaxOutputs)
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if err != nil && n != len(data) {
		return nil, err
	}
	return ParseOutputs(string(data))
}

// ParseOutputs reads outputs: lines key=value, and key<<WORD, lines, WORD for values of several lines. Empty lines are
// passed over; a later value of a key replaces an earlier one. Errors name the line, and sizes where they matter.
func ParseOutputs(text string) (map[string]string, error) {
	out := map[string]string{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, at := lines[i], i+1
		if line == "" {
			continue
		}
		sep := strings.IndexAny(line, "=<")
		if sep < 0 || line[sep] == '<' && !strings.HasPrefix(line[sep:], "<<") {
			return nil, fmt.Errorf("line %d of $NOHUDDLE_OUTPUT is neither key=value nor key<<WORD: %q", at, shorten(line))
		}
		key, val := line[:sep], line[sep+1:]
		if !validKey(key) {
			return nil, fmt.Errorf("line %d of $NOHUDDLE_OUTPUT: the key %q must have letters, digits and underscores only, a digit not first", at, shorten(key))
		}
		if line[sep] == '<' {
			word := line[sep+2:]
			end := i + 1
			for end < len(lines) && lines[end] != word {
				end++
			}
			if word == "" || end == len(lines) {
				return nil, fmt.Errorf("line %d of $NOHUDDLE_OUTPUT: the value of %s has no closing line %q", at, key, shorten(word))
			}
			val = strings.Join(lines[i+1:end], "\n")
			i = end
		}
		if len(val) > protocol.MaxOutput {
			return nil, fmt.Errorf("output %s has %d bytes, at most %d are allowed: write it to the scratch volume and put out its path", key, len(val), protocol.MaxOutput)
		}
		if !utf8.ValidString(val) {
			return nil, fmt.Errorf("line %d of $NOHUDDLE_OUTPUT: the value of %s is not UTF-8", at, key)
		}
		out[key] = val
	}
	total := 0
	for k, v := range out {
		total += len(k) + len(v)
	}
	if total > protocol.MaxOutputs {
		return nil, fmt.Errorf("the outputs have %d bytes together, at most %d are allowed", total, protocol.MaxOutputs)
	}
	return out, nil
}

func validKey(k string) bool {
	for i, c := range []byte(k) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return k != ""
}

func shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
