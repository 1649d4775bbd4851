package bringup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/fleet/site"
)

// mostQueue is how long one execution of the stage waits for its turn. It is short
// enough to leave the stage the time in which it looks for its server.
const mostQueue = 5 * time.Minute

// queueAgain is the pause before the next execution goes on waiting.
const queueAgain = time.Second

// discover boots the server from the network, watches for it in MAAS and claims
// it before another job of the site looks. It is for a MAAS that does not
// accept a machine whose MACs nobody knows.
func (b *Bringup) discover(ctx context.Context, r *region, w *Work, credentials site.PowerCredentials) (Result, error) {
	patience := mostQueue
	if limit := limitOf(w); limit > 0 {
		patience = min(patience, limit)
	}
	inTime, stop := context.WithTimeout(ctx, patience)
	leave, err := r.boots.Acquire(inTime)
	late := inTime.Err() != nil
	stop()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case late:
		return b.queued(w), nil
	default:
		return Result{}, codeDiscoveryBusy.Failed("%s has lost its place among the machines of site %s that are looked out for one after the other", w.Hostname, w.Site.Name).Because(err)
	}
	defer leave()
	found, err := b.lookOut(ctx, r, w, credentials)
	if err != nil {
		return Result{}, err
	}
	return b.claim(ctx, r, w, found)
}

// queued makes the stage wait for its turn. Waiting is not a failure and does
// not count against the time limit of the stage.
func (b *Bringup) queued(w *Work) Result {
	out := Result{Await: &Await{Most: queueAgain}}
	if at := w.Facts.QueuedAt; at == nil || at.Before(w.Since) {
		now := b.now()
		w.Facts.QueuedAt = &now
		out.Message = "waits until the servers of the site that came before have appeared: one at a time is made to boot from the network, so that they can be told apart"
	}
	return out
}

// limitOf returns how long the stage may take, or zero if it has no limit.
func limitOf(w *Work) time.Duration {
	if w.Deadline.IsZero() {
		return 0
	}
	return w.Deadline.Sub(w.Since)
}

// lookOut finds the server that this job booted. A server that appeared after
// an earlier round had given up is taken as it is.
func (b *Bringup) lookOut(ctx context.Context, r *region, w *Work, credentials site.PowerCredentials) (match, error) {
	if w.Facts.NetworkBootsAt != nil {
		if found, err := b.appeared(ctx, r, w); err != nil || found.machine.SystemID != "" {
			return found, err
		}
	}
	if err := b.networkBoot(ctx, r, w, credentials); err != nil {
		return match{}, err
	}
	within, stop := b.within(ctx, w)
	defer stop()
	least, most := b.pace()
	for wait := least; ; wait = min(wait+wait/4, most) {
		found, err := b.appeared(ctx, r, w)
		if err != nil || found.machine.SystemID != "" {
			return found, err
		}
		w.Heartbeat()
		select {
		case <-time.After(wait):
		case <-within.Done():
			if ctx.Err() != nil {
				return match{}, ctx.Err()
			}
			return b.sole(ctx, r, w)
		}
	}
}

// within limits a context to the time in which the server must appear in MAAS,
// counted from when it was made to boot.
func (b *Bringup) within(ctx context.Context, w *Work) (context.Context, context.CancelFunc) {
	limit, at := limitOf(w), w.Facts.NetworkBootsAt
	if limit == 0 || at == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, at.Add(limit).Sub(b.now()))
}

func (b *Bringup) pace() (least, most time.Duration) {
	if b.cfg.Watch.Pace != nil {
		return b.cfg.Watch.Pace(maas.StatusNew)
	}
	return maas.DefaultPace(maas.StatusNew)
}

