package bringup

import (
	"errors"

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
	DeployCloudInitFailure        job.FailureClass = "deploy_cloud_init_failure"
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
	DeployCloudInitFailure, PostDeployConnectivityFailure, HardwareSyncFailure, AgentEnrollmentFailure,
	NodeAgentUnreachable, SanitizationFailure, StateAmbiguity,
}

// classes says what the faults of adapters and nouns mean to a machine that is
// being brought up. What is not listed is judged by its kind.
var classes = map[string]job.FailureClass{
	"maas_token_invalid":        SiteCapabilityMissing,
	"maas_forbidden":            SiteCapabilityMissing,
	"maas_clock_skew":           SiteCapabilityMissing,
	"maas_tls":                  SiteCapabilityMissing,
	"maas_not_maas":             SiteCapabilityMissing,
	"maas_address_refused":      SiteCapabilityMissing,
	"maas_url_invalid":          SiteCapabilityMissing,
	"maas_image_missing":        SiteCapabilityMissing,
	"maas_image_mismatch":       SiteCapabilityMissing,
	"maas_rack_unavailable":     UpstreamTransient,
	"maas_bmc_failure":          BMCPowerFailure,
	"maas_power_uncontrolled":   BMCPowerFailure,
	"maas_machine_gone":         StateAmbiguity,
	"maas_machine_locked":       StateAmbiguity,
	"maas_not_owner":            StateAmbiguity,
	"maas_state_conflict":       StateAmbiguity,
	"maas_resurrected":          StateAmbiguity,
	"maas_field_errors":         InputConfigError,
	"maas_image_invalid":        InputConfigError,
	"power_credentials_missing": SiteCapabilityMissing,
	"site_credentials_missing":  SiteCapabilityMissing,
	"site_token_of_other_url":   SiteCapabilityMissing,
	"site_disabled":             InputConfigError,
	"profile_disabled":          InputConfigError,
	"bmc_unreachable":           BMCPowerFailure,
	"bmc_refused":               BMCPowerFailure,
	"bmc_failed":                BMCPowerFailure,
	"nodes_url_missing":         SiteCapabilityMissing,
	"commit_outcome_unknown":    UpstreamTransient, // stages look first and may be repeated
}

// Classify gives an error of a stage its class: as every job does, but for the
// codes that mean something else to a machine, and what a site lacks.
func Classify(err error) *job.Failure {
	var f *job.Failure
	if errors.As(err, &f) {
		return f
	}
	out := job.Classify(err)
	if kind := fault.KindOf(err); kind == fault.Unauthenticated || kind == fault.Forbidden {
		out.Class = SiteCapabilityMissing
	}
	if class, known := classes[out.Code]; known {
		out.Class = class
		out.Final = class != UpstreamTransient && class != BMCPowerFailure
	}
	return out
}
