package bringup

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/work/job"
)

// RenderCloudInit names the stage "Prepare the first boot".
const RenderCloudInit = "render_cloud_init"

var _ = catalog.Declare(job.Stage{
	Name: RenderCloudInit, Title: "Prepare the first boot", Attempts: 3, Resume: ConfigureStorage,
	Looks:   "whether the node exists",
	Does:    "adds the node to the inventory, issues its token, composes the first boot",
	Expects: "the first boot lies in the secrets engine",
	Again:   "the node is made once; a token replaces the one before",
	Fails: []job.FailureMode{
		MAASAway, job.FailsWith(InputConfigError, "the SKU cannot be used"),
		job.FailsWith(StateAmbiguity, "another node has the hostname"),
	},
}, (*Bringup).RenderCloudInit)

// The codes of failures that only this stage has.
var (
	_ = job.DeclareCode(job.Code{
		Name: "site_bundle_ref_invalid", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The profile names a bootstrap bundle in a form that cannot be read.",
		Remedy:  "give the profile a site_bootstrap_bundle_ref of the form name@version, or none",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "site_bundle_missing", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The profile names a bootstrap bundle that nobody has uploaded for the site.",
		Remedy:  "upload the bundle, or let the profile use another one: gpuaas site bundle use; then resume",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "site_bundle_digest_mismatch", Class: SiteCapabilityMissing, Fault: true,
		Cause: "The profile is pinned to content that differs from the bundle that it names: a replica of an older version " +
			"changed the profile, or somebody changed the database.",
		Remedy:  "find out who changed the profile, choose a bundle (gpuaas site bundle use SITE PROFILE NAME@VERSION), then resume",
		Runbook: "onboarding-parked",
	})
	_ = job.DeclareCode(job.Code{
		Name: "site_bundle_unreadable", Class: SiteCapabilityMissing, Fault: true,
		Cause:   "The stored program of the bootstrap bundle is damaged or lost.",
		Remedy:  "upload it as a new version, let the profile use that, then resume",
		Runbook: "onboarding-parked",
	})
	codeBundleUnusable = job.DeclareCode(job.Code{
		Name: "site_bundle_unusable", Class: SiteCapabilityMissing,
		Cause:   "The bootstrap bundle of the profile cannot be part of a first boot.",
		Remedy:  "repair the bundle and upload it as a new version; then resume",
		Runbook: "onboarding-parked",
	})
	codeNodeConflict = job.DeclareCode(job.Code{
		Name: "node_conflict", Class: StateAmbiguity,
		Cause: "The inventory has another node of the same name, left over from an earlier onboarding.",
		Remedy: "look at the node: gpuaas node list --hostname HOST; remove it if it is the same machine, " +
			"then resume",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.Rerun},
	})
	codeSKUUnusable = job.DeclareCode(job.Code{
		Name: "sku_unusable", Class: InputConfigError,
		Cause:   "The SKU was disabled or deleted after the machine was asked for.",
		Remedy:  "add or enable the SKU, then resume; or cancel and onboard the machine with another one",
		Runbook: "onboarding-parked",
	})
)

// userDataField is the name of a rendered first boot in the secrets engine.
const userDataField = "user_data"

// FirstBootPath is where the secrets engine keeps the first boot that a job of a
// kind rendered.
func FirstBootPath(kind, job string) string { return "first-boot/" + kind + "/" + job }

func firstBootPath(w *Work) string { return FirstBootPath(w.Kind, w.Job) }

