package protocol

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeAssignment(t *testing.T) {
	tests := []struct{ name, text, err string }{
		{"parks", `{"seq":1}`, ""},
		{"complete", `{"seq":1,"token":"a.1","gate":[{"token":"b.2"}],"argv":["x"],"end":70}`, ""},
		{"from a later version", `{"seq":1,"token":"a.1","unknown":true}`, ""},
		{"half", `{"seq":1,"token":"a.1"`, "no JSON of its kind"},
		{"another type", `{"seq":"1"}`, "no JSON of its kind"},
		{"more than one", `{"seq":1}{"seq":2}`, "no JSON of its kind"},
		{"empty", ``, "no JSON of its kind"},
		{"token with a slash", `{"seq":1,"token":"../a"}`, `token "../a" is malformed`},
		{"gate without a token", `{"seq":1,"gate":[{}]}`, `gate's token "" is malformed`},
		{"gate with a slash", `{"seq":1,"gate":[{"token":"a/b"}]}`, `gate's token "a/b" is malformed`},
		{"negative sequence", `{"seq":-1}`, "negative number"},
		{"negative grace", `{"seq":1,"grace":-1}`, "negative number"},
		{"negative timeout", `{"seq":1,"timeout":-1}`, "negative number"},
		{"negative limit", `{"seq":1,"logLimit":-1}`, "negative number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeAssignment([]byte(tt.text))
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got the error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestDecodeResult(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"token":"a.1","exitCode":0}`:   true,
		`{"token":"a.1","exitCode":255}`: true,
		`{"token":"a.1","exitCode":256}`: false,
		`{"token":"a.1","exitCode":-1}`:  false,
		`{"exitCode":0}`:                 false,
		`{"token":"/","exitCode":0}`:     false,
		`{"token":"a.1"`:                 false,
		``:                               false,
	} {
		if _, err := DecodeResult([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestValidToken(t *testing.T) {
	for token, ok := range map[string]bool{
		Token("align", 1): true, Token("call.12", 3): true, strings.Repeat("a", 128): true,
		strings.Repeat("a", 129): false, "": false, ".a": false, "a..b": false, "a/b": false, "A.1": false, "a b": false, "a\x00": false, "ü.1": false,
	} {
		if got := ValidToken(token); got != ok {
			t.Errorf("%q: %v", token, got)
		}
	}
}

// A state is written by hand; it must be what package json reads.
func TestEncodeState(t *testing.T) {
	for _, s := range []State{{}, {Swap: 3, Seq: 12, Token: "a.1", Phase: Waiting}, {Seq: 1 << 60, Phase: Parked}} {
		var got State
		if err := json.Unmarshal(s.Encode(), &got); err != nil || got != s {
			t.Errorf("%s became %+v, %v", s.Encode(), got, err)
		}
	}
}

func TestPeekSeq(t *testing.T) {
	for text, want := range map[string]int64{
		`{"seq":12,"token":"a.1"}`: 12, `{"seq":0}`: 0, `{"seq":9223372036854775807}`: 1<<63 - 1,
		`{"seq":9223372036854775808}`: -1, `{"seq":-1}`: -1, `{"token":"a"}`: -1, ` {"seq":1}`: -1, `{"seq":`: -1, ``: -1,
	} {
		got, ok := PeekSeq([]byte(text))
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
}

func FuzzDecodeAssignment(f *testing.F) {
	code := 70
	whole, err := json.Marshal(Assignment{
		Seq: 7, Token: "a.1", Drive: "d", Play: "a", Attempt: 1, Gate: []Need{{Token: "b.1", Any: true}}, Argv: []string{"sh"},
		Script: "x", Env: []EnvVar{{Name: "A", Value: "b"}, {Name: "S", Secret: "s"}}, WorkingDir: "/w", GraceMillis: 1,
		TimeoutMillis: 2, LogLimit: 3, Stop: true, End: &code,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, text := range []string{"", "{}", "null", `{"seq":1,"token":"a.1"`, `{"seq":1,"gate":[{"token":"/"}]}`, `{"SEQ":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := DecodeAssignment(data)
		if err != nil {
			return
		}
		if a.Seq < 0 || a.Token != "" && !ValidToken(a.Token) {
			t.Fatalf("let through: %+v", a)
		}
		for _, n := range a.Gate {
			if !ValidToken(n.Token) {
				t.Fatalf("let through: %+v", a)
			}
		}
		b, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		// What engines write can be peeked at, and reads back as it was.
		if seq, ok := PeekSeq(b); !ok || seq != a.Seq {
			t.Fatalf("peeked %d, %v at %s", seq, ok, b)
		}
		again, err := DecodeAssignment(b)
		if diff := cmp.Diff(normal(a), normal(again)); err != nil || diff != "" {
			t.Fatalf("%v: %s", err, diff)
		}
	})
}

// normal drops the difference between what is empty and what is absent.
func normal(a Assignment) Assignment {
	if len(a.Gate) == 0 {
		a.Gate = nil
	}
	if len(a.Argv) == 0 {
		a.Argv = nil
	}
	if len(a.Env) == 0 {
		a.Env = nil
	}
	return a
}

func FuzzDecodeResult(f *testing.F) {
	whole, err := json.Marshal(Result{
		Token: "a.1", ExitCode: 137, Reason: OOMKilled, Message: "x", StartedAt: time.Unix(1, 2).UTC(), FinishedAt: time.Unix(3, 4).UTC(),
		Outputs: map[string]string{"a": "b"}, PeakMemory: 5, LogDropped: 6,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, text := range []string{"", "{}", "null", `{"token":"a.1","exitCode":1e2}`, `{"token":"a.1","startedAt":"0001-01-01T00:00:00+23:59"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeResult(data)
		if err != nil {
			return
		}
		if !ValidToken(r.Token) || r.ExitCode < 0 || r.ExitCode > 255 || r.Succeeded() && r.ExitCode != 0 {
			t.Fatalf("let through: %+v", r)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%+v can't be written: %v", r, err)
		}
		again, err := DecodeResult(b)
		if err != nil || again.Token != r.Token || again.ExitCode != r.ExitCode || again.Reason != r.Reason || !again.StartedAt.Equal(r.StartedAt) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}
