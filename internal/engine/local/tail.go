package local

import (
	"bytes"
	"strings"
	"sync"
)

// tail keeps the end of a stream.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 2 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailSize; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

// last is the last line that is not empty.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := bytes.TrimSpace(t.buf)
	return strings.ToValidUTF8(string(b[bytes.LastIndexByte(b, '\n')+1:]), "�")
}
