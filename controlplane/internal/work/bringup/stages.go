package bringup

import (
	"context"

	"gpuaas/controlplane/internal/work/job"
)

// catalog holds the stages of this package. Each stage declares itself in
// stage_<name>.go; the families of jobs choose which of them they go through, and
// in which order.
var catalog job.Catalog[func(*Bringup, context.Context, *Work) (Result, error)]

// The families of jobs on machines, by their nouns. The action that repairs a
// failure may differ between them.
const (
	Onboarding   = "onboarding"
	Decommission = "decommission"
)

// The failures that several stages share.
var (
	MAASAway     = job.FailsWith(UpstreamTransient, "MAAS or the secrets engine cannot be reached")
	OutOfBand    = job.FailsWith(StateAmbiguity, "the machine was changed, removed or taken by somebody else")
	NotCapable   = job.FailsWith(SiteCapabilityMissing, "MAAS refuses the token or lacks what the profile needs")
	BMCSilent    = job.FailsWith(BMCPowerFailure, "the BMC cannot be reached or refuses the credentials")
	noWayToReach = job.FailsWith(PostDeployConnectivityFailure, "the machine cannot be reached over SSH")
	notInstalled = job.FailsWith(DeployInstallerFailure, "the installer failed or took too long")
	notBooted    = job.FailsWith(DeployCloudInitFailure, "the first boot of the installed system did not reach MAAS")
)

// MachineStage finds a stage of this package by its name, for a family whose jobs
// go through it. The family says what a cancel undoes. It panics if there is no
// such stage.
func MachineStage(name string) job.Stage { return catalog.Of(name) }

// AfterDeployment lists the stages between a proven deployment and a node, in
// order. Onboardings, reimages and adoptions go through all of them.
var AfterDeployment = []string{EnsureHardwareSyncConfigured, WaitForHardwareSyncHealthy, WaitForAgentEnrollment}

// Stages returns the functions that perform the stages, by the names of the
// stages.
func (b *Bringup) Stages() map[string]Stage {
	stages := map[string]Stage{}
	for _, name := range catalog.Names() {
		perform, _ := catalog.Performer(name)
		stages[name] = b.doubting(func(ctx context.Context, w *Work) (Result, error) { return perform(b, ctx, w) })
	}
	return stages
}
