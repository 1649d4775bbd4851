package allocation_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/rent/allocation"
)

// bind makes nodes machines of a MAAS.
func (w *world) bind(tb testing.TB, nodes ...id.Node) {
	tb.Helper()
	region, url, iface := "eu", "http://maas.example:5240/MAAS", "ens19"
	if w.count(tb, `SELECT count(*) FROM maas_sites`) == 0 {
		if _, err := site.New(site.Config{DB: w.db}).CreateSite(w.ctx, "yard", site.SettingsChange{
			RegionCode: &region, APIBaseURL: &url, PXEIface: &iface, NodePXEIface: &iface,
		}); err != nil {
			tb.Fatal(err)
		}
	}
	for _, n := range nodes {
		w.exec(tb, `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id)
			SELECT $1, p.site_id, p.id, $2 FROM maas_site_profiles p LIMIT 1`, n, "m"+n.String()[30:])
	}
}

// Root is given only where MAAS can install the machine anew: on any other node it
// could never be taken back.
func TestAttackRootOnANodeThatNobodyCanReinstall(t *testing.T) {
	w := newWorld(t)
	w.node(t, "by-hand")
	_, err := w.try(allocation.Ask{Access: allocation.RootAccess})
	f, _ := fault.As(err)
	if f == nil || f.Code != allocation.CodeUnavailable || len(f.Fields) != 1 ||
		f.Fields[0].Path != "capacity.not_reinstallable" {
		t.Fatalf("%v", err)
	}
	c, err := w.service.Explain(w.ctx, allocation.Ask{SKU: h200, Project: w.project, Access: allocation.RootAccess})
	if err != nil || c.Free != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	w.create(t, allocation.Ask{}) // without root it is as good as any
	bound := w.node(t, "of-maas")
	w.bind(t, bound)
	if a := w.create(t, allocation.Ask{Access: allocation.RootAccess})[0]; a.Node != bound {
		t.Errorf("placed on %s", a.Hostname)
	}
}

// An operator who places an allocation for a project does not get in with keys of
// his own: he may not open terminals either.
func TestAttackAnOperatorsOwnKeyOpensNoRentedNode(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 3)
	u := id.New[id.User]()
	mine, shared := id.New[id.SSHKey](), id.New[id.SSHKey]()
	w.exec(t, `INSERT INTO users (id, email, name, platform_role) VALUES ($1, 'op@example.com', 'Op', 'operator')`, u)
	w.exec(t, `INSERT INTO ssh_keys (id, user_id, name, algorithm, public_key, fingerprint, added_by)
		VALUES ($1, $2, 'mine', 'ssh-ed25519', 'ssh-ed25519 AAAAC3Nz', 'SHA256:x', 'op')`, mine, u)
	w.exec(t, `INSERT INTO ssh_keys (id, project_id, name, algorithm, public_key, fingerprint, added_by)
		VALUES ($1, $2, 'shared', 'ssh-ed25519', 'ssh-ed25519 AAAAC3Ny', 'SHA256:y', 'ann')`, shared, w.project)
	operator := &auth.Principal{Kind: auth.KindUser, ID: u.String(), Name: "Op", Platform: auth.Operator}
	w.ctx = auth.With(t.Context(), operator)
	if a := w.create(t, allocation.Ask{})[0]; len(a.Keys) != 1 || a.Keys[0].ID != shared {
		t.Errorf("its keys are %+v", a.Keys)
	}
	_, err := w.try(allocation.Ask{Keys: []id.SSHKey{mine}})
	if f, _ := fault.As(err); f == nil || f.Code != "ssh_key_not_of_project" || f.Remedy == "" {
		t.Errorf("%v", err)
	}
	operator.Projects = map[id.Project]auth.ProjectRole{w.project: {Org: w.org, Role: auth.ProjectMember}}
	if a := w.create(t, allocation.Ask{})[0]; len(a.Keys) != 2 {
		t.Errorf("a member's keys are %+v", a.Keys)
	}
}

const tellsOfLogins = `capabilities = '{"agent.handover": "1"}'`

func TestAnAccountThatNobodyCanLogInToIsNoAllocation(t *testing.T) {
	w := newWorld(t)
	w.agents.noLogin = true
	w.node(t, "n1", tellsOfLogins)
	a := w.provision(t, w.create(t, allocation.Ask{})[0])
	if a.Status != allocation.Failed || a.Failure.Code != "login_not_possible" || w.claims(t, a.ID) != 1 {
		t.Errorf("%s, %+v", a.Status, a.Failure)
	}
	w.node(t, "n2") // an earlier agent does not look
	w.active(t, allocation.Ask{})
}

// A uid that somebody had on the installation is passed over, and the tenant is not
// told whose it was.
func TestAUIDThatSomebodyHadIsPassedOver(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	w.agents.hadUID = map[int]bool{20000: true, 20001: true}
	a := w.active(t, allocation.Ask{})
	if a.UID != 20002 || a.Username != "u20002" {
		t.Errorf("uid %d, account %s", a.UID, a.Username)
	}
	for uid := range 100 {
		w.agents.hadUID[20000+uid] = true
	}
	w.node(t, "n2")
	b := w.provision(t, w.create(t, allocation.Ask{})[0])
	if b.Status != allocation.Failed || b.Failure.Code != "id_used_before" ||
		strings.Contains(b.Failure.Reason, "mallory") {
		t.Errorf("%s, %+v", b.Status, b.Failure)
	}
	if told := w.count(t, `SELECT count(*) FROM allocation_events WHERE message || details::text LIKE '%mallory%'`); told != 0 {
		t.Error("the timeline names another tenant")
	}
	w.exec(t, `UPDATE allocation_uids SET next_uid = 60000 WHERE node_id = $1`, n)
	w.clean(t, w.release(t, a))
	w.cleanups.cleaned(t, n)
	w.agents.hadUID = nil
	if last := w.active(t, allocation.Ask{}); last.UID != 20000 {
		t.Errorf("after the last uid comes %d", last.UID)
	}
}

// Whoever provisions ahead of the workflow and the workflow itself may meet the same refusal:
// then the next uid is taken once, so that the row keeps the uid that its node is given.
func TestARefusedUIDIsReplacedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node(t, "n1")
	w.agents.silent = true
	a := w.create(t, allocation.Ask{})[0]
	if _, err := (&allocation.Activities{Service: w.service}).BeginProvisioning(w.ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	seen := w.get(t, a.ID)
	for range 2 {
		if err := w.service.Refused(w.ctx, seen); err != nil {
			t.Fatal(err)
		}
	}
	if now := w.get(t, a.ID); now.UID != seen.UID+1 {
		t.Errorf("the uid is %d after %d was refused to two at once", now.UID, seen.UID)
	}
}
