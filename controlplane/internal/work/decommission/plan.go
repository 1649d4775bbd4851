package decommission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// situation is everything that decides whether a request may begin, and what
// it would do.
type situation struct {
	node       node.Node
	binding    *binding.Binding // nil if the node is not a machine of MAAS
	site       *site.Site
	profile    *site.Profile // the profile that the operation uses
	former     *site.Profile // the profile of the node, if the request names another one
	misfit     error         // why the requested profile cannot be used
	tenancy    *Tenancy      // what a tenant has on the node, nil if nothing
	live       *Decommission // the operation that owns the node
	onboarding string        // the onboarding that owns it
	disksMade  bool          // its onboarding let the first boot format its data disks
	vendor     string        // vendor of its GPUs, empty if unknown
	silence    string        // how long its agent has been silent, if it counts as gone; otherwise empty
}

func (s situation) managed() bool { return s.binding != nil }

// policy returns the policy of the profile, or the default one if there is
// none.
func (s situation) policy() site.Policy {
	if s.profile == nil {
		return site.DefaultPolicy()
	}
	return s.profile.Policy
}

// blocks lists the reasons why a request must not begin, the most telling
// first.
func (s situation) blocks(r Request) []error {
	var out []error
	add := func(err error) { out = append(out, err) }
	n := s.node
	if s.live != nil {
		add(fault.New(fault.Conflict, "node_busy", "node %s is in a %s already: decommission %s, %s at %s", n.Hostname,
			s.live.Mode, s.live.ID, s.live.Status, s.live.Stage).
			WithRemedy("look at it: gpuaas decommission explain %s", s.live.ID))
	}
	if s.onboarding != "" {
		add(fault.New(fault.Conflict, "node_busy", "node %s is being onboarded: onboarding %s has not ended", n.Hostname,
			s.onboarding).
			WithRemedy("look at it: gpuaas onboarding explain %s; cancel it first if the node is to go", s.onboarding))
	}
	if !slices.Contains(from[r.Mode], n.Status) {
		add(fault.New(fault.Conflict, "node_state_conflict", "node %s is %s: a %s needs one that is %s", n.Hostname, n.Status,
			r.Mode, joined(from[r.Mode])).
			WithRemedy("%s", otherwise(r.Mode, n)))
	}
	if r.Mode == Remove && n.Status == node.Enrolling && n.OnboardingMode == node.MAAS {
		add(fault.New(fault.Conflict, "node_state_conflict", "node %s is enrolling through MAAS",
			n.Hostname).WithRemedy("decommission it fully once it is active or quarantined"))
	}
	if r.Mode == Reimage && !s.managed() {
		add(fault.New(fault.Conflict, "node_not_in_maas", "node %s was added by hand: MAAS cannot reinstall it",
			n.Hostname).
			WithRemedy("soft reset cleans it as it is, unless somebody had root on it: %s",
				or(remedyOf(n.Incredible()), "nobody is known to have had")))
	}
	for _, err := range []error{s.rented(r), s.misfit, s.incredible(r), s.needless(r), s.answering(r)} {
		if err != nil {
			add(err)
		}
	}
	if r.Mode.releases() && s.managed() {
		if least := s.policy().MinimumErase; r.Erase.Less(least) {
			add(fault.New(fault.Conflict, "erase_below_policy", "the profile %s of site %s asks for at least %s, not %s",
				s.profile.Name, s.site.Name, least, r.Erase).
				WithRemedy("ask for %s or more; or change minimum_erase of the profile, which is recorded", least))
		}
	}
	return out
}

// needless refuses an accepted risk if there is no such risk: it would be
// recorded nowhere.
func (s situation) needless(r Request) error {
	if r.ResidualRisk == "" || r.WithoutAgent || s.node.Compromised() {
		return nil
	}
	return fault.New(fault.Conflict, "residual_risk_not_needed",
		"nobody is known to have had root on the installation of node %s: a reset proves it clean, and there is no risk to accept", s.node.Hostname).
		WithRemedy("ask again without residual_risk (--residual-risk); if you know that somebody had root, record it first: gpuaas node taint %s --cause CAUSE", s.node.Hostname)
}

// incredible returns why a request would rely on what somebody with root may
// have made the node say, or nil if it would not.
func (s situation) incredible(r Request) error {
	n := s.node
	switch {
	case r.Mode == SoftReset && r.ResidualRisk != "" && !s.managed() && n.OnboardingMode == node.Manual:
		return nil
	case r.Mode.believes() && n.Compromised():
		return n.Incredible()
	case n.Root.Stands() && r.Mode.cleans() && r.Mode.proves(n) && r.StorageCleanup.sparesDisks():
		return fault.New(fault.Conflict, node.CodeRoot,
			"somebody had root on node %s: it is not proven clean while its data disks stay as they are", n.Hostname).
			WithRemedy("ask for storage_cleanup local or all; it is done by the new installation")
	}
	return nil
}

