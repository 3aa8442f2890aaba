package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// attempts bounds how often a registry is asked the same: with the default backoff for about 4 seconds in all.
const attempts = 5

// retry does what asks the registry until it answers, ctx ends, or attempts are used up, and says what the last answer
// was. It is for what passes by itself: overload, a registry that restarts, a broken connection.
func (r *registry) retry(ctx context.Context, ask func() error) error {
	wait := r.backoff
	for n := 1; ; n++ {
		err := ask()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if n == attempts || !passing(err) {
			return r.answer(err)
		}
		// Jitter, because the slots of a pod often start to pull at one moment.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait/2 + rand.N(wait)):
		}
		wait *= 2
	}
}

// passing says whether the same request may succeed in a moment.
func passing(err error) bool {
	var f *fault
	if errors.As(err, &f) {
		return false
	}
	var te *transport.Error
	if errors.As(err, &te) {
		return te.StatusCode >= 500 || te.StatusCode == http.StatusTooManyRequests || te.StatusCode == http.StatusRequestTimeout
	}
	if errors.Is(err, errIdle) {
		return false // One wait of that length is enough.
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsTemporary
	}
	return unreachable(err)
}

// unreachable says whether err is of the network rather than an answer.
func unreachable(err error) bool {
	var ne net.Error
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED, net.ErrClosed, errIdle,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return errors.As(err, &ne)
}

// answer makes a fault of what a registry answered.
func (r *registry) answer(err error) error {
	var f *fault
	if errors.As(err, &f) {
		return err
	}
	host := strings.TrimSuffix(strings.SplitN(r.ref.Name, "/", 2)[0], "/")
	var te *transport.Error
	if errors.As(err, &te) {
		return r.refusal(host, te)
	}
	switch {
	case errors.Is(err, errIdle):
		return faultf(Unreachable, "registry %s sent nothing for %s: %w", host, r.conns.idle, err)
	case unreachable(err):
		return faultf(Unreachable, "registry %s can't be reached: %w", host, err)
	case strings.Contains(err.Error(), "does not match requested digest"), strings.Contains(err.Error(), "error verifying"):
		// The library has no error values for these.
		return faultf(Corrupt, "registry %s sent something else than its digest says: %w", host, err)
	default:
		return faultf(Other, "pull from registry %s: %w", host, err)
	}
}

func (r *registry) refusal(host string, te *transport.Error) error {
	f := &fault{reason: Other, err: &refused{host: host, err: te}}
	switch code := te.StatusCode; {
	case code == http.StatusUnauthorized:
		f.reason = Unauthorized
		f.next = fmt.Sprintf("check the name, as registries answer this for images that don't exist too, and the credentials (docker login %s)", host)
	case code == http.StatusForbidden:
		f.reason = Forbidden
	case code == http.StatusNotFound:
		f.reason = NotFound
	case code == http.StatusTooManyRequests:
		f.reason, f.next = Unreachable, fmt.Sprintf("wait, or log in for a higher limit (docker login %s)", host)
	case code >= 500 || code == http.StatusRequestTimeout:
		f.reason, f.next = Unreachable, "run again later"
	}
	return f
}

// refused is a registry's answer in words. Answers can be whole HTML pages; only the registry API's own errors are told.
type refused struct {
	host string
	err  *transport.Error
}

func (e *refused) Unwrap() error { return e.err }

func (e *refused) Error() string {
	text := fmt.Sprintf("registry %s answered %d %s", e.host, e.err.StatusCode, http.StatusText(e.err.StatusCode))
	if len(e.err.Errors) > 0 {
		d := e.err.Errors[0]
		text += fmt.Sprintf(" (%s: %s)", printable(string(d.Code)), printable(d.Message))
	}
	return text
}

// printable bounds and cleans what a registry says, because it goes to a terminal.
func printable(s string) string {
	const longest = 200
	if len(s) > longest {
		s = s[:longest] + "…"
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
}
