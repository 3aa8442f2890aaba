package shim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// A staged slot begins as soon as its predecessor's result is there: no poll stands between. The bench measures how long
// that takes; this holds that it is no matter of waiting.
func TestHandOver(t *testing.T) {
	p := newPod(t)
	slots := []string{"one", "two"}
	for _, slot := range slots {
		p.start(slot, container{})
	}
	var gaps []time.Duration
	for i := range 40 {
		first := sh(fmt.Sprintf("first%d", i), until(fmt.Sprintf("go%d", i)))
		second := sh(fmt.Sprintf("second%d", i), "exit 0")
		second.Gate = []protocol.Need{{Token: first.Token}}
		p.assign(slots[i%2], first)
		p.state(slots[1-i%2], p.assign(slots[1-i%2], second), protocol.Waiting)
		p.touch(fmt.Sprintf("go%d", i))
		end := p.result(first.Token)
		begin := p.result(second.Token)
		gaps = append(gaps, begin.StartedAt.Sub(end.FinishedAt))
	}
	slices.Sort(gaps)
	p50 := gaps[len(gaps)/2]
	t.Logf("from one play's end to the next one's claim: p50 %s, most %s", p50, gaps[len(gaps)-1])
	if p50 < 0 || p50 > 50*time.Millisecond {
		t.Errorf("half of the plays began %s or more after the end of the play before", p50)
	}
}
