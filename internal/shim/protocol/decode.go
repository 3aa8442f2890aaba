package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
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
