package bringup_test

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// bundle uploads a bundle, and lets the profile use it.
func (w *world) bundle(tb testing.TB, ref, program string) {
	tb.Helper()
	ctx := system(tb)
	name, version, _ := strings.Cut(ref, "@")
	upload, err := w.sites.BeginBundle(ctx, w.site.ID, site.NewBundle{
		Name: name, Version: version, Digest: blob.DigestOf([]byte(program)), Size: int64(len(program)),
	})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.sites.AddToBundle(ctx, w.site.ID, ref, upload.ID, 0, []byte(program)); err != nil {
		tb.Fatal(err)
	}
	if _, err := w.sites.CompleteBundle(ctx, w.site.ID, ref, upload.ID); err != nil {
		tb.Fatal(err)
	}
	if w.profile, err = w.sites.UseBundle(ctx, w.site.ID, w.profile.ID, ref, ""); err != nil {
		tb.Fatal(err)
	}
}

// The order is that of the contract, whatever the profile asks for.
func TestLayersOfAFirstBoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(4))
	w.bundle(t, "base@2026.11", "#!/bin/sh\ntrue\n")
	job := w.ready(t, 1)
	ethernet := w.machine(t, job.SystemID).Interfaces[2].Name
	if _, err := w.sites.UpsertAssignments(system(t), w.site.ID, []site.AssignmentRow{
		{Hostname: job.Hostname, Interface: ethernet, IPv4CIDR: "172.30.9.61/31", MTU: 9000},
		{Hostname: job.Hostname, Interface: "absent0", IPv4CIDR: "172.30.9.63/31"},
	}); err != nil {
		t.Fatal(err)
	}
	w.does(t, bringup.ApplyRoCEPhase2, job)
	if job.Facts.RoCEApplied != 1 {
		t.Fatalf("facts are %+v", job.Facts)
	}
	job.InitializeDisks = true
	result := w.does(t, bringup.RenderCloudInit, job)
	if got, want := layerNames(job), []string{
		"site-bundle", "deploy-user", "hardware-sync", "disk-init", "roce-routing",
		"agent-bootstrap",
	}; !slices.Equal(got, want) {
		t.Errorf("layers are %v, want %v", got, want)
	}
	if job.Facts.FirstBootLayers[0].Version != "2026.11" {
		t.Errorf("the site bundle is %+v", job.Facts.FirstBootLayers[0])
	}
	rendered := w.userData(t, job)
	for _, want := range []string{"--destroy", "--reformat", ethernet + " 172.30.9.61 ", w.site.Settings.DeployUser} {
		if !strings.Contains(rendered, want) {
			t.Errorf("the first boot lacks %q", want)
		}
	}
	if strings.Contains(rendered, "absent0") {
		t.Error("an interface that MAAS does not have is routed")
	}
	w.told(t, job, result)

	// Neither disks nor RoCE without having been asked for.
	plain := w.ready(t, 2)
	asked := node.Grouping{Rack: "c07", Pool: "training", Labels: map[string]string{"fabric": "ib0"}}
	plain.Facts.Asked = &bringup.AskedFacts{Grouping: &asked}
	w.does(t, bringup.RenderCloudInit, plain)
	if n, err := w.nodes.Node(t.Context(), plain.Node); err != nil || !reflect.DeepEqual(n.Grouping, asked) {
		t.Errorf("the node is grouped as %+v, %v", n.Grouping, err)
	}
	if got, want := layerNames(plain), []string{
		"site-bundle", "deploy-user", "hardware-sync",
		"agent-bootstrap",
	}; !slices.Equal(got, want) {
		t.Errorf("layers are %v, want %v", got, want)
	}

	// The token that MAAS shows before the allocation is void by the first boot.
	with := w.ready(t, 3)
	w.happens(t, with.SystemID, "netboot")
	if shown, err := w.sim.MachineToken(admin, with.SystemID); err != nil || shown == nil {
		t.Fatalf("MAAS shows the token %v, %v", shown, err)
	}
	w.does(t, bringup.RenderCloudInit, with)
	if strings.Contains(w.userData(t, with), "token_secret:") {
		t.Error("the first boot has a token in it that MAAS deletes before")
	}
}

func TestNodesAreRecoveredAndNeverTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(6))
	ctx := system(t)
	t.Run("recovered", func(t *testing.T) {
		job := w.ready(t, 1)
		w.does(t, bringup.RenderCloudInit, job)
		first := secretForms[0].FindString(w.userData(t, job))
		job.WorkflowID = "another"
		w.does(t, bringup.RenderCloudInit, job)
		if second := secretForms[0].FindString(w.userData(t, job)); second == first || second == "" {
			t.Error("the token is not fresh")
		}
		if _, err := w.nodes.TokenGrant(ctx, redact.New(first)); err == nil {
			t.Error("the old token still works")
		}
		if n, err := w.nodes.Node(ctx, job.Node); err != nil || n.AwaitedBy != "another" {
			t.Errorf("node is %+v, %v", n, err)
		}
	})
	t.Run("the name is taken", func(t *testing.T) {
		job := w.ready(t, 2)
		if _, _, err := w.nodes.Create(ctx, node.NewNode{
			Hostname: job.Hostname, SKU: someSKU,
			RegionCode: "eu-1",
		}); err != nil {
			t.Fatal(err)
		}
		w.fails(t, bringup.RenderCloudInit, job, bringup.StateAmbiguity, "node_conflict")
		if slices.Contains(w.vault.paths(), "first-boot/onboarding/"+job.Job) {
			t.Error("a first boot was rendered")
		}
	})
	t.Run("the id is of another machine", func(t *testing.T) {
		job := w.ready(t, 3)
		w.does(t, bringup.RenderCloudInit, job)
		other := w.ready(t, 4)
		other.Node = job.Node
		w.fails(t, bringup.RenderCloudInit, other, bringup.StateAmbiguity, "node_conflict")
	})
	t.Run("the node was given up", func(t *testing.T) {
		job := w.ready(t, 4)
		w.does(t, bringup.RenderCloudInit, job)
		if err := w.bringup.Compensate(ctx, job); err != nil {
			t.Fatal(err)
		}
		w.fails(t, bringup.RenderCloudInit, job, bringup.StateAmbiguity, "node_conflict")
		job.Node = id.New[id.Node]()
		w.does(t, bringup.RenderCloudInit, job)
	})
	t.Run("the node of a deployed machine is gone", func(t *testing.T) {
		job := w.ready(t, 5)
		w.does(t, bringup.RenderCloudInit, job)
		w.does(t, bringup.DeployViaMAAS, job)
		w.does(t, bringup.WaitForDeployed, job)
		job.Node = id.New[id.Node]()
		w.fails(t, bringup.RenderCloudInit, job, bringup.StateAmbiguity, "node_conflict")
	})
	t.Run("the SKU", func(t *testing.T) {
		job := w.ready(t, 6)
		job.SKU = "no-such"
		w.fails(t, bringup.RenderCloudInit, job, bringup.InputConfigError, "sku_unusable")
		skus := sku.New(w.db)
		known, err := skus.Get(ctx, someSKU)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := skus.Update(ctx, someSKU, known.Version, sku.Change{Status: set(sku.Disabled)}); err != nil {
			t.Fatal(err)
		}
		job.SKU = someSKU
		w.fails(t, bringup.RenderCloudInit, job, bringup.InputConfigError, "sku_unusable")
	})
}

func TestWhatASiteLacksForAFirstBoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(3))
	w.bundle(t, "base@1", "#!/bin/sh\n")
	job := w.ready(t, 1)
	for code, damage := range map[string]func(*site.Profile){
		"site_bundle_missing":         func(p *site.Profile) { p.Policy.SiteBootstrapBundleRef = "base@2" },
		"site_bundle_ref_invalid":     func(p *site.Profile) { p.Policy.SiteBootstrapBundleRef = "../base@1" },
		"site_bundle_digest_mismatch": func(p *site.Profile) { p.BundleDigest = strings.Repeat("0", 64) },
	} {
		job.Profile = w.profile
		damage(&job.Profile)
		w.fails(t, bringup.RenderCloudInit, job, bringup.SiteCapabilityMissing, code)
	}
	job.Profile = w.profile
	if _, err := w.owner.Exec(t.Context(), `UPDATE blob_chunks SET data = '#!/bin/evil'`); err != nil {
		t.Fatal(err)
	}
	w.fails(t, bringup.RenderCloudInit, job, bringup.SiteCapabilityMissing, "site_bundle_unreadable")
	w.bundle(t, "base@2", "#!/bin/sh\n# mended\n")
	job.Profile = w.profile
	w.does(t, bringup.RenderCloudInit, job)

	broken := w.ready(t, 3)
	w.fault(t, simfault.Rule{Fault: simfault.ErrorBefore, Operation: "machine.get", Status: 503})
	_, err := w.bringup.RenderCloudInit(system(t), broken)
	if f := bringup.Classify(err); err == nil || f.Class != bringup.UpstreamTransient || f.Final {
		t.Errorf("MAAS does not answer: %v", err)
	}
	w.told(t, broken)
}

// A machine that somebody else holds gets no node and no token.
func TestAForeignMachineGetsNoFirstBoot(t *testing.T) {
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	if _, err := w.sim.Deploy(admin, job.SystemID, url.Values{}); err != nil {
		t.Fatal(err)
	}
	w.fails(t, bringup.RenderCloudInit, job, bringup.StateAmbiguity, "machine_in_use")
	if _, err := w.nodes.Node(t.Context(), job.Node); err == nil {
		t.Error("a node was made")
	}
	if m := w.machine(t, job.SystemID); m.Status == region.Ready {
		t.Error("the machine was released")
	}
}
