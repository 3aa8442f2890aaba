package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Reason is the kind of an Error.
type Reason string

// The reasons.
const (
	// NotFound: there is no such image, tag or file.
	NotFound Reason = "NotFound"
	// Unauthorized: the registry wants credentials, other credentials, or they can't be read.
	Unauthorized Reason = "Unauthorized"
	// Forbidden: the registry knows who asks and refuses.
	Forbidden Reason = "Forbidden"
	// Platform: the image exists, but not for this platform.
	Platform Reason = "Platform"
	// Corrupt: what came is not what its digest says, or can't be unpacked.
	Corrupt Reason = "Corrupt"
	// Unreachable: the registry can't be reached, or answers that it can't serve now.
	Unreachable Reason = "Unreachable"
	// Malformed: the reference is no reference, or what it names is no container image.
	Malformed Reason = "Malformed"
	// NoSpace: the store's file system is full.
	NoSpace Reason = "NoSpace"
	// Other: anything else, such as a store that can't be written.
	Other Reason = "Other"
)

// Error is why an image can't be had. Its text is one sentence: the image, what happened, and what can be done.
type Error struct {
	// Ref is the reference as it was asked for.
	Ref    string
	Reason Reason
	// Err says what happened; a registry's answer is in it as a *transport.Error.
	Err error
	// next is what the user can do; "" for the reason's own.
	next string
}

func (e *Error) Error() string {
	if e.Reason == Malformed && e.Ref == "" {
		return e.Err.Error()
	}
	next := e.next
	if next == "" {
		next = nextStep[e.Reason]
	}
	text := fmt.Sprintf("image %s: %v", e.Ref, e.Err)
	if next != "" {
		text += ": " + next
	}
	return strings.Join(strings.Fields(text), " ")
}

// Unwrap returns what happened.
func (e *Error) Unwrap() error { return e.Err }

// Permanent says that asking again will not help unless someone changes something.
func (e *Error) Permanent() bool {
	switch e.Reason {
	case NotFound, Unauthorized, Forbidden, Platform, Malformed, Corrupt:
		return true
	default:
		return false
	}
}

var nextStep = map[Reason]string{
	NotFound:    "check the name and the tag",
	Forbidden:   "ask the registry's owner for the right to pull it",
	Corrupt:     "build or push the image again",
	Unreachable: "check the network and the registry, then run again",
	NoSpace:     "free some space or run `nohuddle prune`, then run again",
}

// fault is an error whose reason is known where it arises.
type fault struct {
	reason Reason
	err    error
	next   string
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultf(reason Reason, format string, args ...any) error {
	return &fault{reason: reason, err: fmt.Errorf(format, args...)}
}

// explain makes an *Error of what went wrong with ref, or returns the context's own error.
func (s *Store) explain(ctx context.Context, ref string, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("image %s: %w", ref, context.Cause(ctx))
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &Error{Ref: ref, Reason: NoSpace, Err: fmt.Errorf("the file system of %s is full: %w", s.dir, bare(err))}
	}
	var f *fault
	if errors.As(err, &f) {
		return &Error{Ref: ref, Reason: f.reason, Err: err, next: f.next}
	}
	return &Error{Ref: ref, Reason: Other, Err: err}
}

// bare is the system's error without the path of a temporary file, which helps nobody.
func bare(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
