package bringup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
)

// Compensate undoes what the job has done as far as possible, and records in
// the facts what it left. It can be repeated at any time.
//
// Compensate releases the machine as long as its deployment is not proven.
// After that it leaves MAAS alone and quarantines the node, unless the work is
// to be reset.
func (b *Bringup) Compensate(ctx context.Context, w *Work) error {
	w.Facts.Left = nil
	keep, err := b.giveUpMachine(ctx, w)
	if err != nil {
		return err
	}
	if err := b.dropSecrets(ctx, w); err != nil {
		return err
	}
	if err := b.giveUpNode(ctx, w, keep); err != nil {
		return err
	}
	if w.Reset { // a finished release stays on record: what it erased is gone
		f := w.Facts
		w.Facts = Facts{
			IdentifiedBy: f.IdentifiedBy, NodeCreated: f.NodeCreated, Left: f.Left,
			Release: f.Release, PowerOff: f.PowerOff, RecordRemoved: f.RecordRemoved, Asked: f.Asked,
		}
	}
	return w.Save(ctx)
}

func (w *Work) leave(format string, args ...any) {
	w.Facts.Left = append(w.Facts.Left, fmt.Sprintf(format, args...))
}

// giveUpMachine releases the machine if this job holds it; keep says that it
// stays deployed.
func (b *Bringup) giveUpMachine(ctx context.Context, w *Work) (keep bool, err error) {
	if w.SystemID == "" {
		return false, nil
	}
	r, err := b.region(ctx, w)
	if err != nil {
		return false, err
	}
	m, err := b.machine(ctx, r, w)
	if maas.SaysAbsent(err) {
		w.leave("MAAS does not have the machine %s any more", w.SystemID)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	held, err := holds(ctx, r, w, m)
	switch {
	case err != nil:
		return false, err
	case !held && occupies(m.Status):
		w.leave("%s is %s in MAAS and not held by this job: it was not touched", w.Hostname, m.Status.Label())
		return false, nil
	case !held:
		w.leave("%s stays known to MAAS, as %s", w.Hostname, m.Status.Label())
		return false, nil
	case !w.Reset && (m.Installed() || w.Facts.DeployedAt != nil && !vacated(m.Status)):
		w.leave("%s stays %s in MAAS with what runs on it: release it there, or decommission it, when it is not needed",
			w.Hostname, m.Status.Label())
		return true, nil
	}
	m, err = b.release(ctx, r, w)
	if f := (*Failure)(nil); errors.As(err, &f) && f.Next == WaitForDeployed {
		w.leave("%s became Deployed while its deployment was to be stopped, and stays so", w.Hostname)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	w.Facts.uninstalled()
	w.leave("%s stays known to MAAS, as %s", w.Hostname, m.Status.Label())
	return false, nil
}

// occupies says whether somebody holds a machine in this status.
func occupies(s maas.Status) bool {
	switch s {
	case maas.StatusAllocated, maas.StatusReserved, maas.StatusDeploying, maas.StatusDeployed, maas.StatusFailedDeployment,
		maas.StatusReleasing, maas.StatusFailedReleasing, maas.StatusDiskErasing, maas.StatusFailedDiskErasing:
		return true
	default:
		return false
	}
}

// vacated says whether a machine in this status no longer runs what was
// deployed on it, whatever an earlier attempt of the job has proven.
func vacated(s maas.Status) bool {
	switch s {
	case maas.StatusNew, maas.StatusReady, maas.StatusReserved, maas.StatusAllocated, maas.StatusDeploying,
		maas.StatusFailedDeployment,
		maas.StatusReleasing, maas.StatusDiskErasing:
		return true
	default:
		return false
	}
}

// giveUpNode removes a node that never got into service from the inventory. If
// its machine stays deployed, the node is quarantined and bound to the machine
// instead, so that an operator can find and release the machine by its node.
func (b *Bringup) giveUpNode(ctx context.Context, w *Work, keep bool) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	left, created := "", w.Facts.NodeCreated
	err := b.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n, err := node.Get(ctx, tx, w.Node)
		switch {
		case fault.KindOf(err) == fault.NotFound, err == nil && n.Status == node.Deleted:
			created = false
			return nil
		case err != nil:
			return err
		case !n.Status.Is(node.Joining), w.existing() && w.Reset:
			left = fmt.Sprintf("node %s stays in the inventory, as %s", n.ID, n.Status)
			return nil
		case w.existing():
			left = fmt.Sprintf("node %s is quarantined", n.ID)
			_, err = node.Move(ctx, tx, w.Node, node.Quarantine, "its reimage was cancelled before it enrolled")
			return err
		case keep:
			left = fmt.Sprintf("node %s is quarantined", n.ID)
			if err := bind(ctx, tx, w); err != nil {
				return err
			}
			_, err = node.Move(ctx, tx, w.Node, node.Quarantine, "its onboarding was cancelled after the machine was deployed")
			return err
		}
		created = false
		_, err = node.Abandon(ctx, tx, w.Node, "its onboarding was given up before it was in service")
		return err
	})
	if err != nil {
		return err
	}
	w.Facts.NodeCreated = created
	if left != "" {
		w.leave("%s", left)
	}
	return nil
}

