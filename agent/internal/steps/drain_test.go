package steps

import (
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

func TestDrain(t *testing.T) {
	b := provisioned(t)
	b.terminals.open = map[string]string{"s1": "alice"}
	drain := b.job(agentwire.TypeDrain, agentwire.DrainParams{Reason: "maintenance"})
	drain.mustCheck(false)
	out := drain.apply().(agentwire.DrainOutput)
	if !out.Draining || out.SessionsClosed != 1 || !slices.Equal(out.UsersLeft, []string{"alice"}) {
		t.Errorf("output %+v", out)
	}
	drain.mustCheck(true)
	drain.apply()
	if !strings.Contains(b.Read("/var/lib/gpuaas/drain.json"), "maintenance") {
		t.Error("no mark")
	}
	b.job(agentwire.TypeTerminalOpen, session("alice")).applyFails("node_draining")

	revoke := b.job(agentwire.TypeDrain, agentwire.DrainParams{RevokeUsers: true})
	revoke.mustCheck(false)
	b.Fail("userdel")
	failure := revoke.applyFails("users_remain")
	if !strings.Contains(failure.Error(), "alice") {
		t.Errorf("failure %v", failure)
	}
	b.Heal("userdel")
	revoke.cancelIn("userdel")
	if out = revoke.apply().(agentwire.DrainOutput); !slices.Equal(out.UsersRevoked, []string{"alice"}) ||
		len(out.UsersLeft) != 0 {
		t.Errorf("output %+v", out)
	}
	revoke.mustCheck(true)

	resume := b.job(agentwire.TypeDrain, agentwire.DrainParams{Resume: true})
	resume.mustCheck(false)
	if out = resume.apply().(agentwire.DrainOutput); out.Draining {
		t.Errorf("output %+v", out)
	}
	resume.mustCheck(true)
	resume.apply()
	b.job(agentwire.TypeProvisionUser, alice()).apply()
}