// RenderCloudInit adds the node to the inventory and writes down its first boot.
// A machine on which MAAS has begun already has one: rendering another would
// void the token in it.
func (b *Bringup) RenderCloudInit(ctx context.Context, w *Work) (Result, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	if m, err = b.withoutVoid(ctx, r, w, m); err != nil {
		return Result{}, err
	}
	if m.Status == maas.StatusDeploying || m.Status == maas.StatusDeployed {
		if err := b.ourDeployment(ctx, r, w, m); err != nil {
			return Result{}, err
		}
		if err := b.requireNode(ctx, w); err != nil {
			return Result{}, err
		}
		return Result{Skipped: true, Message: fmt.Sprintf("%s is %s with the first boot that this job rendered before",
			w.Hostname, m.Status.Label())}, nil
	}
	if err := w.Fence(ctx); err != nil {
		return Result{}, err
	}
	if err := b.ensureNode(ctx, w, m); err != nil {
		return Result{}, err
	}
	w.Facts.NodeCreated = true
	if vacated(m.Status) { // somebody released what an earlier round deployed
		w.Facts.uninstalled()
	}
	if err := w.Save(ctx); err != nil {
		return Result{}, err
	}
	return b.render(ctx, r, w, m)
}

func (b *Bringup) render(ctx context.Context, r *region, w *Work, m maas.Machine) (Result, error) {
	ttl := time.Duration(w.Profile.Policy.EnrollmentTokenTTLSeconds) * time.Second
	token, expires, err := b.cfg.Nodes.IssueToken(ctx, w.Node, node.Bootstrap, ttl)
	if err != nil {
		return Result{}, err
	}
	layers, err := b.layers(ctx, r, w, m, token)
	if err != nil {
		return Result{}, err
	}
	bundle, err := firstboot.Compose(layers...)
	if err != nil {
		return Result{}, err
	}
	path := firstBootPath(w)
	if err := b.cfg.Secrets.Put(ctx, path, map[string]redact.Secret{userDataField: bundle.UserData}); err != nil {
		return Result{}, fmt.Errorf("keep first boot: %w", err)
	}
	w.Facts.FirstBootPath, w.Facts.FirstBootDigest, w.Facts.FirstBootLayers = path, bundle.Digest, bundle.Layers
	w.Facts.TokenExpiresAt, w.Facts.TokenRefreshes = &expires, 0
	names := make([]string, len(bundle.Layers))
	for i, l := range bundle.Layers {
		names[i] = l.Name + "@" + l.Version
	}
	return Result{
		Message: fmt.Sprintf("node %s is in the inventory; its first boot has the layers %s", w.Node,
			strings.Join(names, ", ")),
		Details: map[string]any{
			"node_id": w.Node.String(), "layers": names, "token_expires_at": expires,
			"initialize_disks": w.InitializeDisks,
		},
	}, nil
}

// layers returns the layers of §9, in the order in which they run.
func (b *Bringup) layers(ctx context.Context, r *region, w *Work, m maas.Machine,
	token redact.Secret,
) ([]firstboot.Layer, error) {
	var out []firstboot.Layer
	for _, layer := range []func() (firstboot.Layer, bool, error){
		func() (firstboot.Layer, bool, error) { return b.siteBundle(ctx, w) },
		func() (firstboot.Layer, bool, error) { return b.deployUser(ctx, w) },
		func() (firstboot.Layer, bool, error) { return b.hardwareSync(ctx, r, w) },
		func() (firstboot.Layer, bool, error) { return diskInit(w) },
		func() (firstboot.Layer, bool, error) { return b.roceRouting(ctx, w, m) },
		func() (firstboot.Layer, bool, error) { return b.agentBootstrap(ctx, token) },
	} {
		l, wanted, err := layer()
		if err != nil {
			return nil, err
		}
		if wanted {
			out = append(out, l)
		}
	}
	return out, nil
}

// siteBundle has exactly the program that the profile was pinned to.
func (b *Bringup) siteBundle(ctx context.Context, w *Work) (l firstboot.Layer, wanted bool, err error) {
	program, version, err := b.cfg.Sites.BundleProgram(ctx, w.Site, w.Profile)
	if err != nil || program == nil {
		return l, false, err
	}
	l, err = firstboot.SiteBundle(program, version)
	if err != nil {
		f := Classify(err)
		return l, false, codeBundleUnusable.Failed("the bundle %s cannot be used: %s",
			w.Profile.Policy.SiteBootstrapBundleRef, f.Message).ForGood().Because(err)
	}
	return l, true, nil
}

