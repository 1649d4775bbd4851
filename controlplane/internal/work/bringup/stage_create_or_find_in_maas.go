package bringup

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// CreateOrFindInMAAS names the stage "Find the machine in MAAS".
const CreateOrFindInMAAS = "create_or_find_in_maas"

var _ = catalog.Declare(job.Stage{
	Name: CreateOrFindInMAAS, Title: "Find the machine in MAAS", Attempts: 3,
	Limit: job.Limit(site.StageDiscovery), Resume: CreateOrFindInMAAS,
	Usually: "seconds; up to half an hour when the machine must be discovered first",
	Looks:   "MAAS, by hostname, then power address, then PXE MAC",
	Does:    "creates the machine if MAAS has none, or boots it from the network to be discovered",
	Expects: "exactly one MAAS machine is this one",
	Again:   "it looks before it creates",
	Fails: []job.FailureMode{
		MAASAway, BMCSilent, job.FailsWith(PXEDiscoveryFailure, "the machine does not appear in MAAS in time"),
		job.FailsWith(StateAmbiguity, "several machines may be meant, or the one found is in use"),
	},
}, (*Bringup).CreateOrFindInMAAS)

// The codes of failures that only this stage has.
var (
	codeDiscoveryConflict = job.DeclareCode(job.Code{
		Name: "discovery_conflict", Class: StateAmbiguity,
		Cause: "The host name belongs to one machine of MAAS and the BMC address to another: one of them " +
			"was given wrongly, or a machine was moved.",
		Remedy:  "correct the BMC address in MAAS or in the request, then rerun",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.Rerun},
	})
	codeDiscoveryAmbiguous = job.DeclareCode(job.Code{
		Name: "discovery_ambiguous", Class: StateAmbiguity,
		Cause:   "Several new machines appeared in MAAS at the same time, and nothing proves which one it is.",
		Remedy:  "give the right machine its host name in MAAS, then rerun",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.Rerun},
	})
	codeDiscoveryBusy = job.DeclareCode(job.Code{
		Name: "discovery_busy", Class: UpstreamTransient,
		Cause: "Only one machine of a site is discovered at a time, and this job lost its place in that queue: " +
			"the database was away, or the credentials of MAAS were rotated.",
		Remedy:  "retry: one server at a time is made to boot from the network, so that they can be told apart",
		Runbook: "onboarding-parked",
	})
	codeDiscoveryTimeout = job.DeclareCode(job.Code{
		Name: "discovery_timeout", Class: PXEDiscoveryFailure,
		Cause:   "The machine never asked for a network boot: its boot order, cabling, PXE VLAN or DHCP is wrong.",
		Remedy:  "check the cabling, the boot order and DHCP of the PXE network, then rerun",
		Runbook: "onboarding-parked",
	})
	codeNoNetworkBoot = job.DeclareCode(job.Code{
		Name: "network_boot_unavailable", Class: SiteCapabilityMissing,
		Cause: "MAAS cannot create the machine without its MAC, and gpuaas may not boot it from " +
			"the network.",
		Remedy:  "add the machine to MAAS by its MAC and with its host name, then rerun",
		Runbook: "onboarding-parked",
	})
	codeCreateUnproven = job.DeclareCode(job.Code{
		Name: "create_unproven", Class: UpstreamTransient,
		Cause:   "MAAS did not say whether it created the machine, and does not show it yet.",
		Remedy:  "retry: MAAS is asked for the machine before it is added",
		Runbook: "onboarding-parked",
	})
	codeMachineBound = job.DeclareCode(job.Code{
		Name: "machine_bound", Class: StateAmbiguity,
		Cause:   "The machine in MAAS belongs to another node of the inventory.",
		Remedy:  "find out which node the machine is; if the other node is gone, remove it first, then rerun",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.Rerun},
	})
)

// By what a machine was identified, for Facts.
const (
	byHostname   = "hostname"
	byPower      = "power_address"
	byPXEMAC     = "pxe_mac"
	byCreation   = "created"
	byDiscovery  = "discovered"
	bySoleNew    = "sole_new"
	bmcsFreshFor = 10 * time.Second // the listing is of the whole region, and many ask for it at once
)

