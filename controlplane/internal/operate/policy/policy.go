package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// AllTypes is the type of a policy that is about every type of operation.
const AllTypes = "*"

// Scope is a level of the chain.
type Scope string

// The levels, from the widest to the most specific, and what holds without any.
const (
	BuiltIn Scope = "built_in"
	Global  Scope = "global"
	Tenant  Scope = "tenant"
	Project Scope = "project"
)

// Key is one of the seven keys.
type Key string

// The keys.
const (
	Enabled          Key = "enabled"
	MaxConcurrency   Key = "max_concurrency"
	TimeoutSeconds   Key = "timeout_seconds"
	ArtifactSources  Key = "allowed_artifact_sources"
	TargetKinds      Key = "allowed_target_kinds"
	RequireSignature Key = "require_signature_verification"
	MaxArtifactSize  Key = "max_artifact_size_bytes"
)

// Keys lists the keys in the order in which people are shown them.
var Keys = []Key{
	Enabled, MaxConcurrency, TimeoutSeconds, ArtifactSources, TargetKinds, RequireSignature, MaxArtifactSize,
}

// Values are what one level settles. What is nil it leaves to others.
type Values struct {
	Enabled          *bool     `json:"enabled,omitempty"`
	MaxConcurrency   *int64    `json:"max_concurrency,omitempty"`
	TimeoutSeconds   *int64    `json:"timeout_seconds,omitempty"`
	ArtifactSources  *[]string `json:"allowed_artifact_sources,omitempty"` // prefixes; an empty list allows none
	TargetKinds      *[]string `json:"allowed_target_kinds,omitempty"`
	RequireSignature *bool     `json:"require_signature_verification,omitempty"`
	MaxArtifactSize  *int64    `json:"max_artifact_size_bytes,omitempty"`
	// HardDeny is the platform's last word: nobody below can enable the operation.
	HardDeny bool `json:"hard_deny,omitempty"`
}

// Owner is whose policy it is: the platform's without a tenant, else a tenant's, with
// a project the project's.
type Owner struct {
	Org     id.Org
	Project id.Project
}

// Scope is the level of an owner.
func (o Owner) Scope() Scope {
	switch {
	case o.Org.IsZero():
		return Global
	case o.Project.IsZero():
		return Tenant
	}
	return Project
}

// Override is what one level has settled about one type, or about all.
type Override struct {
	Owner
	Type string
	Values
	Reason    string
	Version   int64 // zero: nothing was ever set
	UpdatedAt time.Time
	UpdatedBy string
}

// Level is one level of a chain, as Resolve takes it.
type Level struct {
	Scope Scope
	Type  string // the type, or AllTypes
	Values
	Reason string // why, in the words of who set it
}

// Effective is what counts. A number that is zero is no limit; a list that is nil
// bounds nothing, and one that is empty allows nothing.
type Effective struct {
	Type             string
	Enabled          bool
	HardDenied       bool
	MaxConcurrency   int64
	TimeoutSeconds   int64
	ArtifactSources  []string
	TargetKinds      []string
	RequireSignature bool
	MaxArtifactSize  int64
	// Why says of each key which level decided it, in the order of Keys.
	Why []Decision
	// Document is the document that decides besides, about each request; nil: none does.
	// Only reading for people fills it.
	Document *Activation
}

// Decision says how one key came about.
type Decision struct {
	Key   Key
	Value string // as people read it
	Scope Scope  // the level that decided; BuiltIn: nobody has settled it
	Type  string // the type that this level was set for: the operation's, or AllTypes
	Rule  string // by which rule it decided
	// Reason is why, in the words of who set the deciding level; empty: they said none.
	Reason string
	// Said is what every level has set, from the widest to the most specific.
	Said []Said
}

// Said is what one level has set for a key.
type Said struct {
	Scope Scope
	Type  string
	Value string
}

// The rules by which levels are put together, as explanations name them.
const (
	ruleSpecific = "the most specific level decides"
	ruleDenied   = "the platform denies it for good"
	ruleSmallest = "the smallest limit counts"
	ruleCommon   = "only what every level allows is allowed"
	ruleDemand   = "what one level demands is demanded"
	ruleNobody   = "nobody has settled it"
)

