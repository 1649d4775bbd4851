package definition

import (
	"encoding/json"
	"fmt"
	"strings"

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
type ResolvedStep struct {
	ID             string          `json:"id"`
	Kind           string          `json:"kind"`
	With           json.RawMessage `json:"with"`
	TimeoutSeconds int             `json:"timeout_seconds"`
	Attempts       int             `json:"attempts"`
	RetryClasses   []string        `json:"retry_classes,omitempty"`
	BackoffSeconds int             `json:"backoff_seconds,omitempty"`
	OnFailure      string          `json:"on_failure"`
	Repeat         bool            `json:"repeat,omitempty"`
}

// Resolve fills in the inputs and what is known of a target. The inputs must be
// those that CheckInputs answered.
func (d Definition) Resolve(inputs json.RawMessage, target Target) ([]ResolvedStep, error) {
	steps := make([]ResolvedStep, len(d.Steps))
	var fields []fault.Field
	for i, s := range d.Steps {
		with, err := FillInputs(s.With, func(r Reference) (json.RawMessage, error) {
			if r.Root == RefTarget {
				return target.value(r.Path), nil
			}
			return Follow(inputs, r.Path)
		})
		if err != nil {
			fields = append(fields, fault.Field{Path: fmt.Sprintf("steps[%d].with", i), Message: err.Error()})
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
		return nil, fault.New(fault.Conflict, "operation_unresolvable", "%s cannot be resolved for the node %s: %s", d.Ref(),
			target.NodeName, fields[0].Message).WithFields(fields...).
			WithRemedy("choose a node that has what is missing, or give the reference a default in a new version")
	}
	return steps, nil
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
