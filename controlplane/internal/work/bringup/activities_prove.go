package bringup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
)

// What follows only looks: it changes nothing in MAAS or in the inventory. It
// is for parked jobs, whose goal may have been reached without them; only what
// is seen now counts.

// contactWithin is how recently an agent must have polled to count as running.
const contactWithin = 2 * time.Minute

// Proof holds what was seen of a machine and a node that are as the job was to make
// them.
type Proof struct {
	Image         string
	InstalledAt   time.Time // by the clock of MAAS; zero: it has no record of it
	LastSync      *time.Time
	FirstPollAt   time.Time
	LastContactAt time.Time
	AgentVersion  string
}

// ProveInstalled proves that the machine runs what the profile wants because
// this job asked for it, that it reports its hardware if that is required, and
// that its agent is there as the node of this job. missing says what is not
// proven; if it is empty, the facts of the work are what the stages would have
// found out.
func (b *Bringup) ProveInstalled(ctx context.Context, w *Work) (p Proof, missing string, err error) {
	n, missing, err := b.enrolled(ctx, w)
	if missing != "" || err != nil {
		return p, missing, err
	}
	r, m, missing, err := b.standing(ctx, w)
	if missing != "" || err != nil {
		return p, missing, err
	}
	if p.InstalledAt, err = installedAt(ctx, r, w); err != nil {
		return p, "", err
	}
	if missing, err = b.deployedByUs(ctx, r, w); missing != "" || err != nil {
		return p, missing, err
	}
	if missing = b.unsynced(r, w, m, p.InstalledAt); missing != "" {
		return p, missing, nil
	}
	if missing = b.outlived(r, w, n, p.InstalledAt); missing != "" {
		return p, missing, nil
	}
	// Once more, because a single look can be wrong.
	again, err := b.machine(ctx, r, w)
	if missing = doubt(err); missing != "" {
		return p, missing, nil
	}
	if err == nil {
		again, err = asDeployed(ctx, r, w, again)
	}
	switch {
	case err != nil:
		return p, "", err
	case unlike(again, w) != "" || again.InstallationResultID != m.InstallationResultID:
		return p, fmt.Sprintf("MAAS shows %s differently at each look", w.Hostname), nil
	}
	p.Image, p.LastSync = again.Image(), again.LastSync
	p.FirstPollAt, p.LastContactAt, p.AgentVersion = *n.FirstPollAt, *n.LastContactAt, n.ReportedAgentVersion
	return p, "", b.found(ctx, w, again)
}

// doubt returns what a failure says about the machine. It is empty if the error only
// kept us from looking.
func doubt(err error) string {
	var f *Failure
	if errors.As(err, &f) {
		return f.Message
	}
	return ""
}

// standing reads the machine. It must be the machine of the job, in the state
// in which the job would have left it.
func (b *Bringup) standing(ctx context.Context, w *Work) (r *region, m maas.Machine, missing string, err error) {
	switch {
	case w.SystemID == "":
		return nil, m, "which machine of MAAS it is, is not known", nil
	case len(w.Facts.RoCEProblems) > 0:
		return nil, m, "not all RoCE addresses could be set up: " + w.Facts.RoCEProblems[0], nil
	case w.existing():
		r, m, err = b.boundMachine(ctx, w)
	default:
		r, m, err = b.sameMachine(ctx, w)
	}
	if missing = doubt(err); missing != "" {
		return nil, m, missing, nil
	}
	if err == nil {
		m, err = asDeployed(ctx, r, w, m)
	}
	if err != nil {
		return nil, m, "", err
	}
	return r, m, unlike(m, w), nil
}

// unlike says how a machine differs from one that this job has deployed, or ""
// if it does not.
func unlike(m maas.Machine, w *Work) string {
	image := w.Profile.Policy.DistroSeries
	switch {
	case m.SystemID != w.SystemID:
		return "MAAS answers with another machine"
	case m.Hollow():
		return fmt.Sprintf("MAAS shows %s as Deployed, but nothing is installed on it", w.Hostname)
	case !m.Installed():
		return fmt.Sprintf("%s is %s in MAAS", w.Hostname, m.Status.Label())
	case !ours(m, w):
		return fmt.Sprintf("this job does not hold %s", w.Hostname)
	case !m.Runs(image):
		return fmt.Sprintf("%s runs %s and not %s", w.Hostname, maas.Shown(m.Image()), image)
	case m.EnableHWSync != w.Profile.Policy.RequireHWSync:
		return fmt.Sprintf("the hardware sync of %s is not as the profile wants it", w.Hostname)
	}
	return ""
}

// deployedByUs checks that the present deployment is the one of this job. A
// deployment that the job adopted from somebody else must be completed by the
// job itself.
func (b *Bringup) deployedByUs(ctx context.Context, r *region, w *Work) (missing string, err error) {
	by, known, err := asked(ctx, r, w, deploying)
	switch {
	case err != nil:
		return "", err
	case known && !by, w.Facts.Deploys == 0 && !by:
		return "somebody else asked for the present deployment of " + w.Hostname, nil
	}
	return "", nil
}

