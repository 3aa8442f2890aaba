// Package protocol owns what the shim and the engines say to each other: the environment that a slot's container is
// created with, the files of the control directory and their JSON.
//
// The shim is linked with this package, so it must import nothing but the standard library, and of that only what is small.
//
// The control directory is one flat directory that all slots of a pod share, mode 0777, because slots may run as
// different users. Its files, for a token T and a slot S:
//
//	assign-S   the slot's newest assignment, put there by rename. In a pod it is a downward-API file elsewhere instead;
//	           EnvAssignmentFile says where
//	state-S    what the shim of the slot is about (State), put there by rename
//	claim-T    the attempt has begun (Claim); made with O_EXCL, so whoever makes it may execute the attempt
//	result-T   the attempt has ended (Result), put there by rename; gates wait for it
//	log-T      the attempt's output, bounded
//	out-T      the attempt's $NOHUDDLE_OUTPUT
//	script-T   the attempt's script
package protocol

import (
	"fmt"
	"strconv"
	"time"
)

// Where the engines mount things in every slot.
const (
	// ControlDir is the control directory.
	ControlDir = "/nohuddle/ctl"
	// ShimPath is the shim's binary, on a read-only mount.
	ShimPath = "/nohuddle/bin/nohuddle-shim"
)

// The environment of the shim. Every variable that begins with EnvPrefix is the shim's own and is kept from the plays,
// but for those that EnvOutput and the ones after it name, which the shim sets for each play.
const (
	EnvPrefix = "NOHUDDLE_"
	// EnvSlot is the slot's name.
	EnvSlot = "NOHUDDLE_SLOT"
	// EnvSwap is the number of the container in its slot (SlotStatus.Swap): the shim repeats it in its state.
	EnvSwap = "NOHUDDLE_SWAP"
	// EnvControl is the control directory. Default: ControlDir.
	EnvControl = "NOHUDDLE_CONTROL"
	// EnvAssignment is the JSON of the assignment that the container is created for. In a pod a fieldRef fills it.
	EnvAssignment = "NOHUDDLE_ASSIGNMENT"
	// EnvAssignmentFile is the file in which later assignments appear. Default: assign-<slot> in the control directory.
	EnvAssignmentFile = "NOHUDDLE_ASSIGNMENT_FILE"
	// EnvSecretPrefix begins the variables that hold the values of secrets; EnvVar.Secret names one without the prefix.
	EnvSecretPrefix = "NOHUDDLE_SECRET_"

	// EnvOutput is the file to which a play writes its outputs: lines key=value, or key<<WORD, lines, WORD.
	EnvOutput = "NOHUDDLE_OUTPUT"
	// EnvPlay is the play's name (with forEach: <play>.<index>).
	EnvPlay = "NOHUDDLE_PLAY"
	// EnvAttempt is the number of the attempt, from 1.
	EnvAttempt = "NOHUDDLE_ATTEMPT"
	// EnvDrive is the drive's name.
	EnvDrive = "NOHUDDLE_DRIVE"
)

// Exit codes of the shim itself.
const (
	// ExitDone: the drive is done.
	ExitDone = 0
	// ExitFailed: the drive has failed.
	ExitFailed = 70
	// ExitConfig: the shim was started with an environment that it can't work with; stderr says what.
	ExitConfig = 78
	// ExitControl: the control directory can't be written (full, read-only); stderr says what.
	ExitControl = 74
	// ExitTerm: SIGTERM came.
	ExitTerm = 143
)

// Limits, in bytes.
const (
	// MaxAssignment bounds an assignment's JSON: the kernel takes no string above 131,072 bytes in an environment
	// (MAX_ARG_STRLEN, execve(2)), and it comes to the shim in one.
	MaxAssignment = 120 << 10
	// MaxArgument is the longest single argument or NAME=value that the kernel takes (MAX_ARG_STRLEN less the NUL).
	MaxArgument = 128<<10 - 1
	// MaxOutput bounds one output's value.
	MaxOutput = 32 << 10
	// MaxOutputs bounds the sum of an attempt's outputs, keys and values.
	MaxOutputs = 64 << 10
	// ResultReserve is claimed on the disk for the result before the attempt runs, so that a full disk can't lose it.
	ResultReserve = 4 << 10
)

