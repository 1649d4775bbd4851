package bringup

import "gpuaas/controlplane/internal/work/job"

// ClassCauses say what is usually behind a class of failures whose code does not
// tell it.
var ClassCauses = map[job.FailureClass]string{
	InputConfigError:              "The request or the site configuration is wrong.",
	SiteCapabilityMissing:         "The site lacks a credential, an image or a permission in MAAS.",
	UpstreamTransient:             "MAAS, the secrets engine or the network between them was unavailable for a while.",
	BMCPowerFailure:               "The BMC does not answer or does not switch the machine on or off: its address or credentials are wrong, IPMI over LAN is off, or the machine has no power.",
	PXEDiscoveryFailure:           "The machine does not boot from the network: its boot order, cabling, PXE VLAN or DHCP is wrong.",
	HardwareMismatch:              "The hardware is not what the profile expects, or a part of it has failed.",
	DeployInstallerFailure:        "The operating system could not be installed.",
	DeployCloudInitFailure:        "The operating system could not be installed, or its first boot failed.",
	PostDeployConnectivityFailure: "The machine is installed but cannot be reached over its deploy interface.",
	HardwareSyncFailure:           "The machine is installed but does not report its hardware to MAAS.",
	AgentEnrollmentFailure:        "The machine is installed but its agent has not reported to the control plane.",
	NodeAgentUnreachable:          "The machine is off, cut off from the network, or its agent does not run.",
	SanitizationFailure:           "Tenant data is left on the node, or a device did not carry out its cleaning command.",
	StateAmbiguity:                "The node is not in the state that this job expects: somebody or something else changed it, or a response was lost.",
}