// match is a machine of MAAS that could be the one that is meant.
type match struct {
	machine maas.Machine
	by      string
}

// CreateOrFindInMAAS finds the machine in MAAS, by host name, BMC address or PXE
// MAC, or makes MAAS know it. Evidence that contradicts itself stops it.
func (b *Bringup) CreateOrFindInMAAS(ctx context.Context, w *Work) (Result, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	if w.SystemID != "" {
		known, err := look(ctx, r, w.SystemID)
		if err == nil {
			return b.claim(ctx, r, w, match{known, w.Facts.IdentifiedBy})
		}
		if !maas.SaysAbsent(err) {
			return Result{}, err
		}
		forget(w) // it was removed, and may have been added again
	}
	found, err := b.find(ctx, r, w, bmcsFreshFor)
	switch {
	case err != nil:
		return Result{}, err
	case found.machine.SystemID == "":
		return b.create(ctx, r, w)
	}
	return b.claim(ctx, r, w, found)
}

// forget drops what was true of a machine that MAAS does not have any more.
func forget(w *Work) {
	f := w.Facts
	w.Facts = Facts{
		PowerOverride: f.PowerOverride, PowerFingerprint: f.PowerFingerprint, PowerReason: f.PowerReason,
		NodeCreated: f.NodeCreated, FirstBootPath: f.FirstBootPath, FirstBootDigest: f.FirstBootDigest,
		FirstBootLayers: f.FirstBootLayers,
		HostKey:         f.HostKey,
		TokenExpiresAt:  f.TokenExpiresAt, Deploys: f.Deploys, Redeploys: f.Redeploys, Left: f.Left, Asked: f.Asked,
	}
	w.SystemID, w.PXEMAC = "", ""
}

// find looks for the machine. Without one, the match is empty.
func (b *Bringup) find(ctx context.Context, r *region, w *Work, age time.Duration) (match, error) {
	var all []match
	add := func(by string, machines ...maas.Machine) {
		for _, m := range machines {
			if !slices.ContainsFunc(all, func(a match) bool { return a.machine.SystemID == m.SystemID }) {
				all = append(all, match{m, by})
			}
		}
	}
	named, err := r.Machines(ctx, maas.Filter{Hostnames: namesOf(w.Hostname)})
	if err != nil {
		return match{}, err
	}
	add(byHostname, slices.DeleteFunc(named, func(m maas.Machine) bool { return !called(m, w.Hostname) })...)
	addresses, err := r.bmcs.since(ctx, b.now().Add(-age), b.now(),
		func(ctx context.Context) (map[string]string, error) { return bmcAddresses(ctx, r) })
	if err != nil {
		return match{}, err
	}
	reached, err := b.reachedBy(ctx, r, w, addresses, all)
	if err != nil {
		return match{}, err
	}
	add(byPower, reached...)
	if w.PXEMAC != "" {
		wired, err := r.Machines(ctx, maas.Filter{MACs: []string{w.PXEMAC}})
		if err != nil {
			return match{}, err
		}
		add(byPXEMAC, wired...)
	}
	switch len(all) {
	case 0:
		return match{}, nil
	case 1:
		return all[0], b.refuseOtherBMC(ctx, r, w, all[0], addresses)
	default:
		return match{}, conflicting(w, all)
	}
}

// namesOf are the words under which MAAS may have a host name: it keeps the
// domain apart.
func namesOf(hostname string) []string {
	if label, _, dotted := strings.Cut(hostname, "."); dotted {
		return []string{hostname, label}
	}
	return []string{hostname}
}

func called(m maas.Machine, hostname string) bool {
	return strings.EqualFold(m.Hostname, hostname) || strings.EqualFold(m.FQDN, hostname)
}

// bmcAddresses keeps nothing of the credentials that come with them.
func bmcAddresses(ctx context.Context, r *region, ids ...string) (map[string]string, error) {
	powers, err := r.PowerOf(ctx, ids...)
	out := make(map[string]string, len(powers))
	for id, p := range powers {
		out[id] = canonical(p.Address)
	}
	return out, err
}

// canonical is the one way to write an address.
func canonical(address string) string {
	if a, err := netip.ParseAddr(strings.TrimSpace(address)); err == nil {
		return a.Unmap().String()
	}
	return strings.ToLower(strings.TrimSpace(address))
}

