package shim

import (
	"os"
	"strconv"
	"sync"
)

// logFile is an attempt's own log, bounded. A nil one takes and drops everything.
type logFile struct {
	mu      sync.Mutex
	file    *os.File
	limit   int64 // 0 is no bound
	size    int64
	dropped int64
}

func openLog(path string, limit int64) *logFile {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		warn("the output will be missing from the play's log: " + err.Error())
		return &logFile{}
	}
	return &logFile{file: f, limit: limit}
}

func (l *logFile) write(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := int64(len(p))
	if l.limit > 0 {
		room = min(room, l.limit-l.size)
	}
	if l.file == nil || room <= 0 {
		l.dropped += int64(len(p))
		return
	}
	n, _ := l.file.Write(p[:room]) // a full disk loses output, never the play
	l.size += int64(n)
	l.dropped += int64(len(p) - n)
}

// close ends the log with a line that says what is missing, and returns how many bytes that are.
func (l *logFile) close() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return l.dropped
	}
	if l.dropped > 0 {
		_, _ = l.file.WriteString("\n[nohuddle: output truncated: " + strconv.FormatInt(l.dropped, 10) + " bytes dropped]\n")
	}
	_ = l.file.Close()
	return l.dropped
}

// stream copies one of a play's outputs to the shim's own and to the log, secrets masked. Close is seen as the end.
func stream(from, to *os.File, log *logFile, m *masker, done *sync.WaitGroup) {
	defer done.Done()
	defer from.Close()
	put := func(p []byte) {
		if len(p) > 0 {
			log.write(p)
			_, _ = to.Write(p) // the container's log may be gone; the play must not mind
		}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		put(m.write(buf[:n]))
		if err != nil {
			put(m.flush())
			return
		}
	}
}