// otherwise suggests what to do with a node that is in another state.
func otherwise(m Mode, n node.Node) string {
	s := n.Status
	switch {
	case s == node.Deleted:
		return "it is gone: onboard its machine as a new node"
	case s == node.Retired && m.returns():
		return "reactivate it first: gpuaas node reactivate " + n.Hostname
	case m == Remove:
		return "retire it first: gpuaas node retire " + n.Hostname + "; a MAAS machine is fully decommissioned instead"
	case s.Is(node.Joining):
		return "wait until it is active, or remove it: gpuaas node remove " + n.Hostname
	}
	return "look at it: gpuaas node show " + n.Hostname
}

// PlannedStage is a stage that a plan goes through.
type PlannedStage struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Does    string `json:"does"`
	Usually string `json:"usually" doc:"How long it takes as a rule."`
}

// Block is a reason why a plan cannot be carried out now.
type Block struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Plan is what a request would do.
type Plan struct {
	Hash           string         `json:"plan_hash" doc:"Applying with this hash is refused if anything that the plan depends on has changed."`
	NodeID         id.Node        `json:"node_id"`
	Hostname       string         `json:"hostname"`
	NodeStatus     node.Status    `json:"node_status"`
	Mode           Mode           `json:"mode"`
	Erase          Erase          `json:"erase"`
	StorageCleanup Cleanup        `json:"storage_cleanup"`
	ProfileID      *id.Profile    `json:"profile_id,omitempty" doc:"The profile that it goes by; absent for a node that is not a MAAS machine."`
	Profile        string         `json:"profile,omitempty" doc:"Its name."`
	KeepOut        bool           `json:"keep_out_of_service,omitempty" doc:"The node is quarantined when it is ready, until an operator returns it."`
	MatchHardware  bool           `json:"require_hardware_match,omitempty" doc:"The machine is accepted only if its hardware is that of the SKU."`
	MAASSystemID   string         `json:"maas_system_id,omitempty"`
	MAASStatus     string         `json:"maas_status,omitempty" doc:"As last seen."`
	Ends           string         `json:"ends" doc:"How the node is when all went well."`
	Effects        []string       `json:"effects" nullable:"false" doc:"What is destroyed or changed for good, and what is not touched."`
	Stages         []PlannedStage `json:"stages" nullable:"false"`
	Usually        string         `json:"usually" doc:"How long all of it takes as a rule."`
	ShortWay       *ShortWay      `json:"short_way,omitempty" doc:"How to go about it in one decision, because the agent is known to be gone; absent: it is not, or the plan does so already."`
	Blocks         []Block        `json:"blocks" nullable:"false" doc:"What must be put right first; none: it can begin."`
}

// Plan says what a request would do to a node, and what stands in its way. It
// changes nothing.
func (s *Service) Plan(ctx context.Context, of id.Node, r Request) (Plan, error) {
	r.Reason = or(r.Reason, "planned")
	r, err := r.checked()
	if err != nil {
		return Plan{}, err
	}
	now, err := s.lookFor(ctx, of, r)
	if err != nil {
		return Plan{}, err
	}
	return planned(now, r), nil
}

func planned(s situation, r Request) Plan {
	if r.Mode == Reactivate && s.node.Access() == node.NoAccess {
		r.StorageCleanup = CleanupNone // only in what is shown: see spares
	}
	p := Plan{
		Hash: s.hash(r), NodeID: s.node.ID, Hostname: s.node.Hostname, NodeStatus: s.node.Status, Mode: r.Mode,
		Erase: r.Erase, StorageCleanup: r.StorageCleanup, KeepOut: r.KeepOut, MatchHardware: r.MatchHardware,
		Ends: s.ends(r), Effects: s.effects(r), Stages: []PlannedStage{}, Usually: lasts[r.Mode], Blocks: []Block{},
	}
	if s.managed() {
		p.MAASSystemID, p.MAASStatus = s.binding.SystemID, s.binding.Status
		p.ProfileID, p.Profile = &s.profile.ID, s.profile.Name
	}
	p.ShortWay = s.shortWay(r)
	for _, stage := range tables[r.Mode] {
		passed := r.WithoutAgent && slices.Contains(r.Mode.needsAgent(), stage.Name)
		if !stage.Pseudo && !stage.Detour && !passed && !r.Mode.spares(stage.Name, s.node) {
			p.Stages = append(p.Stages, PlannedStage{
				Name: stage.Name, Title: stage.Title, Does: stage.Does,
				Usually: or(stage.Usually, "seconds"),
			})
		}
	}
	for _, err := range s.blocks(r) {
		f, _ := fault.As(err)
		p.Blocks = append(p.Blocks, Block{Code: f.Code, Message: f.Message, Remedy: f.Remedy})
	}
	return p
}

