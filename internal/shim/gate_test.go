package shim_test

import (
	"testing"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

func TestGate(t *testing.T) {
	needs := func(whatever bool, tokens ...string) (out []protocol.Need) {
		for _, token := range tokens {
			out = append(out, protocol.Need{Token: token, Any: whatever})
		}
		return out
	}
	type end struct {
		token  string
		code   int
		reason protocol.Reason
	}
	tests := []struct {
		name   string
		gate   []protocol.Need
		before []end // the results that are there when the shim starts
		after  []end // those that appear one by one while it waits
		open   bool
	}{
		{name: "no needs", open: true},
		{name: "success before", gate: needs(false, "a.1"), before: []end{{token: "a.1"}}, open: true},
		{name: "success while waiting", gate: needs(false, "a.1"), after: []end{{token: "a.1"}}, open: true},
		{name: "both of two", gate: needs(false, "a.1", "b.1"), after: []end{{token: "b.1"}, {token: "a.1"}}, open: true},
		{name: "failure shuts", gate: needs(false, "a.1"), after: []end{{token: "a.1", code: 2}}},
		{name: "failure before shuts", gate: needs(false, "a.1"), before: []end{{token: "a.1", code: 2}}},
		{name: "a reason is a failure", gate: needs(false, "a.1"), after: []end{{token: "a.1", reason: protocol.Timeout}}},
		{name: "the first failure shuts", gate: needs(false, "a.1", "b.1"), after: []end{{token: "b.1", code: 1}}},
		{name: "any end opens", gate: needs(true, "a.1"), after: []end{{token: "a.1", code: 2}}, open: true},
		{name: "any reason opens", gate: needs(true, "a.1"), after: []end{{token: "a.1", code: 137, reason: protocol.OOMKilled}}, open: true},
		{
			name: "any end of one, success of the other", gate: append(needs(true, "a.1"), needs(false, "b.1")...),
			before: []end{{token: "a.1", code: 1}}, after: []end{{token: "b.1"}}, open: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPod(t)
			for _, e := range tt.before {
				p.ended(e.token, e.code, e.reason)
			}
			a := p.next(sh("play", "exit 0"))
			a.Gate = tt.gate
			p.start("one", container{first: &a})
			for _, e := range tt.after {
				s := p.state("one", a.Seq, protocol.Waiting)
				if s.Token != a.Token || s.Swap != 7 {
					t.Errorf("the state is %+v", s)
				}
				if p.claimed(a.Token) {
					t.Fatal("claimed before the gate was open")
				}
				p.ended(e.token, e.code, e.reason)
			}
			if tt.open {
				want(t, p.result(a.Token), 0, "", "")
				p.state("one", a.Seq, protocol.Parked)
				return
			}
			p.state("one", a.Seq, protocol.Closed)
			if p.claimed(a.Token) {
				t.Error("claimed although the gate is shut")
			}
		})
	}
}

// What can't be read as a result is an end all the same, and no success.
func TestGateAndMalformedResult(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	a := sh("play", "exit 0")
	a.Gate = []protocol.Need{{Token: "a.1"}}
	seq := p.assign("one", a)
	p.state("one", seq, protocol.Waiting)
	p.put(protocol.ResultFile("a.1"), []byte(`{"token":`))
	p.state("one", seq, protocol.Closed)
	a.Gate[0].Any = true
	want(t, p.run("one", a), 0, "", "")
}

// A new assignment replaces one that has not begun, whatever the slot was about: that is how staging is revoked.
func TestAssignmentReplaces(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	p.state("one", 0, protocol.Parked)

	first := sh("first", "exit 0")
	first.Gate = []protocol.Need{{Token: "never.1"}}
	p.state("one", p.assign("one", first), protocol.Waiting)

	p.ended("failed.1", 1, "")
	second := sh("second", "exit 0")
	second.Gate = []protocol.Need{{Token: "failed.1"}}
	p.state("one", p.assign("one", second), protocol.Closed)

	want(t, p.run("one", sh("third", "exit 3")), 3, "", "")
	want(t, p.run("one", sh("fourth", "exit 4")), 4, "", "")
	p.state("one", p.assign("one", protocol.Assignment{}), protocol.Parked)

	// The gate of the one that was revoked opens now, and must not matter.
	p.ended("never.1", 0, "")
	want(t, p.run("one", sh("fifth", "exit 5")), 5, "", "")
	for _, token := range []string{first.Token, second.Token} {
		if p.claimed(token) || p.has(protocol.ResultFile(token)) {
			t.Errorf("%s was claimed", token)
		}
	}
}

func TestOlderAssignmentIsIgnored(t *testing.T) {
	p := newPod(t)
	older := p.next(sh("older", "exit 0"))
	p.seq = 100
	newer := p.next(sh("newer", "exit 0"))
	p.start("one", container{first: &newer})
	p.result(newer.Token)
	p.put(protocol.AssignFile("one"), encode(t, older))
	want(t, p.run("one", sh("newest", "exit 0")), 0, "", "")
	if p.claimed(older.Token) {
		t.Error("the older assignment was taken up")
	}
}

// The file may be newer than the environment that the container was created with.
func TestFileGoesBeforeEnvironment(t *testing.T) {
	p := newPod(t)
	inEnv := p.next(sh("environment", "exit 0"))
	p.assign("one", sh("file", "exit 0"))
	p.start("one", container{first: &inEnv})
	want(t, p.result("file.1"), 0, "", "")
	p.state("one", p.seq, protocol.Parked)
	if p.claimed(inEnv.Token) {
		t.Error("the assignment of the environment was taken up")
	}
}

// An attempt that is stopped before its claim is never claimed, and has no result.
func TestStopBeforeClaim(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	a := sh("play", "exit 0")
	a.Gate = []protocol.Need{{Token: "before.1"}}
	p.state("one", p.assign("one", a), protocol.Waiting)
	a.Stop = true
	p.state("one", p.assign("one", a), protocol.Parked)
	p.ended("before.1", 0, "")
	want(t, p.run("one", sh("next", "exit 0")), 0, "", "")
	if p.claimed(a.Token) || p.has(protocol.ResultFile(a.Token)) {
		t.Error("it was claimed")
	}
}

// A shim that starts with nothing to do says so.
func TestNothingAssigned(t *testing.T) {
	p := newPod(t)
	p.start("one", container{})
	if s := p.state("one", 0, protocol.Parked); s.Token != "" || s.Swap != 7 {
		t.Errorf("the state is %+v", s)
	}
}
