package steps

import (
	"os"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

func handedOver() agentwire.ProvisionUserParams {
	p := alice()
	p.Handover = &agentwire.Handover{
		Project: "p1", Node: "c07u31", SKU: "h200-sxm-baremetal-8g", GPUs: 8, ExpiresAt: "2026-12-01T00:00:00Z",
	}
	return p
}

// The tenant reads at login what was handed over, and what ends with it.
func TestHandoverIsWritten(t *testing.T) {
	b := newBench(t)
	b.InstallAccounts()
	b.Write("/bin/bash", "#!")
	if err := os.Chmod(b.Path("/bin/bash"), 0o755); err != nil {
		t.Fatal(err)
	}
	j := b.job(agentwire.TypeProvisionUser, handedOver())
	if out := j.apply().(agentwire.ProvisionUserOutput); !out.LoginChecked {
		t.Error("the account cannot be used")
	}
	j.mustCheck(true)
	env := b.Read("/home/alice/.gpuaas/allocation.env")
	for _, line := range []string{
		"GPUAAS_ALLOCATION_ID=" + allocation, "GPUAAS_PROJECT=p1", "GPUAAS_NODE=c07u31",
		"GPUAAS_SKU=h200-sxm-baremetal-8g", "GPUAAS_GPUS=8", "GPUAAS_EXPIRES_AT=2026-12-01T00:00:00Z",
	} {
		if !strings.Contains(env, line+"\n") {
			t.Errorf("no %s in\n%s", line, env)
		}
	}
	note := b.Read("/home/alice/.gpuaas/message")
	if !strings.Contains(note, "8 GPUs") || !strings.Contains(note, "erased") {
		t.Errorf("the message is %q", note)
	}
	j.apply()
	if got := b.Read("/home/alice/.profile"); strings.Count(got, "allocation.env") != 2 { // tested, then read
		t.Errorf("the profile is %q", got)
	}
	if err := os.Chmod(b.Path("/bin/bash"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := j.apply().(agentwire.ProvisionUserOutput); out.LoginChecked {
		t.Error("a shell that cannot be started was called usable")
	}
}

// The profile is the tenant's: what is there stays, and a link leads nowhere.
func TestAttackAProfileThatIsALink(t *testing.T) {
	b := provisioned(t)
	b.Write("/etc/victim", "root's own\n")
	if err := os.Symlink(b.Path("/etc/victim"), b.Path("/home/alice/.profile")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(b.Path("/etc"), b.Path("/home/alice/.gpuaas")); err != nil {
		t.Fatal(err)
	}
	before := entries(t, b.Path("/etc"))
	b.job(agentwire.TypeProvisionUser, handedOver()).apply()
	if info, err := os.Lstat(b.Path("/home/alice/.gpuaas")); err != nil || !info.IsDir() {
		t.Errorf("the link was not moved aside: %v, %v", info, err)
	}
	if after := entries(t, b.Path("/etc")); after != before {
		t.Errorf("/etc had %d entries, and has %d", before, after)
	}
	if got := b.Read("/etc/victim"); got != "root's own\n" {
		t.Errorf("the file of root is %q", got)
	}
}

func TestAProfileOfTheTenantIsKept(t *testing.T) {
	b := provisioned(t)
	b.Write("/home/alice/.profile", "umask 027\n")
	b.job(agentwire.TypeProvisionUser, handedOver()).apply()
	if got := b.Read("/home/alice/.profile"); !strings.HasPrefix(got, "umask 027\n") || !strings.Contains(got, ".gpuaas") {
		t.Errorf("the profile is %q", got)
	}
}

func entries(t *testing.T, folder string) int {
	t.Helper()
	all, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
