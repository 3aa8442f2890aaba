package playbook

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// Limits of the language. Sizes of arguments and assignments are those of package protocol.
const (
	// MaxFile is the largest manifest, in bytes.
	MaxFile = 1 << 20
	// MaxPlays is the most plays that a playbook can have, those of finally included.
	MaxPlays = 1000
	// MaxItems is the longest list of a forEach.
	MaxItems = 500
	// MaxSlots is the most slots that the groups of a playbook can have together.
	MaxSlots = 32
	// MaxSlotsPerGroup is the most slots of one group.
	MaxSlotsPerGroup = 16
	// MaxExpression is the longest expression, in bytes.
	MaxExpression = 4 << 10
	// MaxRetries is the highest retries.limit.
	MaxRetries = 100
	// MaxGrace is the highest gracePeriodSeconds.
	MaxGrace = 3600
)

// The defaults of the language.
const (
	DefaultGroup   = "slot"
	DefaultSlots   = 2
	DefaultScratch = "/scratch"
	DefaultGrace   = 30
)

// Program is a compiled playbook with its params bound. It doesn't change any more and can be used by several
// goroutines.
type Program struct {
	// Plays are the plays in the order of the playbook, then those of finally; the index is a play's identity.
	Plays []*Play
	// Main is the number of plays before finally.
	Main int
	// Groups of slots; at least one.
	Groups []SlotGroup
	// Secrets are the secretKeyRefs of all plays, each once, in the order of their first use. protocol.EnvVar.Secret
	// holds an index into it in decimal.
	Secrets []SecretRef
	Scratch v1alpha1.Scratch
	// Params are the bound values.
	Params map[string]string

	index map[string]int
}

// Index is the index of the play with this name.
func (p *Program) Index(name string) (int, bool) {
	i, ok := p.index[name]
	return i, ok
}

// SlotGroup is a group of slots of one shape.
type SlotGroup struct {
	Name string
	// Slots are the names of the slots: <name>-0, <name>-1 and so on.
	Slots []string
	// Resources is what a slot can give a play at the most; a resource that isn't in it is unbounded, unless it is an
	// extended one, which the group hasn't.
	Resources corev1.ResourceRequirements
}

// SecretRef is one key of one Secret.
type SecretRef struct {
	Name, Key string
	// Optional says that every play can do without it.
	Optional bool
}

// Play is one compiled play.
type Play struct {
	// Spec has every default filled in. It must not be changed.
	Spec    *v1alpha1.Play
	Index   int
	Finally bool
	// Needs are the plays that must have ended; empty under finally.
	Needs []int
	// Refs are the plays that when, forEach and the text refer to, sorted.
	Refs []int
	// TextRefs are those of Refs that the text refers to: image, command, args, script, env, workingDir.
	TextRefs []int
	// ReadsDrive says that when, forEach or the text read drive.phase.
	ReadsDrive bool
	// ItemsWait says that the list of forEach is known only when the play's needs have ended.
	ItemsWait bool
	// Groups are the indexes of the groups that the play can run in, preferred first; at least one.
	Groups []int

	program *Program
	when    *expression
	items   *expression
	list    []template
	text    textTemplate
}

// Scope is what expressions see. It is asked for the plays in Refs only.
type Scope interface {
	Play(index int) PlayValue
	DrivePhase() string
	DriveName() string
}

// PlayValue is what expressions see of a play, or of one item of a play with forEach.
type PlayValue struct {
	Phase    string
	ExitCode int64
	Outputs  map[string]string
	// Items has an element for each item of a play with forEach, in their order; nil for other plays.
	Items []PlayValue
	// Item is the text that ${{ item }} stands for; set in Items only.
	Item string
}

// Text is what a play runs, with every ${{ }} replaced.
type Text struct {
	Image string
	// Command and Args are nil where the play has none.
	Command, Args []string
	Script        string
	Env           []protocol.EnvVar
	WorkingDir    string
}