// unsynced returns why the hardware sync of the machine does not count, or ""
// if it counts or is not wanted. Times of MAAS are compared with MAAS's own
// clock.
func (b *Bringup) unsynced(r *region, w *Work, m maas.Machine, installed time.Time) string {
	if !w.Profile.Policy.RequireHWSync {
		return ""
	}
	now := b.now()
	if ahead, known := r.Skew(); known {
		now = now.Add(ahead)
	}
	before := w.Facts.SyncBefore
	if before == nil && !installed.IsZero() {
		before = new(installed.Add(ownSync))
	}
	switch {
	case m.LastSync == nil, !m.SyncHealthy(now):
		return fmt.Sprintf("MAAS has not heard of the hardware of %s lately", w.Hostname)
	case before == nil:
		return fmt.Sprintf("whether MAAS has heard of the hardware of %s since it was installed is not known", w.Hostname)
	case !m.LastSync.After(*before), m.LastSync.Before(installed):
		return fmt.Sprintf("MAAS has not heard of the hardware of %s since it was installed", w.Hostname)
	}
	return ""
}

// ownSync is how long after an installation a sync must come to be told from
// the one that MAAS records itself when the machine becomes Deployed.
const ownSync = 30 * time.Second

// enrolled reads the node. Its agent must have come for this job and be there.
func (b *Bringup) enrolled(ctx context.Context, w *Work) (n node.Node, missing string, err error) {
	n, err = b.cfg.Nodes.Node(ctx, w.Node)
	if fault.KindOf(err) == fault.NotFound {
		return n, "there is no node yet", nil
	}
	if err != nil {
		return n, "", err
	}
	if missing = doubt(sameNode(n, w)); missing != "" {
		return n, missing, nil
	}
	mine := w.Kind + " " + w.Job
	switch {
	case n.HeldBy != "" && n.HeldBy != mine, w.existing() && n.HeldBy != mine:
		return n, "this job does not hold the node", nil
	case n.Status != node.Enrolling && (w.existing() || n.Status != node.Active):
		return n, fmt.Sprintf("the node is %s", n.Status), nil
	case n.Status == node.Enrolling && n.AwaitedBy != w.WorkflowID:
		return n, "the node enrols for something else", nil
	case n.IdentityVoid != "":
		return n, "nobody is the node any more: " + n.IdentityVoid, nil
	case n.FirstPollAt == nil:
		return n, "the agent has not polled", nil
	case n.LastContactAt == nil, b.now().Sub(*n.LastContactAt) > contactWithin:
		return n, fmt.Sprintf("the agent was not heard of within %s", contactWithin), nil
	}
	return n, "", nil
}

// outlived returns why the agent may belong to an earlier installation. It is empty
// if the agent belongs to the present one.
func (b *Bringup) outlived(r *region, w *Work, n node.Node, installed time.Time) string {
	if ahead, known := r.Skew(); known && !installed.IsZero() {
		installed = installed.Add(-ahead)
	}
	if at := w.Facts.DeployedAt; at != nil && at.After(installed) {
		installed = *at
	}
	if installed.IsZero() || !n.LastContactAt.After(installed) {
		return "the agent was not heard of since the machine was installed"
	}
	return ""
}

// found records what the stages would have found out.
func (b *Bringup) found(ctx context.Context, w *Work, m maas.Machine) error {
	addresses, err := b.reachable(ctx, w, m)
	if err != nil {
		return err
	}
	at := b.now().UTC()
	if w.Facts.DeployedAt == nil {
		w.Facts.DeployedAt = &at
	}
	w.Facts.Addresses, w.Facts.Image = addresses, m.Image()
	w.Facts.DeployFailure, w.Facts.DeployEvidence = "", ""
	if w.Profile.Policy.RequireHWSync {
		w.Facts.SyncHealthy = &at
	}
	return nil
}

// Forget removes the rendered first boot of a job that reached its goal, and the
// key to its machine. A machine that has an agent needs neither any more.
func (b *Bringup) Forget(ctx context.Context, w *Work) error { return b.dropSecrets(ctx, w) }

// ProveVacant proves that the machine of the work is free and off, or that MAAS
// no longer knows it. missing says what is not proven.
func (b *Bringup) ProveVacant(ctx context.Context, w *Work) (missing string, err error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return "", err
	}
	for range 2 { // because a single look can be wrong
		m, err := b.machine(ctx, r, w)
		switch {
		case maas.SaysAbsent(err): // twice
			return "", nil
		case err != nil:
			return doubt(err), other(err)
		case !m.Status.Free() || m.PowerState != maas.PowerOff:
			return fmt.Sprintf("%s is %s in MAAS, power %s", w.Hostname, m.Status.Label(), m.PowerState), nil
		}
	}
	return "", nil
}

// other returns an error that says nothing about the machine.
func other(err error) error {
	if doubt(err) != "" {
		return nil
	}
	return err
}
