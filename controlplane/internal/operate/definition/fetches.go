package definition

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
)

// Fetches lists what a run with these inputs brings from elsewhere, which is the same
// on every node. What lies outside of the repositories that the definition names is
// refused. The inputs must be those that CheckInputs answered.
func (d Definition) Fetches(inputs json.RawMessage) ([]agentwire.Fetch, error) {
	var all []agentwire.Fetch
	for i, s := range d.Steps {
		kind, _ := agentwire.LookupStep(s.Kind)
		if !kind.MayFetch() {
			continue
		}
		some, err := d.fetched(s, kind, inputs)
		if err != nil {
			at := fmt.Sprintf("steps.%d.with", i)
			return nil, fault.New(fault.Invalid, "operation_unresolvable", "%s cannot be run with these inputs: %s: %s",
				d.Ref(), at, err).WithFields(fault.Field{Path: at, Message: err.Error()}).
				WithRemedy("give other inputs")
		}
		all = append(all, some...)
	}
	for _, f := range all {
		if !d.mayComeFrom(f.Source) {
			return nil, fault.New(fault.Forbidden, "operation_source_outside",
				"%s fetches from %s only, and %s lies elsewhere", d.Ref(), strings.Join(d.Artifacts.Repositories, ", "), f.Source).
				WithRemedy("give an address within, or run a definition that may fetch from there")
		}
	}
	return all, nil
}

// fetched is what one step brings. Only inputs are filled in: lint lets nothing else
// decide.
func (d Definition) fetched(s Step, kind agentwire.StepKind, inputs json.RawMessage) ([]agentwire.Fetch, error) {
	with, err := d.expanded(s)
	if err != nil {
		return nil, err
	}
	filled, err := kind.Fill(with, func(r agentwire.Reference) (agentwire.Value, bool, error) {
		if r.Root != agentwire.RootInputs {
			return agentwire.Value{}, false, nil
		}
		found, err := follow(inputs, r.Path)
		return agentwire.Value{JSON: found}, true, err
	})
	if err != nil {
		return nil, err
	}
	return kind.Fetched(filled)
}

// mayComeFrom says whether an address lies within a repository of the definition. One
// that names none leaves it to the policies.
func (d Definition) mayComeFrom(source string) bool {
	if d.Artifacts == nil {
		return true
	}
	u, err := url.Parse(source)
	if err != nil {
		return false
	}
	for _, r := range d.Artifacts.Repositories {
		if rest, within := strings.CutPrefix(u.Host+u.Path, r); within &&
			(rest == "" || rest[0] == '/' || strings.HasSuffix(r, "/") || rest[0] == '@' && !strings.Contains(rest, "/")) {
			return true
		}
	}
	return false
}

// unsignable is the first step that brings something that cannot have a signature.
func (d Definition) unsignable() string {
	for _, s := range d.Steps {
		if s.Kind == agentwire.StepArtifactPullBlob {
			return s.ID
		}
	}
	return ""
}
