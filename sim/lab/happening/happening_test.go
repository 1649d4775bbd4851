package happening_test

import (
	"slices"
	"strings"
	"testing"

	"gpuaas/sim/lab/happening"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// TestTable compares the table with what a region and a plan of faults can do.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range happening.All() {
		if h.What == "" || h.Label == "" || !strings.HasSuffix(h.Explanation, ".") || seen[h.What] {
			t.Errorf("%+v says too little, or is there twice", h)
		}
		seen[h.What] = true
		if found, known := happening.Named(h.What); !known || found.Label != h.Label {
			t.Errorf("%s is found as %+v", h.What, found)
		}
		if told := h.Tell("gpu-1"); !strings.Contains(told, "gpu-1") || strings.Contains(told, "%!") {
			t.Errorf("%s tells %q", h.What, told)
		}
		if !h.Lasts {
			if !slices.Contains(region.Happenings, h.Befalls) {
				t.Errorf("%s is nothing that a region knows", h.What)
			}
			continue
		}
		plan := fault.NewPlan(1)
		if _, err := plan.Add(h.Rule); err != nil {
			t.Errorf("%s: %v", h.What, err)
		}
		if words := happening.Words(plan.Rules()); !slices.Equal(words, []string{h.What}) {
			t.Errorf("the rule of %s is called %v", h.What, words)
		}
	}
}

func TestFailure(t *testing.T) {
	for word, what := range map[string]string{
		"deploy": "deploy", "release": "release-fails",
		"power-off": "power-off-fails", "erase-hangs": "erase-hangs", "broken": "broken",
	} {
		if h, possible := happening.Failure(word); !possible || h.What != what ||
			!slices.Contains(happening.Failing(), word) {
			t.Errorf("%s means %q", word, h.What)
		}
	}
	for _, word := range []string{"delete", "change-ip", ""} {
		if h, possible := happening.Failure(word); possible {
			t.Errorf("%q means %q", word, h.What)
		}
	}
	if _, possible := happening.Named("hope"); possible {
		t.Error("hope can happen")
	}
}

func TestWords(t *testing.T) {
	words := happening.Words([]fault.Rule{
		{Fault: fault.PhaseFails, Phase: region.PhaseInstall, Machine: "gpu-?"},
		{Fault: fault.PhaseFails, Phase: region.PhaseInstall},
		{Fault: fault.Slow, Operation: "machine.get"},
		{Fault: fault.PhaseDrags, Phase: region.PhaseInstall},
	})
	if want := []string{"deploy", "phase_drags install", "slow machine.get"}; !slices.Equal(words, want) {
		t.Errorf("%q, want %q", words, want)
	}
	if happening.Words(nil) == nil {
		t.Error("nothing is no list")
	}
}
