package bringup_test

import (
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// The order is that of the contract, whatever the profile asks for.
func TestLayersOfAFirstBoot(t *testing.T) {
	w := newWorld(t, aFleet(4), func(p *plan) { p.policy.SiteBootstrapBundleRef = set("base@2026.11") })
	w.bundles["base@2026.11"] = []byte("#!/bin/sh\ntrue\n")
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
	if _, err := w.sim.RenderPreseed(with.SystemID); err != nil {
		t.Fatal(err)
	}
	w.does(t, bringup.RenderCloudInit, with)
	if strings.Contains(w.userData(t, with), "token_secret:") {
		t.Error("the first boot has a token in it that MAAS deletes before")
	}
}

func TestNodesAreRecoveredAndNeverTaken(t *testing.T) {
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
	w := newWorld(t, aFleet(3), func(p *plan) { p.policy.SiteBootstrapBundleRef = set("base@1") })
	job := w.ready(t, 1)
	w.fails(t, bringup.RenderCloudInit, job, bringup.SiteCapabilityMissing, "site_bundle_missing")
	w.bundles["base@1"] = []byte("no program")
	w.fails(t, bringup.RenderCloudInit, job, bringup.SiteCapabilityMissing, "site_bundle_unusable")
	w.bundles["base@1"] = []byte("#!/bin/sh\n")
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

func TestBundlesOfAFolder(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("base/2026.11-3", "#!/bin/sh\n")
	write("secret", "secret")
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, "base", "link")); err != nil {
		t.Fatal(err)
	}
	bundles := bringup.BundleFolder(folder)
	program, version, err := bundles.Read("base@2026.11-3")
	if err != nil || string(program) != "#!/bin/sh\n" || version != "2026.11-3" {
		t.Fatalf("got %q, %q, %v", program, version, err)
	}
	for ref, code := range map[string]string{
		"": "site_bundle_ref_invalid", "base": "site_bundle_ref_invalid", "base@": "site_bundle_ref_invalid",
		"@1":        "site_bundle_ref_invalid",
		"../base@1": "site_bundle_ref_invalid", "base@../../secret": "site_bundle_ref_invalid",
		"base@..":  "site_bundle_ref_invalid",
		"base/x@1": "site_bundle_ref_invalid", "Base@1": "site_bundle_ref_invalid", "base@1\n": "site_bundle_ref_invalid",
		"base@1 2": "site_bundle_ref_invalid",
		"base@2":   "site_bundle_missing", "other@1": "site_bundle_missing", "base@link": "site_bundle_unreadable",
	} {
		_, _, err := bundles.Read(ref)
		if f := bringup.Classify(err); err == nil || f.Code.String() != code || f.Class != bringup.SiteCapabilityMissing ||
			!f.Final || f.Remedy == "" {
			t.Errorf("%q: %v", ref, err)
		}
	}
	for name, missing := range map[string]bringup.BundleFolder{
		"none": "",
		"gone": bringup.BundleFolder(filepath.Join(folder, "gone")),
	} {
		if _, _, err := missing.Read("base@1"); bringup.Classify(err).Code.String() != "site_bundle_missing" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
