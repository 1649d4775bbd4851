package durable

// FailureClass says what went wrong as far as it decides what may be done about
// it. Classes are chosen where a failure is met, never read from its text.
type FailureClass string

// The failure classes.
const (
	InputConfigError              FailureClass = "input_config_error"
	SiteCapabilityMissing         FailureClass = "site_capability_missing"
	UpstreamTransient             FailureClass = "upstream_transient"
	BMCPowerFailure               FailureClass = "bmc_power_failure"
	PXEDiscoveryFailure           FailureClass = "pxe_discovery_failure"
	HardwareMismatch              FailureClass = "hardware_mismatch"
	DeployCloudInitFailure        FailureClass = "deploy_cloud_init_failure"
	PostDeployConnectivityFailure FailureClass = "post_deploy_connectivity_failure"
	HardwareSyncFailure           FailureClass = "hardware_sync_failure"
	AgentEnrollmentFailure        FailureClass = "agent_enrollment_failure"
	NodeAgentUnreachable          FailureClass = "node_agent_unreachable"
	SanitizationFailure           FailureClass = "sanitization_failure"
	StateAmbiguity                FailureClass = "state_ambiguity"
)

// FailureClasses lists them, as the database knows them.
var FailureClasses = []FailureClass{
	InputConfigError, SiteCapabilityMissing, UpstreamTransient, BMCPowerFailure, PXEDiscoveryFailure, HardwareMismatch,
	DeployCloudInitFailure, PostDeployConnectivityFailure, HardwareSyncFailure, AgentEnrollmentFailure,
	NodeAgentUnreachable, SanitizationFailure, StateAmbiguity,
}
