package image

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// errIdle is why a request was given up: the other end kept the connection but sent nothing.
var errIdle = errors.New("it neither answers nor ends the connection")

// idleTransport gives a request up when nothing comes for a while: neither the headers of the answer nor the next piece
// of its body. A bound on the whole request would not do: layers can take hours.
type idleTransport struct {
	inner *http.Transport
	idle  time.Duration
}

func newIdleTransport(idle time.Duration) *idleTransport {
	return &idleTransport{idle: idle, inner: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: min(idle, 10*time.Second), KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: min(idle, 10*time.Second),
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     30 * time.Second,
	}}
}

func (t *idleTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(t.idle, func() { cancel(errIdle) })
	resp, err := t.inner.RoundTrip(req.WithContext(ctx))
	if err != nil {
		timer.Stop()
		err = idleCause(ctx, err)
		cancel(nil)
		return nil, err
	}
	resp.Body = &idleBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, timer: timer, idle: t.idle}
	return resp, nil
}

// idleBody stops the clock between reads: a reader that is slow (a disk, a full semaphore) is no fault of the registry.
type idleBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
	once   sync.Once
}

func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.idle)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = idleCause(b.ctx, err)
	}
	return n, err
}

func (b *idleBody) Close() error {
	b.once.Do(func() {
		b.timer.Stop()
		b.cancel(nil)
	})
	return b.ReadCloser.Close()
}

func idleCause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errIdle) {
		return errIdle
	}
	return err
}