// Resolve puts the levels of a chain together, the widest first. It is a pure
// function: whoever explains a decision later gets the same one.
func Resolve(operation string, levels []Level) Effective {
	e := Effective{Type: operation, Enabled: true}
	e.Why = []Decision{
		e.enabled(levels),
		least(MaxConcurrency, levels, &e.MaxConcurrency, func(v Values) *int64 { return v.MaxConcurrency }),
		least(TimeoutSeconds, levels, &e.TimeoutSeconds, func(v Values) *int64 { return v.TimeoutSeconds }),
		common(ArtifactSources, levels, &e.ArtifactSources, prefixes, func(v Values) *[]string { return v.ArtifactSources }),
		common(TargetKinds, levels, &e.TargetKinds, words, func(v Values) *[]string { return v.TargetKinds }),
		e.signature(levels),
		least(MaxArtifactSize, levels, &e.MaxArtifactSize, func(v Values) *int64 { return v.MaxArtifactSize }),
	}
	return e
}

// decide says that a level has decided, by which rule.
func (d *Decision) decide(l Level, rule string) {
	d.Scope, d.Type, d.Rule, d.Reason = l.Scope, l.Type, rule, l.Reason
}

func (e *Effective) enabled(levels []Level) Decision {
	d := Decision{Key: Enabled, Scope: BuiltIn, Rule: ruleNobody}
	for _, l := range levels {
		if l.HardDeny && l.Scope == Global {
			d.Said = append(d.Said, Said{l.Scope, l.Type, "denied for good"})
			if !e.HardDenied {
				e.HardDenied, e.Enabled = true, false
				d.decide(l, ruleDenied)
			}
		}
		if l.Enabled == nil {
			continue
		}
		d.Said = append(d.Said, Said{l.Scope, l.Type, yes(*l.Enabled)})
		if !e.HardDenied {
			e.Enabled = *l.Enabled
			d.decide(l, ruleSpecific)
		}
	}
	d.Value = yes(e.Enabled)
	return d
}

func (e *Effective) signature(levels []Level) Decision {
	d := Decision{Key: RequireSignature, Scope: BuiltIn, Rule: ruleNobody}
	for _, l := range levels {
		if l.RequireSignature == nil {
			continue
		}
		d.Said = append(d.Said, Said{l.Scope, l.Type, yes(*l.RequireSignature)})
		if first := d.Scope == BuiltIn; first || *l.RequireSignature && !e.RequireSignature {
			e.RequireSignature = *l.RequireSignature
			d.decide(l, ruleDemand)
		}
	}
	d.Value = yes(e.RequireSignature)
	return d
}

// least resolves a limit: the smallest counts.
func least(key Key, levels []Level, into *int64, of func(Values) *int64) Decision {
	d := Decision{Key: key, Value: "no limit", Scope: BuiltIn, Rule: ruleNobody}
	for _, l := range levels {
		n := of(l.Values)
		if n == nil {
			continue
		}
		d.Said = append(d.Said, Said{l.Scope, l.Type, strconv.FormatInt(*n, 10)})
		if *into == 0 || *n < *into {
			*into, d.Value = *n, strconv.FormatInt(*n, 10)
			d.decide(l, ruleSmallest)
		}
	}
	return d
}

// common resolves a list of what is allowed: only what every level allows. The level
// that decided is the last that took something away.
func common(
	key Key, levels []Level, into *[]string, meet func(a, b []string) []string, of func(Values) *[]string,
) Decision {
	d := Decision{Key: key, Value: "everything", Scope: BuiltIn, Rule: ruleNobody}
	for _, l := range levels {
		list := of(l.Values)
		if list == nil {
			continue
		}
		d.Said = append(d.Said, Said{l.Scope, l.Type, listed(*list)})
		was, first := *into, *into == nil
		if first {
			*into = meet(*list, *list)
		} else {
			*into = meet(was, *list)
		}
		if first || !slices.Equal(was, *into) {
			d.decide(l, ruleCommon)
		}
		d.Value = listed(*into)
	}
	return d
}

// words is what two lists of words have in common, sorted; never nil.
func words(a, b []string) []string {
	out := []string{}
	for _, w := range a {
		if slices.Contains(b, w) {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// prefixes is what two lists of prefixes both allow, sorted; never nil. Of two
// prefixes, one of which lies within the other, the narrower counts.
func prefixes(a, b []string) []string {
	out := []string{}
	for _, x := range a {
		for _, y := range b {
			switch {
			case Within(x, y):
				out = append(out, x)
			case Within(y, x):
				out = append(out, y)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Within reports whether a source lies within a prefix: it is the same, or continues
// it at a boundary: a further name of the path, or a digest or a tag at its end.
// "registry.local/team" does not hold "registry.local/teammate", and a host holds none of
// its other ports.
func Within(source, prefix string) bool {
	rest, ok := strings.CutPrefix(source, prefix)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(prefix, "/") ||
		(rest[0] == '@' || rest[0] == ':') && !strings.Contains(rest, "/"))
}

func yes(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

func listed(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}
