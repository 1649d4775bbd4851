package onboarding_test

import (
	"slices"
	"testing"

	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/onboarding"
)

func TestTheTableOfStagesIsSound(t *testing.T) {
	var names []string
	for _, s := range onboarding.Stages() {
		names = append(names, s.Name)
	}
	for i, s := range onboarding.Stages() {
		resume := slices.Index(names, s.Resume)
		if resume < 0 || resume > i {
			t.Errorf("%s resumes at %q", s.Name, s.Resume)
		}
		if s.Title == "" || s.Looks == "" || s.Does == "" || s.Expects == "" || s.Again == "" || s.OnCancel == "" ||
			s.Attempts < 1 || len(s.Fails) == 0 || s.Pseudo {
			t.Errorf("%s is incomplete: %+v", s.Name, s)
		}
		if s.Limit != "" && bringup.Limits(site.DefaultPolicy())[s.Limit] == 0 {
			t.Errorf("%s: no profile has the limit %s", s.Name, s.Limit)
		}
	}
	if _, known := onboarding.StageOf("nothing"); known {
		t.Error("there is a stage called nothing")
	}
}

// What the table names, package bringup carries out.
func TestEveryStageCanBeCarriedOut(t *testing.T) {
	can := bringup.New(bringup.Config{}).Stages()
	for _, s := range onboarding.Stages() {
		if can[s.Name] == nil {
			t.Errorf("nobody carries out %s", s.Name)
		}
	}
}
