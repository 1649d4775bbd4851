package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Request is what somebody wants to do. The chain and the further decision see the
// same one.
type Request struct {
	Operation   string     `json:"operation"` // type@version
	Type        string     `json:"type"`
	Risk        string     `json:"risk"`
	Impact      string     `json:"impact"` // the strongest of its steps
	OrgID       string     `json:"org_id,omitempty"`
	ProjectID   string     `json:"project_id,omitempty"`
	Caller      string     `json:"caller"`
	TargetKind  string     `json:"target_kind"`
	Targets     int        `json:"targets"`
	Concurrency int        `json:"concurrency"`
	OnlyPlan    bool       `json:"only_plan,omitempty"` // nodes only look
	At          time.Time  `json:"at"`                  // when it is decided about
	Artifacts   []Artifact `json:"artifacts,omitempty"`
	// Open says that whoever asks chooses where artifacts come from, and nothing but a
	// policy bounds it.
	Open bool `json:"open,omitempty"`
}

// seenFrom is what the command line needs to explain a request.
func (r Request) seenFrom() string {
	if r.ProjectID == "" {
		return " --global"
	}
	return " --project " + r.ProjectID
}

// Artifact is what a run would fetch.
type Artifact struct {
	Source string `json:"source"`
	Bytes  int64  `json:"bytes,omitempty"` // zero: not known
	Signed bool   `json:"signed"`          // whether its signature is verified by a key of the platform
	// SignedForTenant says that it is by a key of the tenant, which meets what the tenant
	// and its projects demand. Whoever is bound by the platform cannot meet it so.
	SignedForTenant bool `json:"-"`
}

// Denial says why a request is refused, by which key and level.
type Denial struct {
	Key     Key
	Scope   Scope
	Message string
}

// Denials says everything that the policy refuses of a request; nothing means that
// it may be done. How many run at a time and how long is not refused but bounded:
// see Concurrency and Timeout.
func (e Effective) Denials(r Request) []Denial {
	var out []Denial
	deny := func(key Key, format string, args ...any) {
		d := Denial{Key: key, Scope: e.why(key).Scope, Message: fmt.Sprintf(format, args...)}
		if reason := e.why(key).Reason; reason != "" {
			d.Message += ": " + reason
		}
		out = append(out, d)
	}
	if !e.Enabled {
		deny(Enabled, "the %s has disabled %s", e.why(Enabled).Scope.who(), r.Type)
	}
	if e.TargetKinds != nil && !slices.Contains(e.TargetKinds, r.TargetKind) {
		deny(TargetKinds, "a target of the kind %s is not allowed, only %s", r.TargetKind, listed(e.TargetKinds))
	}
	if r.Open && e.ArtifactSources == nil {
		deny(ArtifactSources, "%s fetches from where its inputs say, which needs a policy that says where that may be",
			r.Type)
	}
	for _, a := range r.Artifacts {
		if e.ArtifactSources != nil && !slices.ContainsFunc(e.ArtifactSources, func(p string) bool {
			return Within(a.Source, p) || Within(strings.TrimPrefix(a.Source, "https://"), p)
		}) {
			deny(ArtifactSources, "nothing may be fetched from %s, only from %s", a.Source, listed(e.ArtifactSources))
		}
		switch {
		case !e.RequireSignature || a.Signed:
		case !a.SignedForTenant:
			deny(RequireSignature, "the signature of %s would not be verified", a.Source)
		case !e.why(RequireSignature).Scope.tenants():
			deny(RequireSignature, "%s is signed by a key of the tenant, and a key of the platform is demanded", a.Source)
		}
		if e.MaxArtifactSize > 0 && a.Bytes > e.MaxArtifactSize {
			deny(MaxArtifactSize, "%s has %d bytes, more than %d", a.Source, a.Bytes, e.MaxArtifactSize)
		}
	}
	return out
}

// why says how a key came about.
func (e Effective) why(key Key) Decision {
	for _, d := range e.Why {
		if d.Key == key {
			return d
		}
	}
	return Decision{Key: key, Scope: BuiltIn}
}

// tenants says whether a level is a tenant's own.
func (s Scope) tenants() bool { return s == Tenant || s == Project }

// who is whom people know a level by.
func (s Scope) who() string {
	if s == Global {
		return "platform"
	}
	return string(s)
}

// Concurrency is how many targets may be worked on at a time if so many were asked
// for; zero asks for as many as allowed, and is answered if nothing limits them.
func (e Effective) Concurrency(asked int64) int64 { return lower(asked, e.MaxConcurrency) }

// Timeout is how many seconds a run may take at most on one target.
func (e Effective) Timeout(asked int64) int64 { return lower(asked, e.TimeoutSeconds) }

// lower is the smaller of two limits, of which zero is none.
func lower(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
