package agentwire

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Class says which tasks of one node may run at the same time.
type Class string

// The classes.
const (
	// ClassExclusive changes the node as a whole: one at a time, and never
	// beside a task of ClassUser.
	ClassExclusive Class = "exclusive"
	// ClassUser changes accounts: one at a time.
	ClassUser Class = "user"
	// ClassConcurrent only looks, or is safe beside anything.
	ClassConcurrent Class = "concurrent"
)

// Lease is how long a task may go without a sign of life of the agent.
const Lease = time.Minute

// Params are the parameters of one task type.
type Params interface {
	// Validate says what is wrong with values of the right form.
	Validate() error
}

// Spec is one entry of the catalog.
type Spec struct {
	Type  string
	Title string
	// Destroys says what no other task can bring back. If it is empty, nothing
	// is destroyed. Whoever asks for the task is told, and confirms.
	Destroys string
	Class    Class
	// Window is how long one attempt may take, from dispatch to result.
	Window time.Duration
	// Patience is how long the task may wait for its node.
	Patience time.Duration
	// Attempts is how often it is handed out if the node falls silent.
	Attempts int

	// Reserved says what an operator does instead of asking for the task. A
	// reserved task decides whom a node believes or talks to, and only a row of
	// the control plane gives one. If it is empty, operators may ask.
	Reserved string
	// Needs is a permission that operators must hold besides the one to give
	// tasks. If it is empty, they need no other.
	Needs string
	// LetsIn says that the task gives somebody access to its node, who may leave
	// something behind. The node counts as tainted as soon as the task is queued,
	// because a task whose result never arrives may still have let somebody in.
	// If there are KeptOut codes, the node counts as tainted only once somebody
	// was let in, or once the task ended otherwise than by one of them.
	LetsIn bool
	// KeptOut are the codes with which an agent says that it has let nobody in:
	// it looked before it started anything.
	KeptOut []string
	// Amends is what the task may change of a baseline: kind and name, or the
	// folder that it is in.
	Amends []Entry
	// Credentials are the types of credentials that the task may ask for.
	Credentials []string

	// Sound holds parameters that must be accepted.
	Sound []string
	// Answer is the output that simulated agents give. If it is empty, they
	// answer {}. What depends on the parameters is in package sim/fleet.
	Answer string

	newParams func() Params
	newOutput func() any
}

// RootGiver is implemented by parameters of tasks that may give somebody root, or do
// what they chose as root.
type RootGiver interface{ GivesRoot() bool }

// Classed is implemented by parameters that decide the class of their task.
type Classed interface{ TaskClass() Class }

var catalog []Spec

// declare enters a task type into the catalog, which is sorted by type. Each
// type is declared in its own file, type_<name>.go.
func declare[P, O any, PP interface {
	*P
	Params
}](s Spec) Spec {
	s.newParams = func() Params { return PP(new(P)) }
	s.newOutput = func() any { return new(O) }
	at, taken := slices.BinarySearchFunc(catalog, s.Type, func(s Spec, name string) int {
		return strings.Compare(s.Type, name)
	})
	if taken {
		panic("two task types are called " + s.Type)
	}
	catalog = slices.Insert(catalog, at, s)
	return s
}

// Lookup finds a task type.
func Lookup(name string) (Spec, bool) {
	i := slices.IndexFunc(catalog, func(s Spec) bool { return s.Type == name })
	if i < 0 {
		return Spec{}, false
	}
	return catalog[i], true
}

// Catalog lists all task types.
func Catalog() []Spec { return slices.Clone(catalog) }

// Decode reads parameters strictly: it refuses unknown fields, trailing data
// and values out of range. Absent parameters count as an empty object.
func (s Spec) Decode(raw json.RawMessage) (Params, error) {
	p := s.newParams()
	if err := strict(raw, p); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

// DecodeOutput reads the result of a task strictly.
func (s Spec) DecodeOutput(raw json.RawMessage) (any, error) {
	o := s.newOutput()
	return o, strict(raw, o)
}

// GivesRoot reports whether a task with these parameters gives somebody root.
// It does if nobody can read them.
func (s Spec) GivesRoot(raw json.RawMessage) bool {
	p := s.newParams()
	giver, may := p.(RootGiver)
	return may && (json.Unmarshal(raw, p) != nil || giver.GivesRoot())
}

// ClassFor is the class of a task with these parameters, which were decoded
// before.
func (s Spec) ClassFor(p Params) Class {
	if c, decides := p.(Classed); decides {
		return c.TaskClass()
	}
	return s.Class
}

// TypesThatMayAskFor lists the task types that may ask for a credential.
func TypesThatMayAskFor(credential string) []string {
	var types []string
	for _, s := range catalog {
		if slices.Contains(s.Credentials, credential) {
			types = append(types, s.Type)
		}
	}
	return types
}
