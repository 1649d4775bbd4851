package policy_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/operate/policy"
)

// Whoever is refused reads who refused it, why in the words of who did, and how to see
// more from where they stand.
func TestWhoeverIsRefusedReadsWhy(t *testing.T) {
	off := level(policy.Tenant, policy.Values{Enabled: new(false)})
	off.Reason = "ask the platform team"
	e := resolve(level(policy.Global, policy.Values{Enabled: new(true)}), off)
	if d := decision(e, policy.Enabled); d.Reason != off.Reason {
		t.Errorf("%+v", d)
	}
	_, err := policy.Check(t.Context(), nil, e, policy.Request{
		Operation: "web.prepare@v1", Type: "web.prepare", OrgID: "o", ProjectID: "p",
	}, nil)
	f, ok := fault.As(err)
	if !ok || !strings.Contains(f.Message, "the tenant has disabled web.prepare: ask the platform team") ||
		!strings.HasSuffix(f.Remedy, "explain web.prepare --project p") {
		t.Errorf("%v %+v", err, f)
	}
	denied := level(policy.Global, policy.Values{HardDeny: true})
	_, err = policy.Check(t.Context(), nil, resolve(denied, off), policy.Request{
		Operation: "web.prepare@v1", Type: "web.prepare",
	}, nil)
	if f, ok := fault.As(err); !ok || strings.Contains(f.Message, "ask") || !strings.HasSuffix(f.Remedy, "--global") {
		t.Errorf("%v", err)
	}
}
