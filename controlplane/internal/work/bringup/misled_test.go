package bringup_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// A key that was refused is read anew by the next stage, however soon.
func TestARefusedKeyIsReadAnewAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, known(1, "ready"))
	job := w.work(1)
	w.does(t, bringup.LoadSiteConfig, job)
	path := "maas-sites/" + job.Site.ID.String() + "/api-token"
	good, err := w.vault.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	w.fault(t, simfault.Rule{
		Operation: "machines.get", Fault: simfault.ErrorBefore, Status: 401,
		Text: "Authorization Error: Invalid API key.", Count: 1,
	})
	w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.SiteCapabilityMissing, "maas_token_invalid")
	made, _ := w.sim.CreateToken(admin, "rotated").(map[string]string)
	good["token"] = redact.New(made["consumer_key"] + ":" + made["token_key"] + ":" + made["token_secret"])
	if err := w.vault.Put(t.Context(), path, good); err != nil {
		t.Fatal(err)
	}
	for _, old := range w.sim.Tokens(admin).([]map[string]string) {
		if old["name"] != "rotated" {
			if err := w.sim.DeleteToken(admin, strings.Split(old["token"], ":")[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.does(t, bringup.CreateOrFindInMAAS, job)
}

// A deployment that MAAS refuses leaves the machine allocated to the job. What
// was wrong with it can be mended all the same.
func TestAnAllocatedMachineCanStillBeMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.does(t, bringup.RenderCloudInit, job)
	if _, err := w.sim.SetStorageLayout(admin, job.SystemID, url.Values{"storage_layout": {"blank"}}); err != nil {
		t.Fatal(err)
	}
	f := w.fails(t, bringup.DeployViaMAAS, job, bringup.InputConfigError, "deploy_not_started")
	if m := w.machine(t, job.SystemID); m.Status != region.Allocated || !f.Final {
		t.Fatalf("machine is %s, failure is %+v", m.StatusName, f)
	}
	w.unlink(t, job, "eno8303")
	for _, stage := range order[3:9] {
		w.does(t, stage, job)
	}
	w.does(t, bringup.DeployViaMAAS, job)
	w.does(t, bringup.WaitForDeployed, job)
}

// A worker that was cut off may write back that the job has deployed nothing.
// MAAS knows better.
func TestADeploymentIsRecognisedByWhatMAASHasOnRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.does(t, bringup.RenderCloudInit, job)
	stale := *job
	w.does(t, bringup.DeployViaMAAS, job)
	if out := w.does(t, bringup.DeployViaMAAS, &stale); !out.Skipped || stale.Facts.Deploys != 1 {
		t.Errorf("result is %+v, %d deployments are known", out, stale.Facts.Deploys)
	}
}

// Networks of two, which RoCE makes, do not keep the PXE network from being
// recognised as the one of its VLAN.
func TestRoCENetworksAreNoPXENetworks(t *testing.T) {
	w := newWorld(t, known(1, "ready"))
	job := w.work(1)
	w.does(t, bringup.CreateOrFindInMAAS, job)
	vlan, err := json.Marshal(w.nic(t, job, "eno8303").VLAN.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.subnet(t, "172.30.9.60/31", string(vlan))
	w.subnet(t, "172.30.9.62/31", string(vlan))
	i := w.nic(t, job, "eno8303")
	if _, err := w.sim.LinkSubnet(admin, job.SystemID, i.ID,
		url.Values{"mode": {"link_up"}, "force": {"true"}}); err != nil {
		t.Fatal(err)
	}
	w.does(t, bringup.EnsurePXEInterfaceAuto, job)
}

// That MAAS says it has linked an address is no proof.
func TestARoCEAddressMustBeSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, known(1, "ready"))
	job := w.work(1)
	w.does(t, bringup.CreateOrFindInMAAS, job)
	w.assign(t, roce, "172.30.9.61/31", 0)
	text, err := json.Marshal(w.nic(t, job, roce))
	if err != nil {
		t.Fatal(err)
	}
	w.fault(t, simfault.Rule{
		Operation: "interface.link_subnet", Fault: simfault.ErrorBefore, Status: 200,
		ContentType: "application/json", Text: string(text), Count: 1,
	})
	w.fails(t, bringup.ApplyRoCEPhase2, job, bringup.UpstreamTransient, "roce_link_unproven")
	if w.does(t, bringup.ApplyRoCEPhase2, job); job.Facts.RoCEApplied != 1 || len(w.nic(t, job, roce).Links) != 1 {
		t.Errorf("facts are %+v", job.Facts)
	}
}
