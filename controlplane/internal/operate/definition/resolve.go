package definition

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
)

// Target is what a definition may know of the node that it is resolved for.
type Target struct {
	NodeID       string
	NodeName     string
	AllocationID string // empty: the node is not reached through one
	ProjectID    string
	Facts        map[string]string // gpu.vendor and so on
}

// targetNames are what references may name of a target besides facts.
var targetNames = []string{"node_id", "node_name", "allocation_id", "project_id"}

// value finds what a reference names of the target; nil: it is not there.
func (t Target) value(path []string) json.RawMessage {
	var text string
	var there bool
	if path[0] == "facts" {
		text, there = t.Facts[strings.Join(path[1:], ".")]
	} else if len(path) == 1 {
		text = map[string]string{
			"node_id": t.NodeID, "node_name": t.NodeName, "allocation_id": t.AllocationID, "project_id": t.ProjectID,
		}[path[0]]
		there = text != ""
	}
	if !there {
		return nil
	}
	raw, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("encode a text: %v", err)) // texts can always be encoded
	}
	return raw
}

// ResolvedStep is a step as a node gets it: inputs and facts are filled in,
// references to earlier steps are left to the node.
type ResolvedStep = agentwire.OperationStep

// Resolve fills in the inputs and what is known of a target, and checks what comes of
// it. The inputs must be those that CheckInputs answered.
func (d Definition) Resolve(inputs json.RawMessage, target Target) ([]ResolvedStep, error) {
	steps := make([]ResolvedStep, len(d.Steps))
	var fields []fault.Field
	for i, s := range d.Steps {
		with, err := d.fill(s, inputs, target)
		if err != nil {
			fields = append(fields, fault.Field{Path: fmt.Sprintf("steps.%d.with", i), Message: err.Error()})
			continue
		}
		steps[i] = ResolvedStep{
			ID: s.ID, Kind: s.Kind, With: with, TimeoutSeconds: s.TimeoutSeconds, Attempts: 1,
			OnFailure: string(s.OnFailure), Repeat: s.Repeat,
		}
		if s.Retry != nil {
			steps[i].Attempts, steps[i].RetryClasses = s.Retry.Attempts, s.Retry.Classes
			steps[i].BackoffSeconds = s.Retry.BackoffSeconds
		}
	}
	if len(fields) > 0 {
		return nil, fault.New(fault.Conflict, "operation_unresolvable", "%s cannot be resolved for the node %s: %s: %s",
			d.Ref(),
			target.NodeName, fields[0].Path, fields[0].Message).WithFields(fields...).
			WithRemedy("give other inputs, or choose a node that has what is missing")
	}
	return steps, nil
}

// fill is what a node gets of one step.
func (d Definition) fill(s Step, inputs json.RawMessage, target Target) (json.RawMessage, error) {
	kind, known := agentwire.LookupStep(s.Kind)
	if !known {
		return nil, fmt.Errorf("there is no kind of step %q any more", s.Kind)
	}
	with, err := d.expanded(s)
	if err != nil {
		return nil, err
	}
	filled, err := kind.Fill(with, func(r agentwire.Reference) (agentwire.Value, bool, error) {
		switch r.Root {
		case agentwire.RootTarget:
			return agentwire.Value{JSON: target.value(r.Path)}, true, nil
		case agentwire.RootInputs:
			found, err := follow(inputs, r.Path)
			return agentwire.Value{JSON: found}, true, err
		default:
			return agentwire.Value{}, false, nil
		}
	})
	if err != nil {
		return nil, err
	}
	if _, _, err := kind.Decode(filled); err != nil {
		return nil, err
	}
	return filled, nil
}

// follow follows the path of a reference through a JSON document: names of objects
// and numbers of items. It answers nil where the path leads nowhere.
func follow(document json.RawMessage, path []string) (json.RawMessage, error) {
	var value any
	if err := decodeNumbers(document, &value); err != nil {
		return nil, err
	}
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			member, there := v[step]
			if !there {
				return nil, nil
			}
			value = member
		case []any:
			i, number := strconv.Atoi(step)
			if number != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != step {
				return nil, nil //nolint:nilerr // a path that leads nowhere is no failure
			}
			value = v[i]
		default:
			return nil, nil
		}
	}
	return encoded(value), nil
}

// Fits says which facts a definition requires that the target has not: nothing
// means that it fits.
func (d Definition) Fits(facts map[string]string) []Lack {
	var lacks []Lack
	for _, name := range sortedNames(d.Requires) {
		if got := facts[name]; !contains(d.Requires[name], got) {
			lacks = append(lacks, Lack{Fact: name, Wanted: d.Requires[name], Got: got})
		}
	}
	return lacks
}

// Lack is a fact that a node must have and has not.
type Lack struct {
	Fact   string
	Wanted []string
	Got    string // empty: the node reports none
}

func (l Lack) String() string {
	got := "reports none"
	if l.Got != "" {
		got = "has " + l.Got
	}
	return fmt.Sprintf("%s must be %s, and the node %s", l.Fact, strings.Join(l.Wanted, " or "), got)
}