// networkBoot power-cycles the server, once for each start of the stage: a
// second time would interrupt what the first has begun.
func (b *Bringup) networkBoot(ctx context.Context, r *region, w *Work, credentials site.PowerCredentials) error {
	if at := w.Facts.NetworkBootsAt; at != nil && !at.Before(w.Since) {
		return nil
	}
	if b.cfg.BMC == nil {
		return codeNoNetworkBoot.Failed("MAAS does not take a machine without a MAC, and servers cannot be made to boot from here").
			With("add the machine to MAAS by its MAC and with the host name %s, then rerun", w.Hostname).ForGood()
	}
	before := w.Facts
	if w.Facts.NewBefore == nil { // later, the server itself may be among them
		fresh, err := r.Machines(ctx, maas.Filter{Status: []maas.Status{maas.StatusNew}})
		if err != nil {
			return err
		}
		w.Facts.NewBefore = idsOf(fresh)
	}
	now := b.now()
	w.Facts.NetworkBootsAt = &now
	if err := w.Save(ctx); err != nil {
		return err
	}
	if err := w.Fence(ctx); err != nil {
		return err
	}
	if err := b.cfg.BMC.PXECycle(ctx, w.IPMIIP, credentials.User, credentials.Pass); err != nil {
		w.Facts.NewBefore, w.Facts.NetworkBootsAt = before.NewBefore, before.NetworkBootsAt
		return errors.Join(err, w.Save(ctx))
	}
	return nil
}

func idsOf(machines []maas.Machine) []string {
	out := make([]string, len(machines))
	for i, m := range machines {
		out[i] = m.SystemID
	}
	return out
}

// newcomers returns the New machines of MAAS that could be this server: reached are
// those with the address of its BMC, nameless those without any BMC address that no
// other job has claimed.
func (b *Bringup) newcomers(ctx context.Context, r *region, w *Work) (reached, nameless []maas.Machine, err error) {
	fresh, err := r.Machines(ctx, maas.Filter{Status: []maas.Status{maas.StatusNew}})
	if err != nil || len(fresh) == 0 {
		return nil, nil, err
	}
	addresses, err := bmcAddresses(ctx, r, idsOf(fresh)...)
	if err != nil {
		return nil, nil, err
	}
	claimed, err := b.claimed(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range fresh {
		_, taken := claimed[m.SystemID]
		switch address := addresses[m.SystemID]; {
		case address == canonical(w.IPMIIP):
			reached = append(reached, m)
		case address == "" && !taken:
			nameless = append(nameless, m)
		}
	}
	return reached, nameless, nil
}

// appeared checks whether the server has appeared since it was booted.
func (b *Bringup) appeared(ctx context.Context, r *region, w *Work) (match, error) {
	reached, nameless, err := b.newcomers(ctx, r, w)
	if err != nil {
		return match{}, err
	}
	nameless = slices.DeleteFunc(nameless, func(m maas.Machine) bool {
		return slices.Contains(w.Facts.NewBefore, m.SystemID)
	})
	switch {
	case len(reached) == 1:
		return match{reached[0], byPower}, nil
	case len(reached) > 1:
		return match{}, ambiguous(w, byPower, reached)
	case len(nameless) == 1:
		return match{nameless[0], byDiscovery}, nil
	case len(nameless) > 1:
		return match{}, ambiguous(w, byDiscovery, nameless)
	}
	return match{}, nil
}

// sole is the last resort when the time is up: it takes the only New machine,
// if the policy allows it and nothing contradicts it.
func (b *Bringup) sole(ctx context.Context, r *region, w *Work) (match, error) {
	if w.Profile.Policy.AutoClaimSingleNewMachine {
		_, nameless, err := b.newcomers(ctx, r, w)
		if err != nil {
			return match{}, err
		}
		if len(nameless) > 1 {
			return match{}, ambiguous(w, bySoleNew, nameless)
		}
		if len(nameless) == 1 {
			return match{nameless[0], bySoleNew}, nil
		}
	}
	w.Observed = Observed{Status: Absent, At: b.now()}
	return match{}, codeDiscoveryTimeout.Failed("%s was made to boot from the network and did not appear in MAAS",
		w.Hostname).ForGood().
		About(map[string]any{"ipmi_ip": w.IPMIIP, "pxe_iface": w.Site.Settings.PXEIface})
}

func ambiguous(w *Work, by string, machines []maas.Machine) *Failure {
	all := make([]match, len(machines))
	names := make([]string, len(machines))
	for i, m := range machines {
		all[i], names[i] = match{m, by}, fmt.Sprintf("%s (%s)", m.SystemID, m.Hostname)
	}
	return codeDiscoveryAmbiguous.Failed("any of %d New machines could be %s: %s", len(machines), w.Hostname,
		strings.Join(names[:min(len(names), mostCandidates)], ", ")).
		With("give the right one the host name %s in MAAS, then rerun", w.Hostname).ForGood().
		About(map[string]any{"candidates": describe(all...)})
}