// hash covers everything that a plan depends on.
func (s situation) hash(r Request) string {
	facts := map[string]any{
		"mode": r.Mode, "erase": r.Erase, "storage_cleanup": r.StorageCleanup, "stages": namesOf(tables[r.Mode]),
		"node": s.node.ID, "status": s.node.Status, "hostname": s.node.Hostname, "generation": s.node.Generation,
		"hold_reason": s.node.HoldReason, "held_by": s.node.HeldBy, "tainted": s.node.Tainted(), "onboarding": s.onboarding,
		"root": s.node.Root.Stands(), "compromised": s.node.Compromised(), "risk_accepted": r.ResidualRisk != "",
	}
	// What a request leaves out is left out here, too: the hash of such a plan stays what it was.
	for name, asked := range map[string]bool{
		"without_agent": r.WithoutAgent, "keep_out_of_service": r.KeepOut, "require_hardware_match": r.MatchHardware,
	} {
		if asked {
			facts[name] = true
		}
	}
	if t := s.tenancy; t != nil {
		facts["allocation"], facts["allocation_live"], facts["ends_allocation"] = t.ID, t.Live, !t.standsAgainst(r)
	}
	if s.live != nil {
		facts["live"] = s.live.ID
	}
	if s.managed() {
		facts["machine"], facts["maas_status"] = s.binding.SystemID, s.binding.Status
		facts["site"], facts["site_version"] = s.site.ID, s.site.Version
		facts["profile"], facts["profile_version"] = s.profile.ID, s.profile.Version
	}
	raw, err := json.Marshal(facts) // keys of maps are sorted
	if err != nil {
		panic(fmt.Sprintf("hash of a plan: %v", err)) // plain values only
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func namesOf(t job.Table) []string {
	out := make([]string, len(t))
	for i, s := range t {
		out[i] = s.Name
	}
	return out
}

// effects describes what the operation destroys, and what it does not.
func (s situation) effects(r Request) []string {
	out := s.endsWork(r)
	if r.Mode.leaves() || r.Mode == SoftReset || r.Mode == Reactivate && s.node.Access() != node.NoAccess {
		out = append(out, "terminal sessions end, and the accounts of tenants are removed with their homes")
	}
	switch r.StorageCleanup {
	case CleanupLocal, CleanupAll:
		out = append(out, "DESTROYS what is in temporary and scratch folders and on the data disks mounted at /share<N>")
		if s.managed() {
			out = append(out, disksEffect[s.policy().DataDisks])
		}
	case CleanupNone, CleanupWeka:
	}
	if r.StorageCleanup == CleanupWeka || r.StorageCleanup == CleanupAll {
		out = append(out, "file systems of Weka are unmounted, and their configuration and the containers of the client are removed with their state and "+
			"cache; what lies on the file systems is not touched, and a client that the agent does not know stops the operation")
	}
	out = append(out, s.scrubEffect(r)...)
	if r.Mode.releases() && s.managed() {
		text := "DESTROYS the installation: MAAS releases the machine"
		switch r.Erase {
		case EraseNone:
			text += " without erasing its disks: data stays readable on them"
		case EraseQuick:
			text += " and erases the beginning and the end of its disks (quick), which leaves most of the data readable with tools"
		case EraseSecure:
			text += " and erases its disks with what they support (secure)"
		}
		if r.Erase != EraseNone && s.policy().ReleaseFallbackNoErase && s.policy().MinimumErase == EraseNone {
			text += "; if erasing fails, the policy allows to release without it, which is recorded"
		}
		out = append(out, text)
	}
	if s.former != nil {
		out = append(out, fmt.Sprintf("installs %s by the profile %s instead of %s, to which the node belongs until that is done",
			s.profile.Policy.DistroSeries, s.profile.Name, s.former.Name))
	}
	if r.Mode == Reimage && s.node.Root.Stands() {
		out = append(out, fmt.Sprintf("somebody had root (%s): reports of the old installation do not count; data disks and GPUs are cleaned and validated again through the new one; "+
			"firmware and the BMC, which root can change, are not covered", s.node.Root.Cause))
	}
	if r.Mode == SoftReset && r.ResidualRisk != "" && s.node.Compromised() {
		out = append(out, "somebody had root, and the installation stays: you accept the remaining risk, and the receipt states it; firmware and the BMC are not covered")
	}
	if r.WithoutAgent {
		out = append(out, passesOver(r.Mode)+", which only the agent could do: the certificate states the risk that is accepted")
	}
	if r.Mode == Reimage && (s.disksMade || s.policy().DataDisks == site.DisksInitialize) {
		out = append(out, "DESTROYS what is on all disks but the root disk: the first boot partitions and formats them anew, as when the machine was onboarded (initialize_disks), or as the profile says (data_disks)")
	}
	out = append(out, acceptance(r)...)
	switch r.Mode {
	case FullDecommission:
		out = append(out, "the node leaves the inventory for good: its id is never used again, its history is kept")
		if s.managed() && s.policy().RemoveMAASRecord {
			out = append(out, "the machine is deleted in MAAS, by policy")
		}
	case Remove:
		out = append(out, "the agent is uninstalled and the node leaves the inventory for good; its machine is not touched otherwise")
	case Drain:
		out = append(out, "nothing is cleaned: disks and GPUs keep what is on them, until the node is reactivated, which destroys it")
	case Reactivate:
		if s.node.Access() == node.NoAccess {
			out = append(out, "nothing is destroyed: the node is proven clean")
		}
	case StorageCleanup:
		if !r.Mode.proves(s.node) {
			out = append(out, "accounts, processes and the memory of GPUs are not touched: the node stays tainted and out of scheduling until it is reset")
		}
	case SoftReset, Reimage, Retire:
	}
	if r.Mode.returns() && s.node.Status == node.Quarantined {
		kept := "a quarantine that a validation set is lifted; one that an operator or reconciliation set stays"
		if r.Mode == Reimage {
			kept = "a quarantine of an operator stays; any other ends with the installation that it is about"
		}
		out = append(out, kept)
	}
	return out
}

// acceptance describes what the request asks of the machine before it serves
// again.
func acceptance(r Request) (out []string) {
	if r.MatchHardware {
		out = append(out, "accepts the machine only if its GPUs, memory, disks and interfaces match its SKU "+
			"(require_hardware_match); otherwise the turnover is parked and says what differs")
	}
	if r.KeepOut {
		out = append(out, "keeps the node out of service (keep_out_of_service): it is quarantined when it is ready, "+
			"until an operator returns it")
	}
	return out
}

// scrubEffect describes what happens to GPUs that cannot be overwritten, if the
// profile accepts less.
func (s situation) scrubEffect(r Request) []string {
	weakest, setting := s.policy().ScrubMethod(s.vendor)
	if !slices.Contains(plans[r.Mode], StageScrub) || r.Mode.spares(StageScrub, s.node) {
		return nil
	}
	switch weakest {
	case site.MethodReset:
		return []string{"GPUs that cannot be overwritten are only reset (" + setting + "), which its outcome says"}
	case site.MethodPowerCycle:
		return []string{"GPUs that cannot be overwritten are reset, or the machine is switched off and on for them (" +
			setting + "), which its outcome says"}
	case site.MethodOverwrite:
	}
	return nil
}

// disksEffect describes what a cleanup does with disks that nothing mounts.
var disksEffect = map[site.DataDisks]string{
	site.DisksLeave: "disks that are not mounted are left alone and named as a gap (data_disks of the profile is leave); " +
		"where somebody had root, one that is not blank stops the operation",
	site.DisksInitialize: "disks that are neither mounted nor blank stop the operation: nobody can tell whose data they hold",
	site.DisksRequireClean: "DESTROYS what is on disks that are not mounted and were blank when the node joined: " +
		"only a tenant can have left it; another one that is not blank stops the operation",
}

// ends describes the node after a successful operation.
func (s situation) ends(r Request) string {
	if r.KeepOut {
		return "quarantined with a fresh installation and the same id, proven clean, with a certificate; " +
			fmt.Sprintf("return it to service with: gpuaas node return %s", s.node.Hostname)
	}
	if !r.Mode.proves(s.node) {
		return "active and validated, but held: it is tainted, and only a reset proves it clean: " +
			fmt.Sprintf("gpuaas node reset %s", s.node.Hostname)
	}
	return ends[r.Mode]
}

var ends = map[Mode]string{
	SoftReset:        "active and schedulable, proven clean, with a handover receipt",
	Reimage:          "active and schedulable with a fresh installation and the same id, proven clean, with a certificate",
	FullDecommission: "deleted; its machine is released and switched off, with a certificate",
	StorageCleanup:   "active and validated; schedulable unless it was tainted, which takes a reset",
	Drain:            "retired, without tenants, not cleaned",
	Retire:           "retired and proven clean, with a certificate",
	Reactivate:       "active and schedulable, proven clean",
	Remove:           "deleted",
}

var lasts = map[Mode]string{
	SoftReset: "1 to 5 min", Reimage: "20 to 60 min", FullDecommission: "5 to 15 min; hours with a secure erase",
	StorageCleanup: "a minute; hours when large disks are overwritten",
	Drain:          "a minute or two", Retire: "1 to 5 min",
	Reactivate: "under a minute; 1 to 5 min when it must be cleaned", Remove: "under a minute",
}

func remedyOf(err error) string {
	f, _ := fault.As(err)
	if f == nil {
		return ""
	}
	return f.Remedy
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
