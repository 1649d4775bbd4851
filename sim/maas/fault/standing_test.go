package fault_test

import (
	"testing"

	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

func TestStandingAndSpare(t *testing.T) {
	first, second := region.Ref{SystemID: "aaa111", Hostname: "gpu-1", BMC: "10.0.0.1"},
		region.Ref{SystemID: "bbb222", Hostname: "gpu-2", BMC: "10.0.0.2"}
	plan := fault.NewPlan(1)
	for _, r := range []fault.Rule{
		{Machine: "gpu-1", Fault: fault.FailDeploy},
		{Machine: "10.0.0.2", Fault: fault.BMCFailure},
		{Machine: "gpu-?", Fault: fault.FailErase},
		{Machine: "gpu-1", Fault: fault.FailTesting, Count: 1},
		{Fault: fault.NoSync},
		{Fault: fault.Slow, Operation: "machines.get"}, // of MAAS, not of a machine
	} {
		if _, err := plan.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	count := func(m region.Ref, want int) {
		t.Helper()
		if standing := plan.Standing(m); len(standing) != want {
			t.Errorf("%d rules stand for %s, want %d: %+v", len(standing), m.Hostname, want, standing)
		}
	}
	fails := func(m region.Ref, phase string, want bool) {
		t.Helper()
		if fate := plan.Phase(m, phase); fate.Fail != want {
			t.Errorf("%s of %s: %+v", phase, m.Hostname, fate)
		}
	}
	count(first, 4)
	count(second, 3)
	fails(first, region.PhaseTests, true)
	count(first, 3) // it strikes once
	if n := plan.Spare(first); n != 3 {
		t.Errorf("spared %d", n)
	}
	count(first, 0)
	count(second, 3)
	fails(first, region.PhaseInstall, false)
	fails(first, region.PhaseErase, false)
	fails(first, region.PhaseSync, false)
	fails(second, region.PhaseErase, true)
	fails(second, region.PhaseSync, true)
	if n := plan.Spare(first); n != 0 {
		t.Errorf("spared %d more", n)
	}
	if n := plan.Spare(second); n != 3 {
		t.Errorf("spared %d", n)
	}
	if err := plan.Power(second, "on"); err != nil {
		t.Error(err)
	}
}
