package job

import (
	"cmp"

	"gpuaas/controlplane/internal/engine/durable"
)

// causeOfCode says what is usually behind an error code. What is not listed is
// explained by its class.
var causeOfCode = map[string]string{ //nolint:gosec // sentences about credentials, not credentials
	"site_disabled":             "Somebody disabled the site after the machine was asked for.",
	"profile_disabled":          "Somebody disabled the profile after the machine was asked for.",
	"sku_unusable":              "The SKU was disabled or deleted after the machine was asked for.",
	"power_credentials_missing": "The site has no default BMC credentials, and no active power override is for this machine.",
	"site_credentials_missing":  "A credential of the site was never written, or was removed from the secrets engine.",
	"site_token_of_other_url":   "The address of MAAS was changed and the token was not written again since.",
	"nodes_url_missing":         "The control plane does not know under which address agents reach it.",
	"site_bundle_missing":       "The profile names a bootstrap bundle that was not put where the control plane reads bundles.",
	"site_bundle_ref_invalid":   "The profile names a bootstrap bundle in a form that cannot be read.",
	"site_bundle_unreadable":    "The control plane may not read the bootstrap bundle of the profile.",
	"site_bundle_unusable":      "The bootstrap bundle of the profile cannot be part of a first boot.",
	"network_boot_unavailable":  "MAAS cannot create the machine without its MAC, and nothing here may make it boot from the network.",

	"maas_unreachable":        "MAAS is down, overloaded, or cut off from the control plane.",
	"maas_token_invalid":      "The MAAS token of the site was revoked or replaced in MAAS.",
	"maas_forbidden":          "The MAAS token of the site belongs to somebody who is not an administrator there.",
	"maas_not_admin":          "The MAAS token of the site belongs to somebody who is not an administrator there.",
	"maas_busy":               "MAAS is overloaded: its database gives up on collisions.",
	"maas_server_error":       "MAAS met a defect or is overloaded; its log says more.",
	"maas_ambiguous":          "The connection to MAAS broke while it worked, so that nobody knows what it did.",
	"maas_address_in_use":     "Another machine has the address already.",
	"maas_image_invalid":      "The profile names an image in a form that MAAS does not know.",
	"maas_clock_skew":         "The clocks of MAAS and of the control plane differ by minutes, so that signed requests are refused.",
	"maas_tls":                "The certificate of MAAS has expired, or is signed by a CA that the site does not name.",
	"maas_not_maas":           "Something other than MAAS answers at the address of the site, such as a proxy.",
	"maas_address_refused":    "The name of MAAS leads to an address outside the networks that the site allows.",
	"maas_image_missing":      "The image of the profile was not imported into MAAS, or is still being imported.",
	"maas_image_mismatch":     "MAAS would install another image than the profile names: names of custom images match by their beginning.",
	"maas_rack_unavailable":   "The rack controller of the machine's network is down or not connected to the region.",
	"maas_bmc_failure":        "MAAS cannot talk to the BMC: wrong address or credentials, or IPMI over LAN is off.",
	"bmc_unreachable":         "The BMC does not answer: wrong address, IPMI over LAN is off, or a firewall is between.",
	"bmc_refused":             "The BMC refuses the credentials, or the account may not switch the machine.",
	"bmc_busy":                "The BMC has no session left; others hold them.",
	"bmc_failed":              "The BMC was asked and did not do it.",
	"maas_power_uncontrolled": "MAAS has no way to switch the machine: its power settings are incomplete.",
	"maas_machine_gone":       "Somebody deleted the machine in MAAS.",
	"maas_machine_locked":     "Somebody locked the machine in MAAS.",
	"maas_not_owner":          "Somebody else holds the machine in MAAS.",
	"maas_state_conflict":     "The machine was changed in MAAS by somebody else while this was running.",
	"maas_resurrected":        "MAAS shows a machine again that it had reported as gone.",
	"maas_field_errors":       "MAAS refuses a value, most often a host name or address that another machine has.",
	"machine_gone":            "Somebody deleted the machine in MAAS.",
	"machine_in_use":          "The machine found in MAAS is deployed or held by somebody else: the wrong host name or BMC address, or a machine that was never released.",
	"machine_hollow":          "MAAS shows the machine as deployed although nothing was installed on it: somebody brought it back from Broken.",
	"machine_not_deployed":    "Somebody released or redeployed the machine in MAAS.",
	"machine_not_free":        "Somebody uses the machine in MAAS for something else.",
	"machine_not_ready":       "Somebody changed the machine in MAAS while it was being prepared.",
	"machine_released":        "Somebody released the machine in MAAS.",
	"machine_bound":           "The machine in MAAS belongs to another node of the inventory.",
	"setting_unproven":        "MAAS broke off while a setting of the region was being written.",
	"machine_claimed":         "Two onboardings were led to one machine: by its host name, its BMC address or its PXE MAC, one of which is wrong.",
	"stage_lost":              "Workers of the control plane die in this stage, or what it calls takes longer than the stage may.",
	"node_conflict":           "The inventory has another node of the same name, left over from an earlier onboarding.",

	"discovery_conflict":  "The host name belongs to one machine of MAAS and the BMC address to another: one of them was given wrongly, or a machine was moved.",
	"discovery_ambiguous": "Several new machines appeared in MAAS at the same time, and nothing proves which one it is.",
	"discovery_busy":      "Machines of a site are looked for one after the other, and the place in that queue was lost: the database was away, or the credentials of MAAS were rotated.",
	"create_unproven":     "MAAS did not say whether it created the machine, and does not show it yet.",
	"discovery_timeout":   "The machine never asked for a network boot: boot order, cabling, the PXE VLAN or DHCP.",

	"failed_commission":         "A commissioning script failed: most often a broken disk, memory or NIC, or firmware that is too old.",
	"failed_commission_timeout": "The machine did not boot the commissioning image: boot order, cabling, the PXE VLAN, or it hangs in the firmware.",
	"boss_disk_not_found":       "The machine has no boot disk of the expected kind, or its controller does not show it.",
	"boss_disk_ambiguous":       "Several disks look like the boot disk, and choosing the wrong one would destroy data.",
	"commission_aborted":        "Somebody stopped the commissioning in MAAS.",
	"commission_unproven":       "MAAS did not say whether it began to commission the machine.",
	"storage_unproven":          "MAAS did not say whether it changed the disk layout.",
	"pxe_subnet_not_found":      "MAAS has no subnet on the VLAN of the PXE interface.",
	"pxe_interface_not_found":   "The machine has no interface of the name that the site or profile gives as its PXE interface.",
	"pxe_interface_unlinked":    "The PXE interface has no subnet in MAAS: the cable is in the wrong port, or the VLAN of the port is wrong.",

	"deploy_failed":            "The installer failed; its log in MAAS says where.",
	"deploy_failed_datasource": "The installed system did not reach the metadata server of MAAS at its first boot: network or DNS on the deploy interface.",
	"deploy_aborted":           "Somebody stopped the installation in MAAS.",
	"deployed_meanwhile":       "Somebody deployed the machine in MAAS while it was being prepared here.",
	"allocate_failed":          "MAAS would not give the machine to this job: somebody holds it, or a pool or constraint is in the way.",
	"annotate_failed":          "MAAS would not keep the mark by which this job knows its machine.",
	"first_boot_missing":       "The prepared first boot is gone from the secrets engine.",
	"first_boot_changed":       "The prepared first boot in the secrets engine is not the one that was made.",
	"abort_failed":             "MAAS does not stop the installation.",
	"release_failed":           "MAAS does not begin to release the machine.",
	"release_stuck":            "The machine hangs while MAAS releases it: most often its BMC, or a disk that cannot be erased.",
	"release_power_on":         "MAAS cannot switch the machine to release it.",
	"release_erase_failed":     "A disk cannot be erased: it is broken, or does not know the command.",
	"release_erase_unproven":   "MAAS released the machine although its erasing failed or was skipped, or its events are gone.",
	"released_elsewhere":       "Somebody released the machine in MAAS.",
	"erase_unknown":            "The job was asked for by a release that knew another way to erase disks.",
	"erase_below_minimum":      "The minimum of the profile was raised after the job was asked for.",
	"machine_unbound":          "The node was added by hand, or what ties it to its machine was removed.",
	"machine_replaced":         "The machine was removed from MAAS and another one has its place, or it was given another name and BMC.",
	"record_not_removed":       "MAAS refuses to delete the machine, or somebody added it anew at once.",
	"deploy_timeout":           "The installation takes longer than the profile allows, or the machine hangs at its first boot.",

	"ssh_no_address":           "MAAS reports no address of the deployed machine: its interface got none.",
	"ssh_unreachable":          "Nothing answers at port 22 of the deployed machine: a firewall, the wrong interface, or the machine is still booting.",
	"ssh_refused":              "The deploy user cannot log in: the first boot has not made the account, or logins by key are off in the image.",
	"ssh_no_login":             "There is no key to the machine: it was deployed by somebody else, or its agent has enrolled and the key was destroyed.",
	"login_not_locked":         "The agent could not lock the account that the machine was set up by.",
	"hw_sync_program_missing":  "MAAS does not hand out the program that reports hardware, so that it cannot be pinned.",
	"ssh_command_failed":       "The deploy user may not do what is needed: no sudo, or the image lacks the MAAS agent.",
	"ssh_host_key_changed":     "The machine shows another SSH key than it was given: it was installed anew, or another one answers in its place.",
	"maas_machine_token_unset": "MAAS has not issued a token for the machine yet.",
	"failed_hw_sync_seed":      "MAAS did not issue a token for the machine: hardware sync is off for this deployment.",
	"failed_hw_sync_health":    "The timer of hardware sync does not run on the machine, or the machine cannot reach MAAS.",
	"hw_sync_disabled":         "The machine was deployed without hardware sync, which MAAS enables only when it deploys: somebody else deployed it, or the profile was changed since.",
	"failed_enrollment":        "The agent cannot reach the control plane from the machine: DNS, routing, a firewall or a proxy.",
	"enrollment_identity_void": "Another machine, or another key, came with the token of this machine: it was read off the network or the disk, or MAAS knows other hardware than the machine has.",
	"site_bootstrap_failed":    "The bootstrap bundle of the site failed at the first boot; ours did not get its turn.",
	"gpuaas_bootstrap_failed":  "A layer of our first boot failed; the details name it.",

	"nothing_to_adopt": "MAAS shows nothing that is provably this machine and further along.",
	"operator_marked":  "An operator stopped automation.",
	"enrolled_late":    "The agent reported after all, when nobody waited for it any more.",
	"hw_sync_unproven": "The agent reported, but no healthy hardware sync was seen.",
	"worker_killed":    "The worker was killed while it executed the stage.",
	"stage_defect":     "A defect of the control plane.",
}

