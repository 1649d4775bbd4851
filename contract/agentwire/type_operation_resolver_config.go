package agentwire

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// TypeResolverConfig tells a node which programs carry out abstract steps.
const TypeResolverConfig = "operation.resolver_config"

var _ = declare[ResolverConfigParams, ResolverConfigOutput](Spec{
	Type: TypeResolverConfig, Title: "tell the node which programs carry out abstract steps",
	Class: ClassConcurrent, Window: 5 * time.Minute, Patience: 24 * time.Hour, Attempts: 5,
	Reserved: "the control plane gives every node its configuration by itself",
	Sound: []string{
		`{"action":"rollback","version":3}`,
		`{"action":"install","version":1,"config":{` +
			`"profiles":[{"id":"none","command":"/usr/bin/true","timeout_seconds":10}],` +
			`"rules":[{"id":"nvidia","match":{"gpu.vendor":"nvidia"},"overrides":{"gpu.runtime.check":"none"}},` +
			`{"id":"fallback","match":{},"overrides":{}}]}}`,
	},
	Answer: `{"version":1,"kept":[1]}`,
})

// ResolverConfigParams is a configuration with its version, or the version of
// an earlier one.
type ResolverConfigParams struct {
	Action  string          `json:"action"` // install or rollback
	Version int64           `json:"version"`
	Config  *ResolverConfig `json:"config,omitempty"`
}

// Actions of a resolver configuration.
const (
	ResolverInstall  = "install"
	ResolverRollback = "rollback"
)

// ResolverConfig says by which command profile an abstract step is carried out
// on which hardware.
type ResolverConfig struct {
	Profiles []CommandProfile `json:"profiles"`
	// Rules are asked in their order, and the first that matches decides. The
	// last one matches everything.
	Rules []ResolverRule `json:"rules"`
}

// ResolverRule chooses profiles for the hardware that it matches.
type ResolverRule struct {
	ID string `json:"id"`
	// Match are facts of the node with the values that they must have.
	Match map[string]string `json:"match"`
	// Overrides are the profiles, by kind of step.
	Overrides map[string]string `json:"overrides"`
}

// Validate implements Params.
func (p ResolverConfigParams) Validate() error {
	switch {
	case p.Version < 1 || p.Version > maxInteger:
		return errors.New("version must be at least 1")
	case p.Action == ResolverRollback && p.Config == nil:
		return nil
	case p.Action == ResolverInstall && p.Config != nil:
		return p.Config.Validate()
	default:
		return errors.New("action must be install with a config, or rollback without one")
	}
}

// Validate says what is wrong with a configuration.
func (c ResolverConfig) Validate() error {
	if len(c.Profiles) > 64 || len(c.Rules) == 0 || len(c.Rules) > 64 {
		return errors.New("a configuration has at most 64 profiles, and between 1 and 64 rules")
	}
	known := map[string]bool{}
	var problems StepProblems
	for i, profile := range c.Profiles {
		at := fmt.Sprintf("profiles.%d", i)
		profile.Validate(at, &problems)
		if known[profile.ID] {
			problems.add(at+".id", "occurs twice")
		}
		if len(profile.Arguments) > 0 || len(profile.Env) > 0 {
			problems.add(at, "a profile of an abstract step has nothing that is filled in")
		}
		known[profile.ID] = true
	}
	ids := map[string]bool{}
	for i, r := range c.Rules {
		at := fmt.Sprintf("rules.%d", i)
		if !profileID.MatchString(r.ID) || ids[r.ID] {
			problems.add(at+".id", "must be a name of lower-case letters, digits and _ that no other rule has")
		}
		ids[r.ID] = true
		if last := i == len(c.Rules)-1; last != (len(r.Match) == 0) {
			problems.add(at+".match", "the last rule, and no other, matches everything: it is the fallback")
		}
		for _, kind := range sorted(r.Overrides) {
			if !slices.Contains(AbstractKinds, kind) {
				problems.add(at+".overrides."+kind, "is not an abstract kind of step")
			}
			if !known[r.Overrides[kind]] {
				problems.add(at+".overrides."+kind, "there is no profile %q", clip(r.Overrides[kind]))
			}
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// Choose returns the profile for an abstract step on a node with these facts,
// and the rule that chose it. It returns nil if the rule names none.
func (c ResolverConfig) Choose(kind string, facts map[string]string) (profile *CommandProfile, rule string) {
	for _, r := range c.Rules {
		matches := true
		for fact, want := range r.Match {
			matches = matches && facts[fact] == want
		}
		if !matches {
			continue
		}
		i := slices.IndexFunc(c.Profiles, func(p CommandProfile) bool { return p.ID == r.Overrides[kind] })
		if i < 0 {
			return nil, r.ID
		}
		return &c.Profiles[i], r.ID
	}
	return nil, ""
}

// ResolverConfigOutput says which version is in use.
type ResolverConfigOutput struct {
	Version int64   `json:"version"`
	Kept    []int64 `json:"kept"` // versions to which the node can return
}