// Assignment is what a slot is to run now. An assignment without a token holds nothing to run: the shim parks.
type Assignment struct {
	// Seq grows with each assignment of a slot; the shim ignores one whose Seq is not higher than the last it took up,
	// and repeats the one it took up in its State.
	Seq int64 `json:"seq"`
	// Token identifies the attempt; see Token. "" parks the slot.
	Token string `json:"token,omitempty"`
	// Drive, Play and Attempt are told to the play by environment variables.
	Drive   string `json:"drive,omitempty"`
	Play    string `json:"play,omitempty"`
	Attempt int32  `json:"attempt,omitempty"`
	// Gate holds what must have happened before the attempt starts; all of it.
	Gate []Need `json:"gate,omitempty"`
	// Argv is the program and its arguments. Empty when Script is set.
	Argv []string `json:"argv,omitempty"`
	// Script is written to a file and executed; /bin/sh runs it where it has no #! line.
	Script string `json:"script,omitempty"`
	// Env is added to the container's environment, later entries over earlier ones.
	Env []EnvVar `json:"env,omitempty"`
	// WorkingDir is made if it doesn't exist. Default: the directory that the shim was started in.
	WorkingDir string `json:"workingDir,omitempty"`
	// GraceMillis is the time between SIGTERM and SIGKILL.
	GraceMillis int64 `json:"grace,omitempty"`
	// TimeoutMillis bounds the attempt from the start of its process; 0 is no bound.
	TimeoutMillis int64 `json:"timeout,omitempty"`
	// LogLimit bounds the log file in bytes; 0 is no bound.
	LogLimit int64 `json:"logLimit,omitempty"`
	// Stop asks to end the attempt of this Token: before its claim it is never claimed and gets no result, while it
	// runs it is stopped and gets a result with the reason Stopped.
	Stop bool `json:"stop,omitempty"`
	// End asks the shim to exit with this code, once nothing runs.
	End *int `json:"end,omitempty"`
}

// Need is one result that a gate waits for.
type Need struct {
	// Token of the attempt that is waited for.
	Token string `json:"token"`
	// Any opens the gate whatever the result is; otherwise only success does, and any other result closes it for good.
	Any bool `json:"any,omitempty"`
}

// EnvVar is one variable of a play.
type EnvVar struct {
	Name string `json:"name"`
	// Value is literal.
	Value string `json:"value,omitempty"`
	// Secret names the secret whose value it is, instead of Value: the shim has it in EnvSecretPrefix+Secret.
	// The shim masks its value in the output of the play.
	Secret string `json:"secret,omitempty"`
}

// Phase is what a shim is about.
type Phase string

// The phases of a shim.
const (
	// Waiting at the gate of its assignment.
	Waiting Phase = "Waiting"
	// Closed: the gate can't open any more; the attempt was not claimed and never will be under this assignment.
	Closed Phase = "Closed"
	// Parked: nothing to run, or what there was has ended.
	Parked Phase = "Parked"
)

// State is what a shim says of itself. That it runs an attempt is not in it: the claim says so.
type State struct {
	// Swap repeats EnvSwap, so that a state of the slot's former container is told from one of the present.
	Swap int64 `json:"swap"`
	// Seq of the assignment that the shim has taken up. A shim that runs an attempt takes up the next when it has ended
	// (but obeys Stop at once).
	Seq   int64  `json:"seq"`
	Token string `json:"token,omitempty"`
	Phase Phase  `json:"phase"`
}

// Claim is the content of a claim file.
type Claim struct {
	Slot string `json:"slot"`
	// StartedAt is when the shim claimed the token, just before it executes the process.
	StartedAt time.Time `json:"startedAt"`
}

// Reason is why an attempt ended as it did; "" when its process just ended. The words are those of the API.
type Reason string

// The reasons that a shim gives.
const (
	Timeout     Reason = "Timeout"
	Stopped     Reason = "Stopped"
	Interrupted Reason = "Interrupted"
	OOMKilled   Reason = "OOMKilled"
	BadOutput   Reason = "OutputInvalid"
	TooLarge    Reason = "AssignmentTooLarge"
)

// Result is how an attempt ended.
type Result struct {
	Token string `json:"token"`
	// ExitCode as a shell gives it: 126 not executable, 127 not found, 128+n killed by signal n.
	ExitCode int `json:"exitCode"`
	// Reason is set when something other than the process itself decided the end. A result with a reason is never a
	// success, whatever the exit code.
	Reason Reason `json:"reason,omitempty"`
	// Message says what happened in a sentence, where the exit code doesn't.
	Message    string            `json:"message,omitempty"`
	StartedAt  time.Time         `json:"startedAt"`
	FinishedAt time.Time         `json:"finishedAt"`
	Outputs    map[string]string `json:"outputs,omitempty"`
	// PeakMemory of the container in bytes, 0 where the kernel doesn't tell.
	PeakMemory int64 `json:"peakMemory,omitempty"`
	// LogDropped is how many bytes of output did not fit the log file.
	LogDropped int64 `json:"logDropped,omitempty"`
}

// Succeeded says whether the attempt did what it should.
func (r *Result) Succeeded() bool { return r.ExitCode == 0 && r.Reason == "" }

// Token names an attempt of a play within its pod. Play names are DNS labels, those of items <label>.<index>; the
// result is fit for a file name.
func Token(play string, attempt int32) string { return play + "." + strconv.Itoa(int(attempt)) }

// The names of the control directory's files.
func AssignFile(slot string) string  { return "assign-" + slot }
func StateFile(slot string) string   { return "state-" + slot }
func ClaimFile(token string) string  { return "claim-" + token }
func ResultFile(token string) string { return "result-" + token }
func LogFile(token string) string    { return "log-" + token }
func OutputFile(token string) string { return "out-" + token }
func ScriptFile(token string) string { return "script-" + token }

// TempFile names the file under which a file is written before it is renamed into place.
func TempFile(name string) string { return fmt.Sprintf(".tmp-%s", name) }
