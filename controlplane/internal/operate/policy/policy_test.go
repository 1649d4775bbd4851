package policy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/operate/policy"
)

func level(scope policy.Scope, v policy.Values) policy.Level {
	return policy.Level{Scope: scope, Type: "web.prepare", Values: v}
}

func resolve(levels ...policy.Level) policy.Effective { return policy.Resolve("web.prepare", levels) }

func decision(e policy.Effective, key policy.Key) policy.Decision {
	return e.Why[slices.IndexFunc(e.Why, func(d policy.Decision) bool { return d.Key == key })]
}

func TestWhatNobodySettledIsOpen(t *testing.T) {
	e := resolve()
	if !e.Enabled || e.HardDenied || e.MaxConcurrency != 0 || e.ArtifactSources != nil || e.RequireSignature {
		t.Errorf("effective: %+v", e)
	}
	for i, d := range e.Why {
		if d.Key != policy.Keys[i] || d.Scope != policy.BuiltIn || len(d.Said) != 0 {
			t.Errorf("decision %d: %+v", i, d)
		}
	}
}

func TestTheMostSpecificLevelEnablesUnlessItIsDeniedForGood(t *testing.T) {
	for _, row := range []struct {
		name   string
		levels []policy.Level
		want   bool
		by     policy.Scope
	}{
		{"tenant over platform", []policy.Level{
			level(policy.Global, policy.Values{Enabled: new(false)}), level(policy.Tenant, policy.Values{Enabled: new(true)}),
		}, true, policy.Tenant},
		{"project over tenant", []policy.Level{
			level(policy.Tenant, policy.Values{Enabled: new(true)}), level(policy.Project, policy.Values{Enabled: new(false)}),
		}, false, policy.Project},
		{"a type over all types", []policy.Level{
			{Scope: policy.Tenant, Type: policy.AllTypes, Values: policy.Values{Enabled: new(false)}},
			level(policy.Tenant, policy.Values{Enabled: new(true)}),
		}, true, policy.Tenant},
		{"denied for good", []policy.Level{
			level(policy.Global, policy.Values{HardDeny: true, Enabled: new(true)}),
			level(policy.Tenant, policy.Values{Enabled: new(true)}), level(policy.Project, policy.Values{Enabled: new(true)}),
		}, false, policy.Global},
		{"a tenant cannot deny for good", []policy.Level{
			level(policy.Tenant, policy.Values{HardDeny: true}), level(policy.Project, policy.Values{Enabled: new(true)}),
		}, true, policy.Project},
	} {
		e := resolve(row.levels...)
		if d := decision(e, policy.Enabled); e.Enabled != row.want || d.Scope != row.by {
			t.Errorf("%s: %v by %s: %+v", row.name, e.Enabled, d.Scope, d)
		}
	}
}

func TestLimitsOnlyGetNarrower(t *testing.T) {
	e := resolve(
		level(policy.Global, policy.Values{
			MaxConcurrency: new(int64(10)), ArtifactSources: &[]string{"registry.local/team", "https://models.example/"},
			TargetKinds: &[]string{"node", "allocation"}, RequireSignature: new(true), MaxArtifactSize: new(int64(100)),
		}),
		level(policy.Tenant, policy.Values{
			MaxConcurrency: new(int64(50)), ArtifactSources: &[]string{"registry.local/team/app", "registry.local/teammate"},
			RequireSignature: new(false), MaxArtifactSize: new(int64(50)),
		}),
		level(policy.Project, policy.Values{TargetKinds: &[]string{"allocation", "group"}, TimeoutSeconds: new(int64(60))}),
	)
	if e.MaxConcurrency != 10 || e.MaxArtifactSize != 50 || e.TimeoutSeconds != 60 || !e.RequireSignature ||
		!slices.Equal(e.ArtifactSources, []string{"registry.local/team/app"}) || !slices.Equal(e.TargetKinds,
		[]string{"allocation"}) {
		t.Errorf("effective: %+v", e)
	}
	for key, by := range map[policy.Key]policy.Scope{
		policy.MaxConcurrency: policy.Global, policy.MaxArtifactSize: policy.Tenant, policy.TimeoutSeconds: policy.Project,
		policy.RequireSignature: policy.Global, policy.ArtifactSources: policy.Tenant, policy.TargetKinds: policy.Project,
	} {
		if d := decision(e, key); d.Scope != by {
			t.Errorf("%s was decided by %s, want %s", key, d.Scope, by)
		}
	}
}