// causeOfClass says what is usually behind a class of failures.
var causeOfClass = map[durable.FailureClass]string{
	durable.InputConfigError:              "What was asked for, or the configuration of the site, cannot work as it is.",
	durable.SiteCapabilityMissing:         "Something that the site must have is missing: a credential, an image, a right in MAAS.",
	durable.UpstreamTransient:             "MAAS, the secrets engine or the network between was not available for a while.",
	durable.BMCPowerFailure:               "The BMC does not answer or does not obey: address, credentials, IPMI over LAN, or the machine has no power.",
	durable.PXEDiscoveryFailure:           "The machine does not boot from the network: boot order, cabling, the PXE VLAN or DHCP.",
	durable.HardwareMismatch:              "The machine is not built as the profile expects, or a part of it is broken.",
	durable.DeployCloudInitFailure:        "The operating system could not be installed, or its first boot failed.",
	durable.PostDeployConnectivityFailure: "The machine is installed but cannot be reached over its deploy interface.",
	durable.HardwareSyncFailure:           "The machine is installed but does not report its hardware to MAAS.",
	durable.AgentEnrollmentFailure:        "The machine is installed but its agent has not reported to the control plane.",
	durable.NodeAgentUnreachable:          "The machine is off, cut off from the network, or its agent does not run.",
	durable.SanitizationFailure:           "Something of a tenant is left on the node, or a device does not do what it was told.",
	durable.StateAmbiguity:                "What MAAS shows does not fit what was done here: somebody changed the machine by hand, or an answer was lost.",
}

// likelyCause is what is usually behind the failure of a job; empty when it did
// not fail.
func (f *Family[R]) likelyCause(j Job) string {
	if j.FailureClass == "" {
		return ""
	}
	return cmp.Or(f.Causes[j.ErrorCode], causeOfCode[j.ErrorCode], causeOfClass[j.FailureClass])
}
