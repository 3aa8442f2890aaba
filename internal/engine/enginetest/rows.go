package enginetest

import (
	"strings"
	"testing"
	"time"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// order: what runs when, and what passes from play to play.
var order = []row{
	{
		name: "a chain runs in order and shares the scratch",
		playbook: `
plays:
- {name: a, image: SHELL, script: 'echo -n a >> /scratch/f'}
- {name: b, image: OTHER, script: 'echo -n b >> /scratch/f'}
- {name: c, image: SHELL, script: 'echo -n c >> /scratch/f'}
- {name: d, image: OTHER, script: 'echo -n d >> /scratch/f'}
- {name: e, image: SHELL, script: 'cat /scratch/f'}
`,
		logs: map[string]string{"a.1": "", "e.1": "abcd"},
	},
	{
		name: "plays side by side really run at once",
		playbook: `
plays:
- {name: a, image: SHELL, needs: [], script: 'touch /scratch/a; until [ -e /scratch/b ]; do sleep 0.01; done'}
- {name: b, image: OTHER, needs: [], script: 'touch /scratch/b; until [ -e /scratch/a ]; do sleep 0.01; done'}
`,
	},
	{
		name: "fan-out and fan-in over three slots",
		playbook: `
slots: [{name: slot, count: 3}]
plays:
- {name: a, image: SHELL, script: 'echo 1 > /scratch/n'}
- {name: b, image: SHELL, needs: [a], script: 'cp /scratch/n /scratch/b'}
- {name: c, image: SHELL, needs: [a], script: 'cp /scratch/n /scratch/c'}
- {name: d, image: SHELL, needs: [a], script: 'cp /scratch/n /scratch/d'}
- {name: e, image: SHELL, needs: [b, c, d], script: 'cat /scratch/b /scratch/c /scratch/d'}
`,
		logs: map[string]string{"e.1": "1\n1\n1\n"},
	},
	{
		name: "outputs, when and forEach",
		playbook: `
plays:
- name: list
  image: SHELL
  script: |
    echo names=u:1,v w,😀 >> "$NOHUDDLE_OUTPUT"
    echo n=3 >> "$NOHUDDLE_OUTPUT"
- {name: each, image: OTHER, forEach: 'plays.list.outputs.names.split(",")', command: [printf, '%s|%s', '${{ item }}', '${{ plays.list.outputs.n }}']}
- {name: not, image: SHELL, when: 'int(plays.list.outputs.n) > 3', command: ["false"]}
- {name: after, image: SHELL, when: 'plays.not.phase == "Skipped"', command: [echo, '${{ plays.each.phase }}']}
`,
		plays: map[string]v1alpha1.PlayPhase{"not": v1alpha1.PlaySkipped},
		logs:  map[string]string{"each.0.1": "u:1|3", "each.1.1": "v w|3", "each.2.1": "😀|3", "after.1": "Succeeded\n"},
	},
	{
		name: "an empty forEach is a success",
		playbook: `
plays:
- {name: none, image: SHELL, forEach: [], command: ["false"]}
- {name: after, image: SHELL, command: [echo, done]}
`,
		logs: map[string]string{"after.1": "done\n"},
	},
}

// commands: what is executed, and with what around it.
var commands = []row{
	{
		name:     "no command runs the image's own", // CASES.md 12
		playbook: `plays: [{name: a, image: SHELL}]`,
		logs:     map[string]string{"a.1": "the command of the image\n"},
	},
	{
		name: "text passes through byte for byte", // CASES.md 15
		playbook: `
plays:
- name: a
  image: SHELL
  command: [printf, '%s\n', '$$ $(date) $HOME "a b"', "'c'", '%d', '{{x}}', 'back\', '${{ "${{" }}']
- name: b
  image: SHELL
  script: |
    #!/bin/sh
    # $(date) ${{ 1 + 1 }} %s
    echo '$$ $(date) %' "$((1+1))"
`,
		logs: map[string]string{"a.1": "$$ $(date) $HOME \"a b\"\n'c'\n%d\n{{x}}\nback\\\n${{\n", "b.1": "$$ $(date) % 2\n"},
	},
	{
		name: "env and workingDir belong to one play", // CASES.md 7
		playbook: `
slots: [{name: slot, count: 1}]
plays:
- {name: a, image: SHELL, env: [{name: X, value: 'a|b;c'}], workingDir: /scratch/new/dir, script: 'echo "$X $(pwd)"'}
- {name: b, image: SHELL, script: 'echo "[$X] $(pwd)"; env | grep -c ^NOHUDDLE_ASSIGNMENT'}
`,
		phase: v1alpha1.DriveFailed, // grep -c finds none
		plays: map[string]v1alpha1.PlayPhase{"b": v1alpha1.PlayFailed},
		logs:  map[string]string{"a.1": "a|b;c /scratch/new/dir\n", "b.1": "[] /\n0\n"},
	},
	{
		name: "the result of a forEach item is its own",
		playbook: `
plays:
- {name: a, image: SHELL, forEach: ["0", "3"], onError: Continue, script: 'exit ${{ item }}'}
`,
		plays: map[string]v1alpha1.PlayPhase{"a": v1alpha1.PlayFailed, "a.1": v1alpha1.PlayFailed},
		check: func(t *testing.T, o Outcome) { exitCode(t, o, "a.1", 3); exitCode(t, o, "a.0", 0) },
	},
}

// ends: how a process can end.
var ends = []row{
	{
		name: "exit codes are a shell's", // CASES.md 17
		playbook: `
plays:
- {name: seven, image: SHELL, onError: Continue, script: 'exit 7'}
- {name: missing, image: SHELL, onError: Continue, command: [/no/such/file]}
- {name: plain, image: SHELL, onError: Continue, script: 'echo x > /scratch/plain; exec /scratch/plain'}
- {name: dir, image: SHELL, onError: Continue, command: [/bin]}
- {name: killed, image: SHELL, onError: Continue, script: 'kill -9 $$'}
- {name: high, image: SHELL, onError: Continue, script: 'exit 255'}
`,
		plays: map[string]v1alpha1.PlayPhase{"seven": v1alpha1.PlayFailed, "missing": v1alpha1.PlayFailed, "plain": v1alpha1.PlayFailed,
			"dir": v1alpha1.PlayFailed, "killed": v1alpha1.PlayFailed, "high": v1alpha1.PlayFailed},
		check: func(t *testing.T, o Outcome) {
			for play, code := range map[string]int32{"seven": 7, "missing": 127, "plain": 126, "dir": 126, "killed": 137, "high": 255} {
				exitCode(t, o, play, code)
			}
		},
	},
	{
		name: "what a play leaves running is killed", // CASES.md 21
		playbook: `
plays:
- {name: a, image: SHELL, script: '(sleep 1; echo late >> /scratch/f) & echo done'}
- {name: b, image: OTHER, script: 'sleep 1.5; cat /scratch/f; true'}
`,
		logs: map[string]string{"a.1": "done\n", "b.1": "cat: can't open '/scratch/f': No such file or directory\n"},
	},
	{
		name: "timeout stops with grace", // CASES.md 23
		playbook: `
plays:
- {name: a, image: SHELL, timeout: 200ms, onError: Continue, script: 'trap "echo checkpoint; exit 3" TERM; while :; do :; done'}
- {name: b, image: SHELL, timeout: 200ms, gracePeriodSeconds: 1, onError: Continue, script: 'trap "" TERM; while :; do sleep 0.01; done'}
`,
		plays: map[string]v1alpha1.PlayPhase{"a": v1alpha1.PlayFailed, "b": v1alpha1.PlayFailed},
		logs:  map[string]string{"a.1": "checkpoint\n"},
		check: func(t *testing.T, o Outcome) {
			for play, code := range map[string]int32{"a": 3, "b": 137} {
				exitCode(t, o, play, code)
				if r := o.Play(t, play).Reason; r != v1alpha1.ReasonTimeout {
					t.Errorf("play %s ended by %s, want %s", play, r, v1alpha1.ReasonTimeout)
				}
			}
		},
	},
	{
		name: "outputs that are too large are refused", // CASES.md 28
		playbook: `
plays:
- {name: fits, image: SHELL, script: 'printf "k=%04095d\n" 1 >> "$NOHUDDLE_OUTPUT"; printf "l=%04097d\n" 1 >> "$NOHUDDLE_OUTPUT"'}
- {name: big, image: SHELL, onError: Continue, script: 'printf "k=%065537d\n" 1 >> "$NOHUDDLE_OUTPUT"'}
`,
		plays: map[string]v1alpha1.PlayPhase{"big": v1alpha1.PlayFailed},
		check: func(t *testing.T, o Outcome) {
			if n := len(o.Play(t, "fits").Outputs["l"]); n != 4097 {
				t.Errorf("the output has %d bytes, want 4097", n)
			}
			p := o.Play(t, "big")
			if p.Reason != v1alpha1.ReasonOutput || !strings.Contains(p.Message, "65537") {
				t.Errorf("big failed by %s: %s", p.Reason, p.Message)
			}
		},
	},
	{
		name: "a line without an end and bytes that are no UTF-8 are kept", // CASES.md 27
		playbook: `
plays:
- {name: a, image: SHELL, command: [printf, 'x\377\r\ny']}
`,
		logs: map[string]string{"a.1": "x\xff\r\ny"},
	},
}

// failures: what follows when a play fails.
var failures = []row{
	{
		name: "retries run in fresh containers and keep their logs apart", // CASES.md 26
		playbook: `
plays:
- {name: a, image: SHELL, retries: {limit: 2}, script: 'echo "$NOHUDDLE_ATTEMPT $(ls /tmp/mark 2>/dev/null)"; touch /tmp/mark; [ "$NOHUDDLE_ATTEMPT" = 3 ]'}
- {name: b, image: OTHER, command: [echo, after]}
`,
		logs: map[string]string{"a.1": "1 \n", "a.2": "2 \n", "a.3": "3 \n", "b.1": "after\n"},
		check: func(t *testing.T, o Outcome) {
			if n := o.Play(t, "a").Attempt; n != 3 {
				t.Errorf("a took %d attempts, want 3", n)
			}
		},
	},
	{
		name: "onError Continue goes on, and codes can be read", // CASES.md 24
		playbook: `
plays:
- {name: a, image: SHELL, onError: Continue, script: 'exit 1'}
- {name: b, image: SHELL, onError: Continue, script: 'exit 2'}
- {name: c, image: SHELL, command: [echo, '${{ plays.a.exitCode }} ${{ plays.b.exitCode }}'], needs: [a, b]}
`,
		plays: map[string]v1alpha1.PlayPhase{"a": v1alpha1.PlayFailed, "b": v1alpha1.PlayFailed},
		logs:  map[string]string{"c.1": "1 2\n"},
	},
	{
		name: "a failure skips what follows and runs finally", // CASES.md 25
		playbook: `
plays:
- {name: a, image: SHELL, script: 'exit 4'}
- {name: b, image: SHELL, command: [echo, never]}
finally:
- {name: f, image: SHELL, command: [echo, '${{ drive.phase }} ${{ plays.a.exitCode }}']}
`,
		phase: v1alpha1.DriveFailed,
		plays: map[string]v1alpha1.PlayPhase{"a": v1alpha1.PlayFailed, "b": v1alpha1.PlaySkipped},
		logs:  map[string]string{"f.1": "Failed 4\n"},
	},
	{
		name: "a missing image harms neither the running play nor the slot", // CASES.md 9
		playbook: `
plays:
- {name: a, image: OTHER, script: 'sleep 0.5; echo unharmed'}
- {name: b, image: MISSING, command: ["true"]}
finally:
- {name: f, image: OTHER, command: [echo, used again]}
- {name: g, image: OTHER, command: [echo, used again]}
`,
		phase: v1alpha1.DriveFailed,
		plays: map[string]v1alpha1.PlayPhase{"b": v1alpha1.PlayFailed},
		logs:  map[string]string{"a.1": "unharmed\n", "f.1": "used again\n", "g.1": "used again\n"},
		check: func(t *testing.T, o Outcome) {
			p := o.Play(t, "b")
			if p.Reason != v1alpha1.ReasonImage || p.Message == "" || p.ExitCode != nil {
				t.Errorf("b failed by %s: %s", p.Reason, p.Message)
			}
		},
	},
}

// intents: what the user can ask for on the way.
var intents = []row{
	{
		name: "cancel stops what runs and runs finally once", // CASES.md 25
		playbook: `
plays:
- {name: a, image: SHELL, script: 'trap "echo stopped; exit 1" TERM; touch /scratch/up; while :; do sleep 0.01; done'}
- {name: b, image: SHELL, command: [echo, never]}
finally:
- {name: f, image: SHELL, script: 'sleep 0.5; echo cleanup'}
`,
		during: func(st v1alpha1.DriveStatus, intents chan<- v1alpha1.Intent) {
			for _, p := range st.Plays {
				if p.Phase == v1alpha1.PlayRunning && time.Since(p.StartedAt.Time) > 0 {
					select {
					case intents <- v1alpha1.IntentCancel: // again and again
					default:
					}
				}
			}
		},
		phase: v1alpha1.DriveCancelled,
		plays: map[string]v1alpha1.PlayPhase{"a": v1alpha1.PlayCancelled, "b": v1alpha1.PlayCancelled},
		logs:  map[string]string{"f.1": "cleanup\n"},
	},
	{
		name: "suspend holds the next play until run",
		playbook: `
plays:
- {name: a, image: SHELL, command: [echo, a]}
- {name: b, image: SHELL, command: [echo, b]}
`,
		during: func(st v1alpha1.DriveStatus, intents chan<- v1alpha1.Intent) {
			switch {
			case st.Phase == v1alpha1.DriveSuspended:
				intents <- v1alpha1.IntentRun
			case st.Plays[0].Phase == v1alpha1.PlayStaged && len(intents) == 0:
				intents <- v1alpha1.IntentSuspend
			}
		},
		logs: map[string]string{"b.1": "b\n"},
		check: func(t *testing.T, o Outcome) {
			if n := o.Play(t, "b").Attempt; n != 1 {
				t.Errorf("b took %d attempts, want 1", n)
			}
		},
	},
}

// substitutions: what a swap keeps and what it replaces.
var substitutions = []row{
	{
		name: "each play has a fresh container", // CASES.md 1, 10
		playbook: `
slots: [{name: slot, count: 1}]
plays:
- {name: a, image: SHELL, script: 'touch /mark'}
- {name: b, image: SHELL, script: 'ls /mark 2>/dev/null || echo fresh; touch /mark'}
- {name: c, image: SHELL, script: 'ls /mark 2>/dev/null || echo fresh; touch /mark'}
`,
		logs: map[string]string{"b.1": "fresh\n", "c.1": "fresh\n"},
		check: func(t *testing.T, o Outcome) {
			if n := o.swaps("slot-0"); n != 3 {
				t.Errorf("the slot had %d containers, want 3", n)
			}
		},
	},
	{
		name: "reuse runs on in the same container",
		playbook: `
plays:
- {name: a, image: SHELL, script: 'touch /mark'}
- {name: b, image: SHELL, reuse: true, script: 'ls /mark'}
- {name: c, image: OTHER, reuse: true, script: 'ls /mark 2>/dev/null || echo fresh'}
`,
		logs: map[string]string{"b.1": "/mark\n", "c.1": "fresh\n"},
	},
	{
		name: "network, ipc and host name are the pod's",
		playbook: `
plays:
- {name: a, image: SHELL, script: 'for n in net ipc uts; do readlink /proc/self/ns/$n; done > /scratch/ns; hostname >> /scratch/ns'}
- {name: b, image: OTHER, script: '(for n in net ipc uts; do readlink /proc/self/ns/$n; done; hostname) | cmp - /scratch/ns && echo same'}
`,
		logs: map[string]string{"b.1": "same\n"},
	},
	{
		name: "eight plays of one image through one slot don't wait", // CASES.md 10
		playbook: `
slots: [{name: slot, count: 1}]
plays:
- {name: a, image: SHELL, forEach: ["1", "2", "3", "4", "5", "6", "7", "8"], command: [echo, '${{ item }}']}
`,
		logs: map[string]string{"a.7.1": "8\n"},
		check: func(t *testing.T, o Outcome) {
			if d := o.Status.FinishedAt.Sub(o.Status.StartedAt.Time); d > 10*time.Second {
				t.Errorf("the drive took %s", d)
			}
		},
	},
}