var (
	anyFlag  = rapid.Ptr(rapid.Bool(), true)
	anyLimit = rapid.Ptr(rapid.Int64Range(1, 20), true)
	sources  = []string{"a", "a/b", "a/b/c", "ab", "b", "b/c", "https://x/", "https://x/y"}
	kinds    = []string{"node", "allocation", "group"}
)

func anyList(of []string) *rapid.Generator[*[]string] {
	return rapid.Ptr(rapid.SliceOfN(rapid.SampledFrom(of), 0, 4), true)
}

func anyValues(t *rapid.T, label string) policy.Values {
	return policy.Values{
		Enabled: anyFlag.Draw(t, label+" enabled"), MaxConcurrency: anyLimit.Draw(t, label+" concurrency"),
		TimeoutSeconds: anyLimit.Draw(t, label+" timeout"), ArtifactSources: anyList(sources).Draw(t, label+" sources"),
		TargetKinds: anyList(kinds).Draw(t, label+" kinds"), RequireSignature: anyFlag.Draw(t, label+" signature"),
		MaxArtifactSize: anyLimit.Draw(t, label+" size"), HardDeny: rapid.Bool().Draw(t, label+" deny"),
	}
}

// No level below can allow what the levels above it refuse, whatever it says.
func TestNoOverlayWidensWhatIsAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		above := []policy.Level{level(policy.Global, anyValues(t, "global"))}
		if rapid.Bool().Draw(t, "with a tenant") {
			above = append(above, level(policy.Tenant, anyValues(t, "tenant")))
		}
		before := resolve(above...)
		after := resolve(append(slices.Clone(above), level(policy.Project, anyValues(t, "project")))...)
		if before.HardDenied && (after.Enabled || !after.HardDenied) {
			t.Fatal("what is denied for good was enabled")
		}
		wider := func(was, is int64) bool { return was > 0 && (is == 0 || is > was) }
		if wider(before.MaxConcurrency, after.MaxConcurrency) || wider(before.TimeoutSeconds, after.TimeoutSeconds) ||
			wider(before.MaxArtifactSize, after.MaxArtifactSize) {
			t.Fatalf("a limit was widened: %+v, %+v", before, after)
		}
		if before.RequireSignature && !after.RequireSignature {
			t.Fatal("a demand was dropped")
		}
		before.Enabled, after.Enabled = true, true // the most specific level decides about that alone
		for _, kind := range kinds {
			for _, source := range append(slices.Clone(sources), "a/b:1", "abc", "https://x/y/z", "other") {
				r := policy.Request{TargetKind: kind, Artifacts: []policy.Artifact{{Source: source, Bytes: 5}}}
				if len(before.Denials(r)) > 0 && len(after.Denials(r)) == 0 {
					t.Fatalf("%s on %s was refused and is allowed now: %+v, %+v", source, kind, before, after)
				}
			}
		}
	})
}

// Whoever explains a decision gets the value that counts.
func TestTheExplanationNamesTheLevelThatSaidIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := resolve(level(policy.Global, anyValues(t, "global")), level(policy.Tenant, anyValues(t, "tenant")),
			level(policy.Project, anyValues(t, "project")))
		for _, key := range []policy.Key{policy.MaxConcurrency, policy.TimeoutSeconds, policy.MaxArtifactSize} {
			d := decision(e, key)
			said := slices.ContainsFunc(d.Said, func(s policy.Said) bool { return s.Scope == d.Scope && s.Value == d.Value })
			if len(d.Said) > 0 && !said || len(d.Said) == 0 && d.Scope != policy.BuiltIn {
				t.Fatalf("%+v", d)
			}
		}
	})
}

func TestWithinEndsAtABoundary(t *testing.T) {
	for source, want := range map[string]bool{
		"r.local/team": true, "r.local/team/app": true, "r.local/team@sha256:00": true, "r.local/team:1": true,
		"r.local/teammate": false, "r.local": false, "x.r.local/team": false,
	} {
		if policy.Within(source, "r.local/team") != want {
			t.Errorf("%s within r.local/team: want %v", source, want)
		}
	}
	if !policy.Within("https://x/y", "https://x/") || policy.Within("https://xy", "https://x/") {
		t.Error("a prefix that ends with a slash")
	}
}

// decider answers what it is told to.
type decider struct {
	reasons []string
	err     error
}

func (d decider) Decide(context.Context, pgx.Tx, policy.Request, policy.Effective) (policy.Verdict, error) {
	return policy.Verdict{Document: "v1", Denied: d.reasons}, d.err
}

