package faults

// Family is a kind of job.
type Family string

// The families.
const (
	Onboarding   Family = "onboarding"
	Decommission Family = "decommission"
	Allocation   Family = "allocation"
)

// Families lists them in the order of the report.
var Families = []Family{Onboarding, Decommission, Allocation}

// Section is a stage of a family, or of one mode of it, as the report shows it.
type Section struct {
	Family Family
	Mode   string // of a decommission or an allocation
	Stage  string
}

// Title is what the section is called.
func (s Section) Title() string {
	if s.Mode == "" {
		return s.Stage
	}
	return s.Mode + "/" + s.Stage
}

// The stages of onboardings, most of which decommissions have, too.
const (
	loadSite     = "load_site_config"
	resolvePower = "resolve_power_credentials"
	findMachine  = "create_or_find_in_maas"
	commission   = "commission_node"
	waitReady    = "wait_for_ready"
	storage      = "configure_storage"
	roce         = "apply_roce_phase2"
	pxeLink      = "ensure_pxe_interface_auto"
	render       = "render_cloud_init"
	deploy       = "deploy_via_maas"
	waitDeployed = "wait_for_deployed"
	classify     = "classify_deploy_failure"
	recoverRetry = "recover_for_datasource_retry"
	seedSync     = "ensure_hardware_sync_configured"
	waitSync     = "wait_for_hardware_sync_healthy"
	waitAgent    = "wait_for_agent_enrollment"
)

// The stages of decommissions that onboardings do not have.
const (
	disable      = "disable_node"
	forceRelease = "force_release_allocations"
	drain        = "drain_node"
	cleanup      = "cleanup_storage"
	scrub        = "scrub_gpu"
	validate     = "validate_clean_node"
	certify      = "issue_certificate"
	enable       = "enable_node"
	release      = "release_maas_node"
	powerOff     = "power_off_maas_node"
	retire       = "retire_gpuaas_node"
	remove       = "remove_gpuaas_node_record"
	secrets      = "cleanup_secrets"
	removeRecord = "remove_maas_record"
	reactivate   = "reactivate_node"
)

// The stages of allocations. The operation that cleans up after one has those of a
// decommission.
const (
	takeUp      = "begin_provisioning"
	probeNode   = "probe"
	makeAccount = "account"
	settle      = "settle_provisioning"
	askCleanup  = "request_cleanup"
)

var rentalStages = []string{takeUp, probeNode, makeAccount, settle, askCleanup}

// The modes of allocations: what goes wrong before a tenant has the node, and after.
const (
	provisionMode = "provision"
	releaseMode   = "release"
)

// The modes of decommissions.
const (
	softReset        = "soft_reset"
	reimage          = "reimage"
	fullDecommission = "full_decommission"
	retireMode       = "retire"
	reactivateMode   = "reactivate"
	removeMode       = "remove"
)

// Sections are every stage of an onboarding, every stage of a decommission in the
// mode in which it has most to do, and every stage of an allocation. Stages that do something else in
// another mode are listed for both.
var Sections = laidOut([]plan{
	{Onboarding, "", []string{
		loadSite, resolvePower, findMachine, commission, waitReady, storage, roce, pxeLink, render, deploy, waitDeployed,
		classify, recoverRetry,
		seedSync, waitSync, waitAgent,
	}},
	{Decommission, softReset, []string{disable, drain, cleanup, scrub, validate, certify, enable}},
	{Decommission, reimage, []string{
		release, storage, roce, pxeLink, render, deploy, waitDeployed, classify, recoverRetry, seedSync, waitSync, waitAgent,
		validate,
	}},
	{Decommission, fullDecommission, []string{
		disable, forceRelease, loadSite, powerOff, retire, remove, secrets,
		removeRecord, certify,
	}},
	{Decommission, retireMode, []string{validate}},
	{Decommission, reactivateMode, []string{reactivate}},
	{Decommission, removeMode, []string{remove}},
	{Allocation, provisionMode, []string{takeUp, probeNode, makeAccount, settle}},
	{Allocation, releaseMode, []string{askCleanup, disable, drain, cleanup, scrub, validate, certify, enable}},
})

// plan lists the stages of a mode.
type plan struct {
	family Family
	mode   string
	stages []string
}

func laidOut(plans []plan) []Section {
	var out []Section
	for _, p := range plans {
		for _, stage := range p.stages {
			out = append(out, Section{p.family, p.mode, stage})
		}
	}
	return out
}

// own returns the special case of the section. A zero case goes wrong as usual.
func (s Section) own(kind Kind) Case {
	switch s.Family {
	case Onboarding:
		return cases[s.Stage][kind]
	case Allocation:
		return rentalCase(s.Stage, kind)
	case Decommission, Paths:
	}
	if own, ok := decommissionCases[s.Mode+"/"+s.Stage]; ok {
		return own[kind]
	}
	if own, ok := decommissionCases[s.Stage]; ok {
		return own[kind]
	}
	return cases[s.Stage][kind]
}
