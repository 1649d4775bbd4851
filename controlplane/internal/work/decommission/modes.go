package decommission

import (
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

// from lists the node states in which a mode may begin. An operation takes over
// a node that is draining or removing without an owner.
var from = map[Mode][]node.Status{
	SoftReset:        steadyAnd(),
	StorageCleanup:   steadyAnd(),
	Reimage:          steadyAnd(node.Draining, node.Retired),
	FullDecommission: steadyAnd(node.Draining, node.Retired),
	Drain:            steadyAnd(node.Draining),
	Retire:           steadyAnd(node.Draining),
	Reactivate:       {node.Retired},
	Remove:           append([]node.Status{node.Retired, node.Removing}, node.Lifecycle.Having(node.Joining)...),
}

func steadyAnd(more ...node.Status) []node.Status {
	return append(node.Lifecycle.Having(node.Steady), more...)
}

// leaves says whether a mode takes the node out of service; the node drains
// meanwhile.
func (m Mode) leaves() bool {
	return m == Reimage || m == FullDecommission || m == Drain || m == Retire
}

// releases says whether a mode gives the machine back to MAAS.
func (m Mode) releases() bool { return m == Reimage || m == FullDecommission }

// cleans says whether a mode can clean the storage of the node.
func (m Mode) cleans() bool {
	return m == SoftReset || m == Reimage || m == StorageCleanup || m == Retire
}

// judged says whether the outcome of a mode can be clean. Drain and remove take a
// node away as it is.
func (m Mode) judged() bool { return m != Drain && m != Remove }

// whereTainted are the stages that a reactivation runs only if the node is not
// proven clean, because it was put aside uncleaned.
var whereTainted = []string{StageDrain, StageStorage, StageScrub}

// onceMore maps the stages of a reimage that clean again, through the new
// installation, to the stages that they repeat. They run if somebody had root,
// because cleaning through the old installation then counts for nothing, and if
// the earlier stage cleaned nothing: see hooks.spared.
var onceMore = map[string]string{StageStorageAgain: StageStorage, StageScrubAgain: StageScrub}

// spares says whether a mode skips a stage because the node needs no cleaning,
// or no second one.
func (m Mode) spares(stage string, n node.Node) bool {
	return m == Reactivate && n.Access() == node.NoAccess && slices.Contains(whereTainted, stage) || m == Reimage &&
		!n.Root.Stands() && onceMore[stage] != ""
}

// believes says whether a mode trusts the evidence of the installation that the
// node had at the time of the request.
func (m Mode) believes() bool {
	return m == SoftReset || m == StorageCleanup || m == Retire || m == Reactivate
}

// proves says whether a validation in this mode proves that a tainted node is
// clean. A validation sees neither the memory of GPUs nor data outside of
// files, so it proves nothing unless everything was cleaned before.
func (m Mode) proves(n node.Node) bool { return m != StorageCleanup || n.Access() == node.NoAccess }

// sparesDisks says whether a cleanup leaves data disks untouched.
func (c Cleanup) sparesDisks() bool { return c == CleanupNone || c == CleanupWeka }

// returns says whether the node is to be in service when the mode has ended.
func (m Mode) returns() bool {
	return m == SoftReset || m == Reimage || m == StorageCleanup || m == Reactivate
}

var cleanups = []Cleanup{CleanupNone, CleanupLocal, CleanupWeka, CleanupAll}

// maxReason and maxRisk limit the length of a request's reason and residual
// risk.
const (
	maxReason = 500
	maxRisk   = 2000
)

// checked fills in the defaults of a request, or says what is wrong with it.
func (r Request) checked() (Request, error) {
	var bad []fault.Field
	reject := func(ok bool, path, format string, args ...any) {
		if !ok {
			bad = append(bad, fault.Field{Path: "body." + path, Message: fmt.Sprintf(format, args...)})
		}
	}
	r.Reason = strings.TrimSpace(r.Reason)
	reject(r.Reason != "" && len(r.Reason) <= maxReason, "reason", "must say why, in at most %d bytes", maxReason)
	known := slices.Contains(Modes(), r.Mode)
	reject(known, "mode", "must be of %s", joined(Modes()))
	reject(r.Erase == "" || slices.Contains(site.Erases(), r.Erase), "erase", "must be of %s", joined(site.Erases()))
	reject(r.StorageCleanup == "" || slices.Contains(cleanups, r.StorageCleanup), "storage_cleanup", "must be of %s",
		joined(cleanups))
	if known {
		reject(r.Mode.releases() || r.Erase == "" ||
			r.Erase == EraseNone, "erase", "only a release in MAAS erases disks: %s has none; choose reimage or full_decommission, or leave it out", r.Mode)
		reject(r.Mode != Reactivate || r.StorageCleanup == "" || r.StorageCleanup == CleanupLocal, "storage_cleanup",
			"a node that is not proven clean is reactivated with its local storage cleaned, and any other without: leave it out")
		reject(r.Mode == Reactivate || r.Mode.cleans() || r.StorageCleanup == "" ||
			r.StorageCleanup == CleanupNone, "storage_cleanup",
			"%s cleans no storage through the agent; what it releases is erased by MAAS: use erase, or leave it out", r.Mode)
		reject(r.Mode != StorageCleanup || r.StorageCleanup != CleanupNone, "storage_cleanup",
			"a storage cleanup that cleans nothing is none: choose local, weka or all")
	}
	reject(r.ProfileID == nil || r.Mode == Reimage, "profile_id",
		"only a reimage installs by another profile; leave it out")
	reject(r.Mode == Reimage || !r.KeepOut, "keep_out_of_service", "is for reimage only; leave it out")
	reject(r.Mode == Reimage || !r.MatchHardware, "require_hardware_match", "is for reimage only; leave it out")
	r.ResidualRisk = strings.TrimSpace(r.ResidualRisk)
	reject(r.ResidualRisk == "" || (r.Mode == SoftReset || r.WithoutAgent) && len(r.ResidualRisk) <= maxRisk,
		"residual_risk", "is accepted with a soft_reset or without_agent only, in at most %d bytes; leave it out", maxRisk)
	reject(!r.WithoutAgent || r.Mode.releases(), "without_agent",
		"is for reimage and full_decommission only; leave it out")
	reject(!r.UnderMaintenance || !r.EndAllocation, "under_maintenance",
		"does not go with end_allocation, which asks for no announcement: choose one of them")
	reject(!r.WithoutAgent || r.ResidualRisk != "", "residual_risk", "must say which risk is left without the agent")
	if len(bad) > 0 {
		return r, fault.New(fault.Invalid, "validation_error",
			"the request has fields that cannot be accepted").WithFields(bad...)
	}
	if r.Erase == "" {
		r.Erase = EraseNone
		if r.Mode.releases() {
			r.Erase = EraseQuick
		}
	}
	if r.StorageCleanup == "" {
		r.StorageCleanup = CleanupNone
		if r.Mode.cleans() || r.Mode == Reactivate {
			r.StorageCleanup = CleanupLocal
		}
	}
	return r, nil
}

func joined[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
}
