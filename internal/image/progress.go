package image

import (
	"io"
	"sync"
	"time"
)

// progress tells Options.Progress how far an image is, at most every progressEvery.
type progress struct {
	tell func(what string, done, total int64)

	mu                       sync.Mutex
	toPull, toUnpack         int64
	pulledBytes, unpackBytes int64
	told                     time.Time
}

const progressEvery = 100 * time.Millisecond

func (s *Store) newProgress(ref string) *progress {
	p := &progress{tell: func(string, int64, int64) {}}
	if f := s.opts.Progress; f != nil {
		p.tell = func(what string, done, total int64) { f(ref, what, done, total) }
	}
	return p
}

func (p *progress) expect(b blob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toUnpack += b.size
	if b.retry != nil {
		p.toPull += b.size
	}
}

// skip counts a layer that someone else has made meanwhile.
func (p *progress) skip(b blob) {
	if b.retry != nil {
		p.pulled(b.size)
	}
	p.unpacked(b.size)
}

func (p *progress) pulled(n int64)   { p.add(n, 0) }
func (p *progress) unpacked(n int64) { p.add(0, n) }

func (p *progress) add(pulled, unpacked int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulledBytes += pulled
	p.unpackBytes += unpacked
	end := p.unpackBytes >= p.toUnpack
	if now := time.Now(); end || now.Sub(p.told) >= progressEvery {
		p.told = now
		if p.pulledBytes < p.toPull {
			p.tell("pulling", p.pulledBytes, p.toPull)
		} else {
			p.tell("unpacking", min(p.unpackBytes, p.toUnpack), p.toUnpack)
		}
	}
}

func (p *progress) pulling(r io.Reader) io.Reader   { return &counted{r, p.pulled} }
func (p *progress) unpacking(r io.Reader) io.Reader { return &counted{r, p.unpacked} }

type counted struct {
	r     io.Reader
	count func(int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if n > 0 {
		c.count(int64(n))
	}
	return n, err
}
