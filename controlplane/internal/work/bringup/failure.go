package bringup

import (
	"errors"
	"fmt"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/job"
)

// The failure classes of jobs on machines. Every family of jobs knows three of
// them; the others say what is wrong with a machine, its site or its agent.
const (
	InputConfigError                               = job.InputConfigError
	SiteCapabilityMissing         job.FailureClass = "site_capability_missing"
	UpstreamTransient                              = job.UpstreamTransient
	BMCPowerFailure               job.FailureClass = "bmc_power_failure"
	PXEDiscoveryFailure           job.FailureClass = "pxe_discovery_failure"
	HardwareMismatch              job.FailureClass = "hardware_mismatch"
	DeployInstallerFailure        job.FailureClass = "deploy_installer_failure"  // curtin did not get through
	DeployCloudInitFailure        job.FailureClass = "deploy_cloud_init_failure" // the first boot did not
	PostDeployConnectivityFailure job.FailureClass = "post_deploy_connectivity_failure"
	HardwareSyncFailure           job.FailureClass = "hardware_sync_failure"
	AgentEnrollmentFailure        job.FailureClass = "agent_enrollment_failure"
	NodeAgentUnreachable          job.FailureClass = "node_agent_unreachable"
	SanitizationFailure           job.FailureClass = "sanitization_failure"
	StateAmbiguity                                 = job.StateAmbiguity
)

// FailureClasses lists them, as the database knows them.
var FailureClasses = []job.FailureClass{
	InputConfigError, SiteCapabilityMissing, UpstreamTransient, BMCPowerFailure, PXEDiscoveryFailure, HardwareMismatch,
	DeployInstallerFailure, DeployCloudInitFailure, PostDeployConnectivityFailure, HardwareSyncFailure,
	AgentEnrollmentFailure, NodeAgentUnreachable, SanitizationFailure, StateAmbiguity,
}

// Classify gives an error of a stage its class. It judges by the kind of the
// fault, as every job does, except for what a site lacks and for the faults whose
// code says what they mean to a machine. Where MAAS refused something, or gave up,
// the failure says so in the words of MAAS.
func Classify(err error) *job.Failure {
	f := classify(err)
	if words := wordsOfMAAS(f.Cause); words != "" && !strings.Contains(f.Message, words) {
		f.Message += fmt.Sprintf("; MAAS says %q", words)
	}
	return f
}

func classify(err error) *job.Failure {
	var f *job.Failure
	if errors.As(err, &f) {
		return f
	}
	out := job.Classify(err)
	if kind := fault.KindOf(err); kind == fault.Unauthenticated || kind == fault.Forbidden {
		out.Class = SiteCapabilityMissing
	}
	if code := out.Code; code.Fault && code.Class != "" {
		out.Class = code.Class
		out.Final = code.Class != UpstreamTransient && code.Class != BMCPowerFailure
	}
	return out
}
