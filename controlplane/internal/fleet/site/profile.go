package site

import (
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// DefaultProfile is the name of the profile that every site has, and that is
// meant when a request names none.
const DefaultProfile = "default"

// Profile is a bundle of policy that work on machines of a site is done by.
type Profile struct {
	ID                id.Profile
	Site              id.Site
	Name, Description string
	Status            Status
	Policy            Policy
	// BundleDigest is what the bundle that the policy names must have. The other two
	// are the bundle that was named before.
	BundleDigest, PreviousBundleRef, PreviousBundleDigest string

	Version              int64
	CreatedAt, UpdatedAt time.Time
}

// Policy is every knob of a profile.
type Policy struct {
	DistroSeries                         string          `json:"distro_series" doc:"Image to deploy: system/series, or the name of an uploaded image."`
	Architecture                         string          `json:"architecture" doc:"Architecture of the machines, as MAAS names it."`
	PXEIface                             string          `json:"pxe_iface" doc:"Interface of the MAAS server on the PXE network; empty: that of the site."`
	PXEVLANVID                           int32           `json:"pxe_vlan_vid" doc:"VLAN of the PXE network; -1: that of the site, 0: untagged."`
	NodePXEIface                         string          `json:"node_pxe_iface" doc:"Interface of the nodes on the PXE network; empty: that of the site."`
	StrictPXEPreflight                   bool            `json:"strict_pxe_preflight" doc:"Refuse to begin when the PXE network of the site is not as described."`
	EnablePhase2RoCE                     bool            `json:"enable_phase2_roce" doc:"Give the RoCE interfaces the addresses of the assignments."`
	RequireHWSync                        bool            `json:"require_hw_sync" doc:"A node is active only while its hardware sync is healthy."`
	HardwareSyncInterval                 string          `json:"hardware_sync_interval" doc:"How often deployed machines report their hardware to MAAS, such as 15m; 1m to 24h."`
	ReleaseFallbackNoErase               bool            `json:"release_fallback_no_erase" doc:"Release without erasing when releasing with erasing fails."`
	MinimumErase                         Erase           `json:"minimum_erase" doc:"The least erasing that a release of a machine is asked for; more than none also forbids to release without erasing when erasing fails."`
	MinimumSanitization                  Level           `json:"minimum_sanitization" enum:"clear,purge" doc:"The least that must be done to the data disks of a node, by the levels of NIST SP 800-88."`
	GPUScrub                             Scrub           `json:"gpu_scrub" doc:"required: a node whose SKU has GPUs is not cleaned until the memory of all of them is proven empty; if_present: a node on which no GPU is seen goes on, which its outcome says (with_gaps)."`
	GPUScrubNVIDIA                       ScrubMethod     `json:"gpu_scrub_nvidia" enum:"overwrite,reset,power_cycle" doc:"The weakest method by which the memory of GPUs of NVIDIA may be cleaned. overwrite: it is overwritten and read back, or the job is parked; reset: GPUs that cannot be overwritten may be reset by the tool of the vendor; power_cycle: what neither works for, the machine is switched off and on for by MAAS. With the last two nothing is read back, which the outcome says (with_gaps)."`
	GPUScrubAMD                          ScrubMethod     `json:"gpu_scrub_amd" enum:"overwrite,reset,power_cycle" doc:"The weakest method by which the memory of GPUs of AMD may be cleaned. overwrite: it is overwritten and read back, or the job is parked; reset: GPUs that cannot be overwritten may be reset by the tool of the vendor; power_cycle: what neither works for, the machine is switched off and on for by MAAS. With the last two nothing is read back, which the outcome says (with_gaps)."`
	RemoveMAASRecord                     bool            `json:"remove_maas_record" doc:"Delete the machine in MAAS when its node is fully decommissioned."`
	ReleaseRetiredMachines               bool            `json:"release_retired_machines" doc:"Deprecated: true says retired_machines is release."`
	DataDisks                            DataDisks       `json:"data_disks" enum:"leave,initialize,require_clean" doc:"What becomes of disks that do not carry the system. leave: they are not touched. initialize: DESTROYS ALL DATA on them at the first boot, which formats and mounts them as /share1, /share2, … require_clean: a machine becomes a node only if they are blank, and what is on them later is a tenant's."`
	RetiredMachines                      RetiredMachines `json:"retired_machines" enum:"leave,power_off,release" doc:"What reconciliation does with the machine of a retired node that MAAS still shows as deployed: nothing, switch it off, or release it, which DESTROYS what is on it."`
	ReturnHealedNodes                    bool            `json:"return_healed_nodes" doc:"Let reconciliation return a node to service that it had quarantined itself, once the node is proven healthy."`
	RequireEnrollmentAddress             bool            `json:"require_enrollment_address" doc:"Refuse an agent that enrols from another address than MAAS gave its machine; otherwise that is only noted. Not behind a load balancer that hides addresses."`
	EnableDeployRetryOnDatasourceFailure bool            `json:"enable_deploy_retry_on_datasource_failure" doc:"Deploy again when cloud-init found no datasource."`
	MaxDeployRetryAttempts               int32           `json:"max_deploy_retry_attempts" doc:"How many times to deploy again at most."`
	AutoClaimSingleNewMachine            bool            `json:"auto_claim_single_new_machine" doc:"Claim the only New machine when nothing stronger identifies it. Dangerous where others use the same MAAS."`
	BatchMaxParallel                     int32           `json:"batch_max_parallel" doc:"Machines of one batch in work at once."`
	SiteBootstrapBundleRef               string          `json:"site_bootstrap_bundle_ref" doc:"Versioned bundle of the site that runs at first boot, before the bootstrap of the node; empty: none."`
	EnrollmentTokenTTLSeconds            int32           `json:"enrollment_token_ttl_seconds" doc:"Life of the token that an agent enrolls with."`
	DiscoveryTimeoutSeconds              int32           `json:"discovery_timeout_seconds" doc:"How long to wait for a machine to appear in MAAS."`
	CommissionTimeoutSeconds             int32           `json:"commission_timeout_seconds" doc:"How long commissioning may take."`
	DeployTimeoutSeconds                 int32           `json:"deploy_timeout_seconds" doc:"How long one deployment may take."`
	HWSyncSeedTimeoutSeconds             int32           `json:"hw_sync_seed_timeout_seconds" doc:"How long setting up hardware sync on the machine may take."`
	HWSyncHealthTimeoutSeconds           int32           `json:"hw_sync_health_timeout_seconds" doc:"How long to wait for hardware sync to become healthy."`
	EnrollmentTimeoutSeconds             int32           `json:"enrollment_timeout_seconds" doc:"How long to wait for the agent to enroll."`
	ReleaseTimeoutSeconds                int32           `json:"release_timeout_seconds" doc:"How long releasing may take, erasing included."`
	AgentTimeoutSeconds                  int32           `json:"agent_timeout_seconds" doc:"How long an agent may take to fetch a task of a turnover before its node counts as unreachable."`
}

// PolicyChange is what to change of a policy; nil stays as it is.
type PolicyChange struct {
	DistroSeries                         *string          `json:"distro_series,omitempty" maxLength:"161" doc:"Image to deploy: system/series, or the name of an uploaded image."`
	Architecture                         *string          `json:"architecture,omitempty" doc:"Architecture of the machines, as MAAS names it."`
	PXEIface                             *string          `json:"pxe_iface,omitempty" doc:"Interface of the MAAS server on the PXE network; empty: that of the site."`
	PXEVLANVID                           *int32           `json:"pxe_vlan_vid,omitempty" minimum:"-1" maximum:"4094" doc:"VLAN of the PXE network; -1: that of the site, 0: untagged."`
	NodePXEIface                         *string          `json:"node_pxe_iface,omitempty" doc:"Interface of the nodes on the PXE network; empty: that of the site."`
	StrictPXEPreflight                   *bool            `json:"strict_pxe_preflight,omitempty" doc:"Refuse to begin when the PXE network of the site is not as described."`
	EnablePhase2RoCE                     *bool            `json:"enable_phase2_roce,omitempty" doc:"Give the RoCE interfaces the addresses of the assignments."`
	RequireHWSync                        *bool            `json:"require_hw_sync,omitempty" doc:"A node is active only while its hardware sync is healthy."`
	HardwareSyncInterval                 *string          `json:"hardware_sync_interval,omitempty" doc:"How often deployed machines report their hardware to MAAS, such as 15m; 1m to 24h."`
	ReleaseFallbackNoErase               *bool            `json:"release_fallback_no_erase,omitempty" doc:"Release without erasing when releasing with erasing fails."`
	MinimumErase                         *Erase           `json:"minimum_erase,omitempty" doc:"The least erasing that a release of a machine is asked for; more than none also forbids to release without erasing when erasing fails."`
	MinimumSanitization                  *Level           `json:"minimum_sanitization,omitempty" enum:"clear,purge" doc:"The least that must be done to the data disks of a node, by the levels of NIST SP 800-88."`
	GPUScrub                             *Scrub           `json:"gpu_scrub,omitempty" doc:"required: a node whose SKU has GPUs is not cleaned until the memory of all of them is proven empty; if_present: a node on which no GPU is seen goes on, which its outcome says (with_gaps)."`
	GPUScrubNVIDIA                       *ScrubMethod     `json:"gpu_scrub_nvidia,omitempty" enum:"overwrite,reset,power_cycle" doc:"The weakest method by which the memory of GPUs of NVIDIA may be cleaned. overwrite: it is overwritten and read back, or the job is parked; reset: GPUs that cannot be overwritten may be reset by the tool of the vendor; power_cycle: what neither works for, the machine is switched off and on for by MAAS. With the last two nothing is read back, which the outcome says (with_gaps)."`
	GPUScrubAMD                          *ScrubMethod     `json:"gpu_scrub_amd,omitempty" enum:"overwrite,reset,power_cycle" doc:"The weakest method by which the memory of GPUs of AMD may be cleaned. overwrite: it is overwritten and read back, or the job is parked; reset: GPUs that cannot be overwritten may be reset by the tool of the vendor; power_cycle: what neither works for, the machine is switched off and on for by MAAS. With the last two nothing is read back, which the outcome says (with_gaps)."`
	RemoveMAASRecord                     *bool            `json:"remove_maas_record,omitempty" doc:"Delete the machine in MAAS when its node is fully decommissioned."`
	ReleaseRetiredMachines               *bool            `json:"release_retired_machines,omitempty" doc:"Deprecated: true is retired_machines release, false is leave."`
	DataDisks                            *DataDisks       `json:"data_disks,omitempty" enum:"leave,initialize,require_clean" doc:"What becomes of disks that do not carry the system. leave: they are not touched. initialize: DESTROYS ALL DATA on them at the first boot, which formats and mounts them as /share1, /share2, … require_clean: a machine becomes a node only if they are blank, and what is on them later is a tenant's."`
	RetiredMachines                      *RetiredMachines `json:"retired_machines,omitempty" enum:"leave,power_off,release" doc:"What reconciliation does with the machine of a retired node that MAAS still shows as deployed: nothing, switch it off, or release it, which DESTROYS what is on it."`
	ReturnHealedNodes                    *bool            `json:"return_healed_nodes,omitempty" doc:"Let reconciliation return a node to service that it had quarantined itself, once the node is proven healthy."`
	RequireEnrollmentAddress             *bool            `json:"require_enrollment_address,omitempty" doc:"Refuse an agent that enrols from another address than MAAS gave its machine; otherwise that is only noted. Not behind a load balancer that hides addresses."`
	EnableDeployRetryOnDatasourceFailure *bool            `json:"enable_deploy_retry_on_datasource_failure,omitempty" doc:"Deploy again when cloud-init found no datasource."`
	MaxDeployRetryAttempts               *int32           `json:"max_deploy_retry_attempts,omitempty" minimum:"0" maximum:"10" doc:"How many times to deploy again at most."`
	AutoClaimSingleNewMachine            *bool            `json:"auto_claim_single_new_machine,omitempty" doc:"Claim the only New machine when nothing stronger identifies it. Dangerous where others use the same MAAS."`
	BatchMaxParallel                     *int32           `json:"batch_max_parallel,omitempty" minimum:"1" maximum:"1000" doc:"Machines of one batch in work at once."`
	SiteBootstrapBundleRef               *string          `json:"site_bootstrap_bundle_ref,omitempty" maxLength:"500" doc:"Versioned bundle of the site that runs at first boot, before the bootstrap of the node; empty: none."`
	EnrollmentTokenTTLSeconds            *int32           `json:"enrollment_token_ttl_seconds,omitempty" minimum:"300" maximum:"604800" doc:"Life of the token that an agent enrolls with."`
	DiscoveryTimeoutSeconds              *int32           `json:"discovery_timeout_seconds,omitempty" minimum:"60" maximum:"86400" doc:"How long to wait for a machine to appear in MAAS."`
	CommissionTimeoutSeconds             *int32           `json:"commission_timeout_seconds,omitempty" minimum:"60" maximum:"86400" doc:"How long commissioning may take."`
	DeployTimeoutSeconds                 *int32           `json:"deploy_timeout_seconds,omitempty" minimum:"60" maximum:"86400" doc:"How long one deployment may take."`
	HWSyncSeedTimeoutSeconds             *int32           `json:"hw_sync_seed_timeout_seconds,omitempty" minimum:"60" maximum:"86400" doc:"How long setting up hardware sync on the machine may take."`
	HWSyncHealthTimeoutSeconds           *int32           `json:"hw_sync_health_timeout_seconds,omitempty" minimum:"60" maximum:"86400" doc:"How long to wait for hardware sync to become healthy."`
	EnrollmentTimeoutSeconds             *int32           `json:"enrollment_timeout_seconds,omitempty" minimum:"60" maximum:"86400" doc:"How long to wait for the agent to enroll."`
	ReleaseTimeoutSeconds                *int32           `json:"release_timeout_seconds,omitempty" minimum:"60" maximum:"604800" doc:"How long releasing may take, erasing included."`
	AgentTimeoutSeconds                  *int32           `json:"agent_timeout_seconds,omitempty" minimum:"60" maximum:"86400" doc:"How long an agent may take to fetch a task of a turnover before its node counts as unreachable."`
}

// DefaultPolicy is the policy of a profile that does not say otherwise. The
// defaults of the columns are the same.
func DefaultPolicy() Policy {
	return Policy{
		DistroSeries:                         "ubuntu/noble",
		Architecture:                         "amd64/generic",
		PXEVLANVID:                           -1,
		StrictPXEPreflight:                   true,
		EnablePhase2RoCE:                     true,
		RequireHWSync:                        true,
		HardwareSyncInterval:                 "15m",
		MinimumErase:                         EraseNone,
		MinimumSanitization:                  LevelClear,
		GPUScrub:                             ScrubRequired,
		GPUScrubNVIDIA:                       MethodOverwrite,
		GPUScrubAMD:                          MethodOverwrite,
		DataDisks:                            DisksRequireClean,
		RetiredMachines:                      RetiredPowerOff,
		EnableDeployRetryOnDatasourceFailure: true,
		MaxDeployRetryAttempts:               1,
		BatchMaxParallel:                     10,
		EnrollmentTokenTTLSeconds:            7200,
		DiscoveryTimeoutSeconds:              1800,
		CommissionTimeoutSeconds:             3600,
		DeployTimeoutSeconds:                 5400,
		HWSyncSeedTimeoutSeconds:             900,
		HWSyncHealthTimeoutSeconds:           3600,
		EnrollmentTimeoutSeconds:             1800,
		ReleaseTimeoutSeconds:                14400,
		AgentTimeoutSeconds:                  600,
	}
}

// ProfileChange is what to change of a profile; nil stays as it is.
type ProfileChange struct {
	Name, Description *string
	Status            *Status
	Policy            PolicyChange
}

// checked brings a profile into its normal form, or says what is wrong with it.
func (p Profile) checked() (Profile, error) {
	var bad problems
	bad.matches("body.name", p.Name, nameForm, nameRule)
	bad.note("body.description", readable(p.Description, 500))
	p.Policy = p.Policy.checked(&bad)
	return p, bad.rejected()
}

func (p Policy) checked(bad *problems) Policy {
	bad.matches("body.distro_series", p.DistroSeries, imageForm, "must be system/series or the name of an image")
	bad.matches("body.architecture", p.Architecture, archForm, "must be of the form amd64/generic")
	if p.PXEIface != "" {
		bad.matches("body.pxe_iface", p.PXEIface, ifaceForm, ifaceRule)
	}
	if p.NodePXEIface != "" {
		bad.matches("body.node_pxe_iface", p.NodePXEIface, ifaceForm, ifaceRule)
	}
	bad.between("body.pxe_vlan_vid", p.PXEVLANVID, -1, 4094)
	interval, err := normalInterval(p.HardwareSyncInterval)
	bad.note("body.hardware_sync_interval", err)
	p.HardwareSyncInterval = interval
	if p.MinimumErase.rank() < 0 {
		bad.add("body.minimum_erase", "must be none, quick or secure")
	}
	if p.MinimumSanitization != LevelClear && p.MinimumSanitization != LevelPurge {
		bad.add("body.minimum_sanitization", "must be clear or purge")
	}
	if !slices.Contains(Scrubs(), p.GPUScrub) {
		bad.add("body.gpu_scrub", "must be required or if_present")
	}
	p.checkMachines(bad)
	bad.between("body.max_deploy_retry_attempts", p.MaxDeployRetryAttempts, 0, 10)
	bad.between("body.batch_max_parallel", p.BatchMaxParallel, 1, 1000)
	bad.matches("body.site_bootstrap_bundle_ref", p.SiteBootstrapBundleRef, bundleForm,
		"must be at most 500 visible ASCII characters")
	bad.between("body.enrollment_token_ttl_seconds", p.EnrollmentTokenTTLSeconds, 300, 604800)
	for _, t := range p.Timeouts() {
		most := int32(86400)
		if t.Stage == StageRelease {
			most = 604800
		}
		limit := int32(t.Limit / time.Second) //nolint:gosec // made of an int32
		bad.between(fmt.Sprintf("body.%s_timeout_seconds", t.Stage), limit, 60, most)
	}
	return p
}

// Erase is what a release asks MAAS to do to the disks of a machine.
type Erase string

// The ways to erase, each more than the one before.
const (
	EraseNone   Erase = "none"
	EraseQuick  Erase = "quick"
	EraseSecure Erase = "secure"
)

// Erases lists them in this order.
func Erases() []Erase { return []Erase{EraseNone, EraseQuick, EraseSecure} }

// rank orders the ways; -1 is none of them.
func (e Erase) rank() int { return slices.Index(Erases(), e) }

// Less says whether it is less erasing than another.
func (e Erase) Less(than Erase) bool { return e.rank() < than.rank() }

// Level is how thoroughly data is removed from a device, as NIST SP 800-88 names it.
type Level string

// The levels.
const (
	LevelClear Level = "clear"
	LevelPurge Level = "purge"
)

// Scrub says what happens to a node on which no GPU is seen although its SKU has
// some.
type Scrub string

// The policies. Profiles of before they existed have ScrubIfPresent.
const (
	ScrubRequired  Scrub = "required"   // the job is parked: the memory of the GPUs may hold data
	ScrubIfPresent Scrub = "if_present" // the job goes on, and its outcome says so
)

// Scrubs lists them.
func Scrubs() []Scrub { return []Scrub{ScrubRequired, ScrubIfPresent} }

// Stage is a part of the work that has a time limit.
type Stage string

// The stages with a time limit.
const (
	StageDiscovery    Stage = "discovery"
	StageCommission   Stage = "commission"
	StageDeploy       Stage = "deploy"
	StageHWSyncSeed   Stage = "hw_sync_seed"
	StageHWSyncHealth Stage = "hw_sync_health"
	StageEnrollment   Stage = "enrollment"
	StageRelease      Stage = "release"
	StageAgent        Stage = "agent"
)

// Timeout is a time limit, and what running into it means.
type Timeout struct {
	Stage             Stage
	Limit             time.Duration
	FailureClass      string
	RecommendedAction string
}

// Timeouts lists the time limits of a policy.
func (p Policy) Timeouts() []Timeout {
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	return []Timeout{
		{
			StageDiscovery, seconds(p.DiscoveryTimeoutSeconds), "pxe_discovery_failure",
			"check BMC, cabling and PXE order of the machine, then retry",
		},
		{
			StageCommission, seconds(p.CommissionTimeoutSeconds), "bmc_power_failure",
			"check the BMC and read the commissioning results in MAAS, then retry",
		},
		{
			StageDeploy, seconds(p.DeployTimeoutSeconds), "deploy_installer_failure",
			"read the installation log in MAAS, then retry",
		},
		{
			StageHWSyncSeed, seconds(p.HWSyncSeedTimeoutSeconds), "post_deploy_connectivity_failure",
			"check that the machine can be reached over its deploy interface, then resume",
		},
		{
			StageHWSyncHealth, seconds(p.HWSyncHealthTimeoutSeconds), "hardware_sync_failure",
			"check the hardware sync timer on the machine, then resume",
		},
		{
			StageEnrollment, seconds(p.EnrollmentTimeoutSeconds), "agent_enrollment_failure",
			"check that the machine reaches the control plane, then resume",
		},
		{
			StageRelease, seconds(p.ReleaseTimeoutSeconds), "state_ambiguity",
			"read the machine in MAAS and finish the release by hand",
		},
		{
			StageAgent, seconds(p.AgentTimeoutSeconds), "node_agent_unreachable",
			"check the agent and its way to the control plane, then retry; go on without a node that is dead",
		},
	}
}

// RequireProfileEnabled refuses new work by a profile that is not to be used.
func RequireProfileEnabled(p Profile) error {
	if p.Status == Active {
		return nil
	}
	return fault.New(fault.Conflict, "profile_disabled", "the profile %s is disabled",
		p.Name).WithRemedy("choose another profile, or enable it")
}