// reachedBy finds the machines with the address of the BMC, but for those that
// are known already. The listing may be some seconds old, so they are looked at.
func (b *Bringup) reachedBy(ctx context.Context, r *region, w *Work, addresses map[string]string,
	known []match,
) ([]maas.Machine, error) {
	var ids []string
	for id, address := range addresses {
		if address == canonical(w.IPMIIP) && !slices.ContainsFunc(known,
			func(k match) bool { return k.machine.SystemID == id }) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	now, err := bmcAddresses(ctx, r, ids...)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return now[id] != canonical(w.IPMIIP) })
	if len(ids) == 0 {
		return nil, nil
	}
	return r.Machines(ctx, maas.Filter{IDs: ids})
}

// refuseOtherBMC refuses a machine that is reached by another BMC than the one
// that was given: name and address would mean two servers.
func (b *Bringup) refuseOtherBMC(ctx context.Context, r *region, w *Work, found match,
	addresses map[string]string,
) error {
	id := found.machine.SystemID
	address, listed := addresses[id]
	if listed && address == canonical(w.IPMIIP) {
		return nil
	}
	now, err := bmcAddresses(ctx, r, id)
	if err != nil {
		return err
	}
	if address = now[id]; address == "" || address == canonical(w.IPMIIP) {
		return nil
	}
	return codeDiscoveryConflict.Failed("MAAS machine %s matches by %s, but its BMC address is %s and not %s", id,
		found.by, address, w.IPMIIP).ForGood().
		About(map[string]any{"candidates": describe(found), "bmc_address_in_maas": address, "ipmi_ip": w.IPMIIP})
}

func conflicting(w *Work, all []match) *Failure {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = fmt.Sprintf("%s (%s) by %s", a.machine.SystemID, a.machine.Hostname, a.by)
	}
	return codeDiscoveryConflict.Failed("more than one machine of MAAS could be %s: %s", w.Hostname,
		strings.Join(texts, ", ")).
		With("remove or correct the wrong ones in MAAS, or correct the request, then rerun").ForGood().
		About(map[string]any{"candidates": describe(all...)})
}

// mostCandidates bounds what is written down of them.
const mostCandidates = 10

func describe(all ...match) []map[string]any {
	out := []map[string]any{}
	for _, a := range all[:min(len(all), mostCandidates)] {
		out = append(out, map[string]any{
			"system_id": a.machine.SystemID, "hostname": a.machine.Hostname, "status": a.machine.Status.Label(),
			"matched_by": a.by,
		})
	}
	return out
}

// create makes MAAS know the machine. MAAS takes a host name once only, so the
// worst that a repetition can meet is a refusal.
func (b *Bringup) create(ctx context.Context, r *region, w *Work) (Result, error) {
	credentials, err := b.power(ctx, w)
	if err != nil {
		return Result{}, err
	}
	if err := w.Fence(ctx); err != nil {
		return Result{}, err
	}
	made, err := r.Create(ctx, maas.CreateOptions{Attributes: maas.Attributes{
		Hostname: w.Hostname, Architecture: w.Profile.Policy.Architecture,
		Power: powerSettings(w, credentials),
	}})
	switch {
	case err == nil:
		w.Facts.PowerWritten = w.Facts.PowerFingerprint
		return b.claim(ctx, r, w, match{made, byCreation})
	case complainsOf(err, "mac_addresses"):
		return b.discover(ctx, r, w, credentials)
	case fault.KindOf(err) != fault.Ambiguous && !complainsOf(err, "hostname"):
		return Result{}, err
	}
	found, lookErr := b.find(ctx, r, w, 0)
	switch {
	case lookErr != nil:
		return Result{}, lookErr
	case found.machine.SystemID == "":
		return Result{}, codeCreateUnproven.Failed("MAAS did not confirm that it added %s, and does not have it", w.Hostname).
			Because(err)
	case found.by == byHostname && found.machine.Status == maas.StatusNew:
		found.by = byCreation
	}
	return b.claim(ctx, r, w, found)
}

func complainsOf(err error, field string) bool {
	f, ok := fault.As(err)
	return ok && f.Code == maas.CodeFieldErrors && slices.ContainsFunc(f.Fields,
		func(p fault.Field) bool { return p.Path == field })
}