func TestAFurtherDecisionCanOnlyDenyAndFailsClosed(t *testing.T) {
	open, closed := resolve(), resolve(level(policy.Global, policy.Values{Enabled: new(false)}))
	r := policy.Request{Operation: "web.prepare@v1", Type: "web.prepare", TargetKind: "node"}
	for _, row := range []struct {
		name    string
		e       policy.Effective
		further policy.Decider
		code    string
	}{
		{"nobody asked", open, nil, ""},
		{"it says nothing", open, decider{}, ""},
		{"it denies", open, decider{reasons: []string{"not on Fridays"}}, "operation_denied_by_policy"},
		{"it fails", open, decider{err: errors.New("timeout")}, "operation_policy_undecided"},
		{"it cannot allow", closed, decider{}, "operation_denied_by_policy"},
	} {
		_, err := policy.Check(t.Context(), nil, row.e, r, row.further)
		if row.code == "" && err != nil || row.code != "" && (err == nil || fault.CodeOf(err) != row.code) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	if _, err := policy.Check(t.Context(), nil, open, r, decider{reasons: []string{"not on Fridays"}}); err == nil ||
		!strings.Contains(err.Error(), "Fridays") {
		t.Errorf("the reason is not told: %v", err)
	}
	if closed.Concurrency(7) != 7 || resolve(level(policy.Global,
		policy.Values{MaxConcurrency: new(int64(3))})).Concurrency(7) != 3 {
		t.Error("concurrency")
	}
}

// Where whoever asks chooses the sources, nothing is fetched until a policy says from
// where; one that names a host means https there.
func TestSourcesThatInputsChooseNeedAPolicy(t *testing.T) {
	fetch := func(source string) policy.Request {
		return policy.Request{
			Type: "node.file.fetch", TargetKind: "node", Open: true, Artifacts: []policy.Artifact{{Source: source}},
		}
	}
	for _, c := range []struct {
		sources *[]string
		source  string
		allowed bool
	}{
		{nil, "https://models.example/a", false},
		{&[]string{}, "https://models.example/a", false},
		{&[]string{"https://models.example/"}, "https://models.example/a", true},
		{&[]string{"models.example/team"}, "https://models.example/team/a", true},
		{&[]string{"models.example/team"}, "http://models.example/team/a", false},
		{&[]string{"models.example/team"}, "https://models.example/teammate", false},
		{&[]string{"http://10.0.0.7:8000/"}, "http://10.0.0.7:8000/a", true},
	} {
		denied := resolve(level(policy.Global, policy.Values{ArtifactSources: c.sources})).Denials(fetch(c.source))
		if (len(denied) == 0) != c.allowed {
			t.Errorf("%v, %s: %+v", c.sources, c.source, denied)
		}
	}
}

// What the platform demands is met by its own keys; what a tenant demands, by its keys too.
func TestAttackADemandOfThePlatformIsNotMetByAKeyOfTheTenant(t *testing.T) {
	t.Parallel()
	demand := func(scopes ...policy.Scope) policy.Effective {
		var levels []policy.Level
		for _, s := range scopes {
			levels = append(levels, policy.Level{Scope: s, Type: "*", Values: policy.Values{RequireSignature: new(true)}})
		}
		return policy.Resolve("node.file.fetch", levels)
	}
	for _, c := range []struct {
		what   string
		e      policy.Effective
		by     policy.Scope
		denied bool
	}{
		{"nobody demands one", demand(), "", false},
		{"the platform, unsigned", demand(policy.Global), "", true},
		{"the platform, by the tenant", demand(policy.Global), policy.Tenant, true},
		{"the platform, by the platform", demand(policy.Global), policy.Global, false},
		{"the tenant, unsigned", demand(policy.Tenant), "", true},
		{"the tenant, by the tenant", demand(policy.Tenant), policy.Tenant, false},
		{"the tenant, by the platform", demand(policy.Tenant), policy.Global, false},
		{"a project, by the tenant", demand(policy.Project), policy.Tenant, false},
		{"both, by the tenant", demand(policy.Global, policy.Tenant), policy.Tenant, true},
	} {
		got := c.e.Denials(policy.Request{Artifacts: []policy.Artifact{{
			Source: "https://r.example/a", Signed: c.by == policy.Global, SignedForTenant: c.by == policy.Tenant,
		}}})
		if len(got) > 0 != c.denied {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}