// hardwareSync has no token in it: the one that MAAS shows before a deployment is
// void from the allocation on. It comes later, over SSH.
func (b *Bringup) hardwareSync(ctx context.Context, r *region, w *Work) (l firstboot.Layer, wanted bool, err error) {
	if w.Facts.SyncPinned, w.Facts.SyncURL = false, ""; !w.Profile.Policy.RequireHWSync {
		return l, false, nil
	}
	source, err := b.syncSource(ctx, r, w)
	if err != nil {
		return l, false, err
	}
	w.Facts.SyncPinned, w.Facts.SyncURL = source.Digest != "", source.URL
	l, err = firstboot.HardwareSync(source, w.SystemID, w.Profile.Policy.HardwareSyncInterval)
	return l, true, err
}

// shareFilesystem is a file system that every image can make and mount.
const shareFilesystem = "ext4"

// diskInit DESTROYS the data of all disks but the root disk, and is there only
// if the request said so.
func diskInit(w *Work) (l firstboot.Layer, wanted bool, err error) {
	if !w.InitializeDisks {
		return l, false, nil
	}
	l, err = firstboot.DiskInit(firstboot.DiskSpec{Destroy: true, Reformat: true, Filesystem: shareFilesystem})
	return l, true, err
}

// maxAssignments is more than a machine has interfaces.
const maxAssignments = 100

// roceRouting writes routing rules only for the RoCE addresses that MAAS shows on the
// interfaces, because a rule for an interface without its address would fail at the
// first boot.
func (b *Bringup) roceRouting(ctx context.Context, w *Work, m maas.Machine) (l firstboot.Layer, wanted bool,
	err error,
) {
	if w.Facts.RoCEApplied == 0 {
		return l, false, nil
	}
	rows, err := b.cfg.Sites.Assignments(ctx, w.Site.ID, site.AssignmentFilter{Hostname: &w.Hostname},
		postgres.Slice[site.AssignmentKey]{Limit: maxAssignments})
	if err != nil {
		return l, false, err
	}
	var routes []firstboot.RoCEAssignment
	for _, row := range rows {
		cidr, err := netip.ParsePrefix(row.IPv4CIDR)
		if err != nil || !linked(m, row.Interface, cidr.Addr()) {
			continue // phase 2 has told of it
		}
		routes = append(routes, firstboot.RoCEAssignment{Interface: row.Interface, CIDR: cidr, MTU: int(row.MTU)})
	}
	if len(routes) == 0 {
		return l, false, nil
	}
	l, err = firstboot.RoCERouting(routes)
	return l, true, err
}

func linked(m maas.Machine, iface string, addr netip.Addr) bool {
	return slices.ContainsFunc(m.Interfaces, func(i maas.Interface) bool {
		return i.Name == iface && slices.ContainsFunc(i.Links, func(l maas.Link) bool { return l.IPAddress == addr.String() })
	})
}

func (b *Bringup) agentBootstrap(ctx context.Context, token redact.Secret) (l firstboot.Layer, wanted bool, err error) {
	userData, err := b.cfg.Bootstrap.CloudInit(ctx, token)
	if err != nil {
		return l, false, err
	}
	l, err = firstboot.AgentBootstrap(userData)
	return l, true, err
}

// ensureNode adds the node, or recovers the one that an earlier round added. A
// node that is reimaged exists and forgets who it was. From then on only the
// machine that MAAS knows can enrol as it.
func (b *Bringup) ensureNode(ctx context.Context, w *Work, m maas.Machine) error {
	return b.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := b.readyNode(ctx, tx, w); err != nil {
			return err
		}
		return node.Expect(ctx, tx, w.Node, hardwareOf(m), w.Profile.Policy.RequireEnrollmentAddress)
	})
}