// claim takes a machine for the job, unless somebody else has it.
func (b *Bringup) claim(ctx context.Context, r *region, w *Work, found match) (Result, error) {
	m := found.machine
	b.see(w, m)
	if free, err := b.available(ctx, r, w, m); err != nil || !free {
		return Result{}, orForeign(err, m, w)
	}
	bound, err := binding.ByMachine(ctx, b.cfg.DB, w.Site.ID, m.SystemID)
	switch {
	case err == nil && bound.Node != w.Node:
		return Result{}, codeMachineBound.Failed("machine %s (%s) is node %s already", m.SystemID, m.Hostname, bound.Node).
			With("decommission that node first, or correct the request").ForGood().
			About(map[string]any{"node_id": bound.Node.String(), "system_id": m.SystemID})
	case err != nil && fault.KindOf(err) != fault.NotFound:
		return Result{}, err
	}
	if err := b.refuseClaimed(ctx, w, m); err != nil {
		return Result{}, err
	}
	again, before := w.SystemID == m.SystemID, *w
	w.SystemID, w.Facts.IdentifiedBy = m.SystemID, found.by
	w.Facts.NewBefore, w.Facts.NetworkBootsAt, w.Facts.QueuedAt = nil, nil, nil
	notePXEMAC(w, m)
	if err := w.Save(ctx); err != nil { // another job may have been faster
		w.SystemID, w.PXEMAC, w.Facts = before.SystemID, before.PXEMAC, before.Facts
		return Result{}, err
	}
	out := Result{
		Message: fmt.Sprintf("MAAS machine %s (%s), %s: %s", m.SystemID, m.Hostname, m.Status.Label(), said[found.by]),
		Details: map[string]any{"system_id": m.SystemID, "identified_by": found.by, "maas_status": m.Status.Label()},
	}
	out.Skipped = again
	return out, nil
}

// refuseClaimed refuses a machine that another job has taken for itself and not
// made a node of yet, whatever evidence led here.
func (b *Bringup) refuseClaimed(ctx context.Context, w *Work, m maas.Machine) error {
	claimed, err := b.claimed(ctx, w)
	if err != nil {
		return err
	}
	by, taken := claimed[m.SystemID]
	if !taken {
		return nil
	}
	return CodeMachineClaimed.Failed("machine %s (%s) is being brought up by job %s already", m.SystemID, m.Hostname, by).
		With("find out which of the two jobs the machine belongs to, cancel or correct the other, then rerun").ForGood().
		About(map[string]any{"job_id": by, "system_id": m.SystemID})
}

// claimed are the machines of other jobs.
func (b *Bringup) claimed(ctx context.Context, w *Work) (map[string]string, error) {
	if b.cfg.Claims == nil {
		return nil, nil
	}
	return b.cfg.Claims.ClaimedMachines(ctx, w.Site.ID, w.Job)
}

var said = map[string]string{
	byHostname: "found by its host name", byPower: "found by the address of its BMC", byPXEMAC: "found by its PXE MAC",
	byCreation: "added by this job", byDiscovery: "appeared when this job made it boot from the network",
	bySoleNew: "the only New machine, claimed by the policy of the profile",
}

func notePXEMAC(w *Work, m maas.Machine) {
	if m.BootInterface != nil && m.BootInterface.MAC != "" {
		w.PXEMAC = strings.ToLower(m.BootInterface.MAC)
	}
}

// available says whether the machine is this job's, or nobody's: also not of
// somebody who had it when it was taken out of service.
func (b *Bringup) available(ctx context.Context, r *region, w *Work, m maas.Machine) (bool, error) {
	switch m.Status {
	case maas.StatusNew, maas.StatusReady, maas.StatusCommissioning, maas.StatusFailedCommissioning:
		return !m.Locked, nil
	case maas.StatusTesting, maas.StatusFailedTesting, maas.StatusBroken:
		return !m.Locked && (m.OSystem == "" || ours(m, w)), nil // deployed machines are tested, too
	default:
		return holds(ctx, r, w, m)
	}
}

func orForeign(err error, m maas.Machine, w *Work) error {
	if err != nil {
		return err
	}
	return foreign(m, w)
}
