package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gpuaas/contract/agentwire"
)

// Impact is what a step, or an operation as a whole, does to its node.
type Impact int

// The impacts, from the least to the most.
const (
	None Impact = iota
	Read
	Mutate
	Disrupt
)

var impacts = []agentwire.Impact{
	agentwire.ImpactNone, agentwire.ImpactRead, agentwire.ImpactMutate, agentwire.ImpactDisrupt,
}

func (i Impact) String() string { return string(impacts[i]) }

// impactOf is the impact of a kind of step. A kind that is not known counts as the
// worst.
func impactOf(kind string) Impact {
	k, known := agentwire.LookupStep(kind)
	if i := slices.Index(impacts, k.Impact); known && i >= 0 {
		return Impact(i)
	}
	return Disrupt
}

// Impact is the greatest of all steps.
func (d Definition) Impact() Impact {
	most := None
	for _, s := range d.Steps {
		most = max(most, impactOf(s.Kind))
	}
	return most
}

// Kinds lists the kinds of steps that the definition uses, sorted: what a node must
// know to carry it out.
func (d Definition) Kinds() []string {
	var names []string
	for _, s := range d.Steps {
		names = append(names, s.Kind)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func kindNames() []string {
	var names []string
	for _, k := range agentwire.StepKinds() {
		names = append(names, k.Kind)
	}
	return names
}

// expanded are the parameters of a step as a node gets them: a step that runs a
// command names its profile, and the node gets the profile itself.
func (d Definition) expanded(s Step) (json.RawMessage, error) {
	if s.Kind != agentwire.StepCommandExec {
		return s.With, nil
	}
	var with map[string]json.RawMessage
	if err := json.Unmarshal(s.With, &with); err != nil {
		return nil, errors.New("must be an object")
	}
	var name string
	if json.Unmarshal(with["profile"], &name) != nil {
		return nil, errors.New("profile must be the id of one of the definition's commands")
	}
	i := slices.IndexFunc(d.Commands, func(c agentwire.CommandProfile) bool { return c.ID == name })
	if i < 0 {
		return nil, fmt.Errorf("profile: there is no command %q among the definition's commands", name)
	}
	profile, err := json.Marshal(d.Commands[i])
	if err != nil {
		return nil, fmt.Errorf("encode command %s: %w", name, err)
	}
	with["profile"] = profile
	raw, err := json.Marshal(with)
	if err != nil {
		return nil, fmt.Errorf("encode parameters: %w", err)
	}
	return raw, nil
}

// uses reports whether a step runs a command.
func (s Step) uses(command string) bool {
	var with struct {
		Profile string `json:"profile"`
	}
	return s.Kind == agentwire.StepCommandExec && json.Unmarshal(s.With, &with) == nil && with.Profile == command
}
