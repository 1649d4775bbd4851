package bringup

import "gpuaas/controlplane/internal/work/job"

// ClassCauses say what is usually behind a class of failures whose code does not
// tell it.
var ClassCauses = map[job.FailureClass]string{
	InputConfigError:              "The request, or the configuration of the site, cannot work as it is.",
	SiteCapabilityMissing:         "Something that the site needs is missing: a credential, an image, a right in MAAS.",
	UpstreamTransient:             "MAAS, the secrets engine or the network between them was unavailable for a while.",
	BMCPowerFailure:               "The BMC does not answer or does not obey: address, credentials, IPMI over LAN, or the machine has no power.",
	PXEDiscoveryFailure:           "The machine does not boot from the network: boot order, cabling, the PXE VLAN or DHCP.",
	HardwareMismatch:              "The machine is not built as the profile expects, or a part of it is broken.",
	DeployInstallerFailure:        "The operating system could not be installed.",
	DeployCloudInitFailure:        "The operating system could not be installed, or its first boot failed.",
	PostDeployConnectivityFailure: "The machine is installed but cannot be reached over its deploy interface.",
	HardwareSyncFailure:           "The machine is installed but does not report its hardware to MAAS.",
	AgentEnrollmentFailure:        "The machine is installed but its agent has not reported to the control plane.",
	NodeAgentUnreachable:          "The machine is off, cut off from the network, or its agent does not run.",
	SanitizationFailure:           "Tenant data is left on the node, or a device does not do what it is told.",
	StateAmbiguity:                "What MAAS shows does not match what was done here: somebody changed the machine by hand, or an answer was lost.",
}