func (b *Bringup) readyNode(ctx context.Context, tx pgx.Tx, w *Work) error {
	n, err := node.Get(ctx, tx, w.Node)
	switch {
	case fault.KindOf(err) == fault.NotFound && w.Reimage:
		return nodeMissing(w, err)
	case fault.KindOf(err) == fault.NotFound:
		return createNode(ctx, tx, w)
	case err != nil:
		return err
	}
	if w.Reimage && (n.Status == node.Draining || n.Status == node.Retired) {
		if err := sameNode(n, w); err != nil {
			return err
		}
		_, err := node.Reimaged(ctx, tx, w.Node, w.WorkflowID, "its machine is deployed anew")
		return err
	}
	if err := usable(n, w); err != nil {
		return err
	}
	return node.Await(ctx, tx, w.Node, w.WorkflowID)
}

func nodeMissing(w *Work, err error) *Failure {
	return codeNodeConflict.Failed("node %s (%s) is not in the inventory any more", w.Node, w.Hostname).
		With("cancel: the machine can be onboarded as a new node").ForGood().Because(err)
}

// requireNode makes sure that the node exists that the machine was deployed as.
// Without that node the machine could never enrol.
func (b *Bringup) requireNode(ctx context.Context, w *Work) error {
	n, err := b.cfg.Nodes.Node(ctx, w.Node)
	if fault.KindOf(err) == fault.NotFound && w.Reimage {
		return nodeMissing(w, err)
	}
	if fault.KindOf(err) == fault.NotFound {
		return codeNodeConflict.Failed("%s was deployed as node %s, which is not in the inventory", w.Hostname, w.Node).
			With("restart clean: it releases the machine and begins with a new node").ForGood().Because(err)
	}
	if err != nil {
		return err
	}
	w.Facts.NodeCreated = true
	if w.Reimage && n.Status == node.Active { // it is kept out of scheduling until it is proven clean
		return sameNode(n, w)
	}
	return usable(n, w)
}

// usable refuses a node of the same id that this job cannot go on with.
func usable(n node.Node, w *Work) error {
	if err := sameNode(n, w); err != nil || n.Status == node.Enrolling {
		return err
	}
	f := codeNodeConflict.Failed("node %s (%s) is %s and not enrolling", n.ID, n.Hostname, n.Status).ForGood()
	if w.Reimage {
		return f.With("find out who changed it; rerun begins with where the node is now")
	}
	return f.With("if the node works, adopt the observed state; otherwise take it out of the inventory, then restart clean")
}

func sameNode(n node.Node, w *Work) error {
	if n.Hostname == w.Hostname && n.RegionCode == w.Site.Settings.RegionCode && n.OnboardingMode == node.MAAS {
		return nil
	}
	f := codeNodeConflict.Failed("node %s is %s in region %s, and not the machine %s of this job", n.ID, n.Hostname,
		n.RegionCode, w.Hostname).ForGood()
	if w.Reimage {
		return f.With("find out what that node is; cancel leaves it as it is")
	}
	return f.With("find out what that node is; restart clean begins with a new one")
}

func createNode(ctx context.Context, tx pgx.Tx, w *Work) error {
	kind, err := sku.ForUse(ctx, tx, w.SKU)
	if k := fault.KindOf(err); k == fault.NotFound || k == fault.Conflict {
		f := Classify(err)
		return codeSKUUnusable.Failed("the SKU %s cannot be used: %s", w.SKU, f.Message).ForGood().Because(err)
	}
	if err != nil {
		return err
	}
	_, err = node.CreateInTx(ctx, tx, node.NewNode{
		ID: w.Node, Hostname: w.Hostname, Host: w.Hostname, SKU: w.SKU, GPUsTotal: &kind.GPUsTotal,
		RegionCode: w.Site.Settings.RegionCode,
		Mode:       node.MAAS, AwaitedBy: w.WorkflowID, Grouping: w.Facts.GroupedAs(),
	})
	if fault.CodeOf(err) == "node_hostname_taken" {
		return codeNodeConflict.Failed("region %s has another node %s already", w.Site.Settings.RegionCode, w.Hostname).
			With("look at it: gpuaas node list --hostname %s; remove it if it is the same machine, then resume", w.Hostname).
			ForGood().Because(err)
	}
	return err
}