// Adopt looks at what is there and says with which stage to go on. It takes
// over nothing that is not proven to belong to this job.
func (b *Bringup) Adopt(ctx context.Context, w *Work) (Result, error) {
	if w.existing() {
		return b.adoptExisting(ctx, w)
	}
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, rebound, err := b.present(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	next, err := b.adoptable(ctx, r, w, m)
	if err != nil {
		return Result{}, err
	}
	if rebound && (next == ConfigureStorage || next == WaitForReady || next == CommissionNode) {
		next = CreateOrFindInMAAS // that stage makes sure that the machine is nobody else's
	}
	message := fmt.Sprintf("%s is %s in MAAS; the job goes on with %s", w.Hostname, m.Status.Label(), next)
	if rebound {
		message = fmt.Sprintf("%s is known to MAAS as %s now. %s", w.Hostname, m.SystemID, message)
	}
	return Result{Message: message, Next: next, Details: map[string]any{
		"maas_status": m.Status.Label(),
		"system_id":   m.SystemID, "rebound": rebound,
	}}, nil
}

// present reads the machine, and finds it under another id if somebody deleted
// it and added it again.
func (b *Bringup) present(ctx context.Context, r *region, w *Work) (m maas.Machine, rebound bool, err error) {
	before := w.SystemID
	if before != "" {
		m, err = b.machine(ctx, r, w)
		if !maas.SaysAbsent(err) {
			return m, false, err
		}
	}
	found, err := b.find(ctx, r, w, 0)
	if err != nil {
		return m, false, err
	}
	if found.machine.SystemID == "" {
		w.Observed = Observed{Status: Absent, At: b.now()}
		return m, false, nothingToAdopt("MAAS has no machine %s, and none with the BMC address %s", w.Hostname, w.IPMIIP).
			With("rerun: it makes MAAS know the machine again")
	}
	if err := w.Fence(ctx); err != nil {
		return m, false, err
	}
	if before != "" {
		forget(w)
	}
	m = found.machine
	w.SystemID, w.Facts.IdentifiedBy = m.SystemID, found.by
	b.see(w, m)
	return m, before != m.SystemID, w.Save(ctx)
}

func nothingToAdopt(format string, args ...any) *Failure {
	return codeNothingToAdopt.Failed("there is nothing that the job can go on with: %s", fmt.Sprintf(format, args...)).
		ForGood()
}

// adoptable returns the stage with which a job goes on if its machine is in this
// state.
func (b *Bringup) adoptable(ctx context.Context, r *region, w *Work, m maas.Machine) (string, error) {
	held, err := holds(ctx, r, w, m)
	if err != nil {
		return "", err
	}
	switch {
	case m.Status == maas.StatusReady:
		return ConfigureStorage, nil
	case m.Status == maas.StatusCommissioning, m.Status == maas.StatusTesting:
		return WaitForReady, nil
	case m.Status == maas.StatusNew, m.Status == maas.StatusFailedCommissioning, m.Status == maas.StatusFailedTesting:
		return CommissionNode, nil
	case m.Hollow():
		return "", nothingToAdopt("MAAS shows %s as Deployed, but nothing is installed on it", w.Hostname)
	case m.Status == maas.StatusDeployed && !held:
		return b.adoptDeployed(ctx, r, w, m)
	case !held:
		return "", nothingToAdopt("%s is %s in MAAS, and this job does not hold it", w.Hostname, m.Status.Label())
	case m.Status == maas.StatusAllocated:
		return RenderCloudInit, nil
	case m.Status == maas.StatusDeploying:
		return WaitForDeployed, b.ourDeployment(ctx, r, w, m)
	case m.Status == maas.StatusFailedDeployment:
		return ClassifyDeployFailure, nil
	case m.Status == maas.StatusDeployed:
		by, known, err := asked(ctx, r, w, deploying)
		switch {
		case err != nil:
			return "", err
		case known && !by: // adopted before, and marked
			return b.adoptDeployed(ctx, r, w, m)
		}
		return afterDeployed(w), b.ourDeployment(ctx, r, w, m)
	}
	return "", nothingToAdopt("%s is %s in MAAS", w.Hostname, m.Status.Label())
}

func afterDeployed(w *Work) string {
	f := w.Facts
	switch {
	case f.DeployedAt == nil:
		return WaitForDeployed // that stage records what there is to know
	case f.SyncHealthy != nil && !f.SyncHealthy.Before(*f.DeployedAt):
		proven := slices.Index(AfterDeployment, WaitForHardwareSyncHealthy)
		return AfterDeployment[proven+1] // a stage that is over already ends at once
	}
	return AfterDeployment[0]
}

// deployedEvent is the event that MAAS records when an installation succeeds.
const deployedEvent = "Deployed"

// adoptDeployed takes over a machine that somebody else deployed. An agent that
// polled after the installation as the node of this job proves which machine it
// is. During an installation the agent of the previous one may still poll, and the
// clocks of MAAS and of the control plane differ, so the agent has to poll once
// more before the job ends.
func (b *Bringup) adoptDeployed(ctx context.Context, r *region, w *Work, m maas.Machine) (string, error) {
	n, err := b.cfg.Nodes.Node(ctx, w.Node)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return "", err
	}
	heard := err == nil && n.FirstPollAt != nil && n.LastContactAt != nil
	installed, err := installedAt(ctx, r, w)
	switch {
	case err != nil:
		return "", err
	case m.Annotations[annotation] != "" && !ours(m, w):
		return "", nothingToAdopt("%s is Deployed for another job", w.Hostname)
	case !heard || installed.IsZero() || !n.LastContactAt.After(installed):
		return "", nothingToAdopt("%s was deployed by somebody else, and no agent was heard from since as the node of this job", w.Hostname)
	}
	if m, err = asDeployed(ctx, r, w, m); err != nil {
		return "", err
	}
	if !m.Runs(w.Profile.Policy.DistroSeries) {
		return "", nothingToAdopt("%s runs %s and not %s", w.Hostname, maas.Shown(m.Image()), w.Profile.Policy.DistroSeries)
	}
	addresses, err := b.reachable(ctx, w, m)
	if err != nil {
		return "", err
	}
	if err := b.awaitAnew(ctx, w, n); err != nil {
		return "", err
	}
	if err := b.mark(ctx, r, w); err != nil {
		return "", err
	}
	if err := b.dropLogin(ctx, w); err != nil { // the login of what this job would have deployed
		return "", err
	}
	at := b.now().UTC()
	w.Facts.uninstalled()
	w.Facts.Adopted, w.Facts.HostKey, w.Facts.DeployUser = true, "", ""
	w.Facts.SyncPinned, w.Facts.SyncURL = false, ""
	w.Facts.DeployedAt, w.Facts.Addresses, w.Facts.Image = &at, addresses, m.Image()
	return AfterDeployment[0], w.Save(ctx)
}

// installedAt returns when the present installation ended, by the clock of MAAS.
// It returns zero if MAAS has no record of it.
func installedAt(ctx context.Context, r *region, w *Work) (time.Time, error) {
	began, known, err := latest(ctx, r, w, deploying)
	if err != nil || !known {
		return time.Time{}, err
	}
	ended, known, err := latest(ctx, r, w, deployedEvent)
	if err != nil || !known || ended.ID < began.ID {
		return time.Time{}, err
	}
	return ended.Created.Time, nil
}

// awaitAnew forgets earlier polls of the agent: only its next poll counts.
func (b *Bringup) awaitAnew(ctx context.Context, w *Work, n node.Node) error {
	if n.Status == node.Active { // it is in service as this node already
		return nil
	}
	if err := usable(n, w); err != nil {
		return err
	}
	if err := w.Fence(ctx); err != nil {
		return err
	}
	return b.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return node.Await(ctx, tx, w.Node, w.WorkflowID)
	})
}
