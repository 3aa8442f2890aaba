package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DecodeAssignment reads an assignment. Its errors say what is wrong, in a clause.
func DecodeAssignment(data []byte) (Assignment, error) {
	var a Assignment
	if err := json.Unmarshal(data, &a); err != nil {
		return Assignment{}, fmt.Errorf("the assignment is no JSON of its kind: %w", err)
	}
	if a.Token != "" && !ValidToken(a.Token) {
		return Assignment{}, fmt.Errorf("the assignment's token %q is malformed", a.Token)
	}
	for _, n := range a.Gate {
		if !ValidToken(n.Token) {
			return Assignment{}, fmt.Errorf("the gate's token %q is malformed", n.Token)
		}
	}
	if a.Seq < 0 || a.GraceMillis < 0 || a.TimeoutMillis < 0 || a.LogLimit < 0 {
		return Assignment{}, errors.New("the assignment has a negative number")
	}
	return a, nil
}

// PeekSeq reads the Seq of an assignment without decoding the rest, if it stands where json.Marshal puts it.
func PeekSeq(data []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"seq":`))
	if !ok {
		return 0, false
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	seq, err := strconv.ParseInt(string(rest[:digits]), 10, 64)
	return seq, err == nil
}

// Encode is the state's JSON. It is written by hand because package json takes more memory than all else in a parked shim.
func (s State) Encode() []byte {
	b := append([]byte(`{"swap":`), strconv.FormatInt(s.Swap, 10)...)
	b = append(append(b, `,"seq":`...), strconv.FormatInt(s.Seq, 10)...)
	if s.Token != "" {
		b = append(append(append(b, `,"token":"`...), s.Token...), '"') // ValidToken leaves nothing to escape
	}
	return append(append(append(b, `,"phase":"`...), s.Phase...), `"}`...)
}

// DecodeResult reads a result.
func DecodeResult(data []byte) (Result, error) {
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return Result{}, fmt.Errorf("the result is no JSON of its kind: %w", err)
	}
	if !ValidToken(r.Token) || r.ExitCode < 0 || r.ExitCode > 255 {
		return Result{}, errors.New("the result names no attempt, or an impossible exit code")
	}
	return r, nil
}

// ValidToken says whether a token is fit for a file name: tokens come from files that plays can write to.
func ValidToken(t string) bool {
	if t == "" || len(t) > 128 || t[0] == '.' || strings.Contains(t, "..") {
		return false
	}
	for _, c := range []byte(t) {
		if c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
