package bringup

import "gpuaas/controlplane/internal/work/job"

// What the faults of adapters and nouns mean to a machine that is being worked
// on. Classify judges a fault that has no class here, or is not listed, by its
// kind.
var (
	_ = job.DeclareCode(job.Code{
		Name: "site_disabled", Class: InputConfigError, Fault: true,
		Cause:   "Somebody disabled the site after the machine was asked for.",
		Remedy:  "enable the site: gpuaas site enable SITE; or cancel",
		Runbook: "maas-site-not-ready",
	})
	_ = job.DeclareCode(job.Code{
		Name: "profile_disabled", Class: InputConfigError, Fault: true,
		Cause:   "Somebody disabled the profile after the machine was asked for.",
		Remedy:  "enable the profile, or cancel and ask again with another one",
		Runbook: "maas-site-not-ready",
	})
	_ = job.DeclareCode(job.Code{
		Name: "power_credentials_missing", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The site has no default BMC credentials, and no active power override is for this machine.",
		Remedy:  "write BMC credentials of the site, or add a power override for the machine, then resume",
		Runbook: "maas-credentials",
	})
	_ = job.DeclareCode(job.Code{
		Name: "bmc_outside_networks", Class: InputConfigError, Fault: true,
		Cause:   "The BMC address is outside the site's BMC networks, so gpuaas sends no credentials to it.",
		Remedy:  "cancel and ask again with the right address; or let an administrator list the network: gpuaas site update SITE --bmc-network NETWORK, then resume",
		Runbook: "maas-credentials",
	})
	_ = job.DeclareCode(job.Code{
		Name: "site_credentials_missing", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "A credential of the site was never written, or was removed from the secrets engine.",
		Remedy:  "write the credentials of the site: gpuaas site credentials set SITE, then resume",
		Runbook: "maas-credentials",
	})
	_ = job.DeclareCode(job.Code{
		Name: "site_token_of_other_url", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The address of MAAS was changed and the token was not written again since.",
		Remedy:  "write the MAAS token of the site again: gpuaas site credentials set SITE, then resume",
		Runbook: "maas-credentials",
	})
	_ = job.DeclareCode(job.Code{
		Name: "nodes_url_missing", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The control plane does not know under which address agents reach it.",
		Remedy:  "set nodes.url of the control plane, then resume",
		Runbook: "agent-cannot-connect",
	})
	_ = job.DeclareCode(job.Code{
		Name: "commit_outcome_unknown", Class: UpstreamTransient, Fault: true,
		Cause:   "The connection to the database broke while a change was committed.",
		Remedy:  "do nothing: the stage checks what was done, then repeats the rest",
		Runbook: "postgres-unavailable",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_unreachable", Fault: true,
		Cause:   "MAAS is down, overloaded, or cut off from the control plane.",
		Remedy:  "bring MAAS back, then resume",
		Runbook: "maas-unreachable",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_token_invalid", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The MAAS token of the site was revoked or replaced in MAAS.",
		Remedy:  "write a valid MAAS token: gpuaas site credentials set SITE --maas-token-file FILE, then resume",
		Runbook: "maas-credentials",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_forbidden", Class: SiteCapabilityMissing, Fault: true,
		Cause: "The MAAS token of the site belongs to somebody who is not an administrator there.",
		Remedy: "write the token of a MAAS administrator: gpuaas site credentials set SITE " +
			"--maas-token-file FILE, then resume",
		Runbook: "maas-credentials",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_busy", Fault: true,
		Cause:   "MAAS is overloaded: its database aborts conflicting transactions.",
		Remedy:  "wait until MAAS has less to do, then resume",
		Runbook: "maas-unreachable",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_server_error", Fault: true,
		Cause:   "MAAS met a defect or is overloaded; its log says more.",
		Remedy:  "look at the log of MAAS, then resume",
		Runbook: "maas-unreachable",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_ambiguous", Fault: true,
		Cause:   "The connection to MAAS broke during a request, so it is not known whether MAAS did it.",
		Remedy:  "check the machine in MAAS, then retry: the stage first checks what was done",
		Runbook: "maas-unreachable",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_address_in_use", Fault: true,
		Cause:   "Another machine has the address already.",
		Remedy:  "find out which machine has the address, and correct it in MAAS or in the assignment, then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_image_invalid", Class: InputConfigError, Fault: true,
		Cause:   "The profile names an image in a form that MAAS does not know.",
		Remedy:  "correct distro_series of the profile, then rerun",
		Runbook: "maas-site-not-ready",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_clock_skew", Class: SiteCapabilityMissing, Fault: true,
		Cause: "The clocks of MAAS and of the control plane differ by minutes, so that signed requests " +
			"are refused.",
		Remedy:  "set the clocks of MAAS and of the control plane, then resume",
		Runbook: "maas-credentials",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_tls", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The certificate of MAAS has expired, or is signed by a CA that the site does not name.",
		Remedy:  "renew the certificate of MAAS, or give the site its CA, then resume",
		Runbook: "maas-unreachable",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_not_maas", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "Something other than MAAS answers at the address of the site, such as a proxy.",
		Remedy:  "correct the address of the site, or what answers there, then resume",
		Runbook: "maas-unreachable",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_address_refused", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The name of MAAS leads to an address outside the networks that the site allows.",
		Remedy:  "correct the address of the site, or the networks that it allows, then resume",
		Runbook: "maas-unreachable",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_url_invalid", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The address of the site is not one that MAAS can have.",
		Remedy:  "correct the address of the site, then resume",
		Runbook: "maas-unreachable",
	})
	codeImageMissing = job.DeclareCode(job.Code{
		Name: "maas_image_missing", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The image of the profile was not imported into MAAS, or is still being imported.",
		Remedy:  "import or upload the image in MAAS, or correct the profile, then resume",
		Runbook: "maas-site-not-ready",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_image_mismatch", Class: SiteCapabilityMissing, Fault: true,
		Cause: "MAAS would install another image than the profile names: names of custom images match by " +
			"their beginning.",
		Remedy:  "name the image of the profile in full, or rename the other one in MAAS, then resume",
		Runbook: "maas-site-not-ready",
	})
	codeRackUnavailable = job.DeclareCode(job.Code{
		Name: "maas_rack_unavailable", Class: UpstreamTransient, Fault: true,
		Cause:   "The rack controller of the machine's network is down or not connected to the region.",
		Remedy:  "bring the rack controller of MAAS back, then resume",
		Runbook: "maas-site-not-ready",
	})
	codeBMCFailure = job.DeclareCode(job.Code{
		Name: "maas_bmc_failure", Class: BMCPowerFailure, Fault: true,
		Cause:   "MAAS cannot talk to the BMC: wrong address or credentials, or IPMI over LAN is off.",
		Remedy:  "check the BMC credentials, its address and its network, then retry the stage",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_power_uncontrolled", Class: BMCPowerFailure, Fault: true,
		Cause:   "MAAS cannot switch the machine on or off: its power settings are incomplete.",
		Remedy:  "give the machine its power settings in MAAS, then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_machine_gone", Class: StateAmbiguity, Fault: true,
		Cause:   "Somebody deleted the machine in MAAS.",
		Remedy:  "find out who removed it; rerun looks for it again, cancel gives up",
		Runbook: "decommission-parked",
	})
	codeMachineLocked = job.DeclareCode(job.Code{
		Name: "maas_machine_locked", Class: StateAmbiguity, Fault: true,
		Cause:   "Somebody locked the machine in MAAS.",
		Remedy:  "find out who locked the machine in MAAS and why; unlock it, then rerun",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.Rerun},
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_not_owner", Class: StateAmbiguity, Fault: true,
		Cause:   "Somebody else holds the machine in MAAS.",
		Remedy:  "find out in MAAS who holds the machine; once it is free, rerun",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_state_conflict", Class: StateAmbiguity, Fault: true,
		Cause:   "The machine was changed in MAAS by somebody else while this was running.",
		Remedy:  "find out who changed the machine in MAAS, then rerun",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_resurrected", Class: StateAmbiguity, Fault: true,
		Cause:   "MAAS shows a machine again that it had reported as gone.",
		Remedy:  "look at the machine in MAAS; adopt it if it is the right one, else rerun",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_field_errors", Class: InputConfigError, Fault: true,
		Cause:   "MAAS refuses a value, most often a host name or address that another machine has.",
		Remedy:  "correct the value that MAAS names, in the request or in MAAS, then rerun",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "bmc_unreachable", Class: BMCPowerFailure, Fault: true,
		Cause:   "The BMC does not answer: wrong address, IPMI over LAN is off, or a firewall is between.",
		Remedy:  "check the address of the BMC, IPMI over LAN and the network between, then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "bmc_refused", Class: BMCPowerFailure, Fault: true,
		Cause:   "The BMC refuses the credentials, or the account may not switch the machine.",
		Remedy:  "correct the BMC credentials of the site or the power override, then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "bmc_busy", Fault: true,
		Cause:   "All sessions of the BMC are in use.",
		Remedy:  "end other sessions on the BMC, or wait, then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "bmc_failed", Class: BMCPowerFailure, Fault: true,
		Cause:   "The BMC did not carry out the command.",
		Remedy:  "look at the BMC, then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "ssh_unreachable", Fault: true,
		Cause: "Nothing answers at port 22 of the deployed machine: a firewall, the wrong interface, or " +
			"the machine is still booting.",
		Remedy:  "check route and firewall to the machine and nodes.ssh_proxy, then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "ssh_refused", Fault: true,
		Cause: "The deploy user cannot log in: the first boot did not create the account, or SSH key logins " +
			"are off in the image.",
		Remedy:  "check the first boot log on the machine and that the image allows SSH keys, then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "ssh_command_failed", Fault: true,
		Cause:   "The deploy user may not do what is needed: no sudo, or the image lacks the MAAS agent.",
		Remedy:  "look at the machine: the deploy user needs sudo and the image the MAAS agent; then retry",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "ssh_host_key_changed", Fault: true,
		Cause: "The SSH host key is not the one this machine was given: it was reinstalled, or another " +
			"machine answers in its place.",
		Remedy: "find out who answers at the address of the machine; once the machine itself does, retry the " +
			"stage; if somebody reinstalled it, restart clean to install it again",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.RetryStage},
	})
	_ = job.DeclareCode(job.Code{
		Name: "maas_machine_token_unset", Fault: true,
		Cause:   "MAAS has not issued a token for the machine yet.",
		Remedy:  "look at the machine's events in MAAS, then retry",
		Runbook: "onboarding-parked",
	})
)
