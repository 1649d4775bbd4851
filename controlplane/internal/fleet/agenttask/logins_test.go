package agenttask_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// bound is a node in service whose machine came from MAAS.
func (w *world) bound(t *testing.T, system string) id.Node {
	t.Helper()
	n := w.node(t)
	site, profile := id.New[id.Site](), id.New[id.Profile]()
	w.exec(t, `INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt, deploy_user)
		VALUES ($1, $2, 'eu-1', 'http://maas.example:5240/MAAS', 'ens19', 0, 'eno1', decode(repeat('00', 16), 'hex'), 'hpcadmin')`, site, system)
	w.exec(t, `INSERT INTO maas_site_profiles (id, site_id, name) VALUES ($1, $2, 'default')`, profile, site)
	w.exec(t, `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id, ipmi_ip, pxe_mac, last_maas_status, last_maas_power_state, last_maas_ips)
		VALUES ($1, $2, $3, $4, '', '', 'Deployed', 'on', '{}')`, n, site, profile, system)
	w.exec(t, `UPDATE nodes SET status = 'active' WHERE id = $1`, n)
	return n
}

// A site whose login cannot be locked must not keep those of all others open.
func TestAttackALoginThatCannotBeLockedKeepsOthersOpen(t *testing.T) {
	w := newWorld(t)
	first, second := w.bound(t, "abc123"), w.bound(t, "abc234")
	if second.String() < first.String() {
		first, second = second, first
	}
	w.exec(t,
		`UPDATE maas_sites SET deploy_user = 'root' WHERE id = (SELECT site_id FROM node_maas_state WHERE node_id = $1)`,
		first)
	got, err := w.commands.LockLogins(t.Context())
	if got != 1 || err == nil || !strings.Contains(err.Error(), first.String()) {
		t.Errorf("%d nodes were asked, %v", got, err)
	}
	if e := w.poll(t, second); e == nil || e.Type != agentwire.TypeLoginLock {
		t.Errorf("the other node got %+v", e)
	}
}

// Machines of before each had a login of its own share a password: whoever had one
// of them is kept out of the others without anybody asking.
func TestAttackThePasswordOfTheSiteOpensNodesOfBefore(t *testing.T) {
	w := newWorld(t)
	old, manual := w.bound(t, "abc123"), w.node(t)
	w.exec(t, `UPDATE nodes SET status = 'active' WHERE id = $1`, manual)
	sweep := func(want int) {
		t.Helper()
		if got, err := w.commands.LockLogins(t.Context()); err != nil || got != want {
			t.Fatalf("%d nodes were asked, %v; want %d", got, err, want)
		}
	}
	w.exec(t, `UPDATE nodes SET held_by = 'decommission x' WHERE id = $1`, old)
	sweep(0)
	w.exec(t, `UPDATE nodes SET held_by = '', status = 'quarantined' WHERE id = $1`, old) // later, wherever it is by then
	sweep(1)
	sweep(0)
	e := w.poll(t, old)
	if e == nil || e.Type != agentwire.TypeLoginLock || !strings.Contains(string(e.Params), `"hpcadmin"`) {
		t.Fatalf("the node got %+v", e)
	}
	task, err := id.Parse[id.NodeTask](e.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	// One that could not is asked again another day.
	failed := agentwire.ResultRequest{
		Attempt: 1, Status: agentwire.ResultFailed,
		Error: &agentwire.TaskError{Code: "account_not_locked", Message: "no"},
	}
	if err := w.queue.Result(t.Context(), old, task, failed); err != nil {
		t.Fatal(err)
	}
	sweep(0)
	w.clock.pass(25 * time.Hour)
	sweep(1)
	if e = w.poll(t, old); e == nil {
		t.Fatal("the node got nothing")
	}
	if task, err = id.Parse[id.NodeTask](e.TaskID); err != nil {
		t.Fatal(err)
	}
	if err := w.queue.Result(t.Context(), old, task,
		succeeded(t, 1, agentwire.LoginLockOutput{Existed: true, Searched: true, Closed: []string{}})); err != nil {
		t.Fatal(err)
	}
	w.clock.pass(48 * time.Hour)
	sweep(0)
	// Whoever installs it anew gives it another life, and another login.
	w.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, old)
	sweep(1)
	// Twice on one day as well: what the earlier life was asked is void.
	w.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, old)
	w.sweep(t, 1)
	sweep(1)
	if w.count(t, `SELECT count(*) FROM node_tasks t JOIN nodes n ON n.id = t.node_id AND n.generation = t.generation
		WHERE n.id = $1 AND t.status = 'queued'`, old) != 1 {
		t.Error("another installation on the same day was not asked")
	}
	if got := w.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1`, manual); got != 0 {
		t.Errorf("a node that nobody deployed was given %d tasks", got)
	}
}

// lockedAs hands in what an agent made of the task that it was given, and says which
// account that named.
func (w *world) lockedAs(t *testing.T, n id.Node, out agentwire.LoginLockOutput) (account string) {
	t.Helper()
	e := w.poll(t, n)
	if e == nil || e.Type != agentwire.TypeLoginLock {
		t.Fatalf("the node got %+v", e)
	}
	var p agentwire.LoginLockParams
	if err := json.Unmarshal(e.Params, &p); err != nil {
		t.Fatal(err)
	}
	task, err := id.Parse[id.NodeTask](e.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	out.Closed = []string{}
	if err := w.queue.Result(t.Context(), n, task, succeeded(t, 1, out)); err != nil {
		t.Fatal(err)
	}
	return p.Username
}

// A site that calls its deploy user otherwise since must not leave the account open
// that its machines were deployed with: the one that was deployed counts, and where
// that was not kept, an account that is not there proves nothing.
func TestAttackARenamedDeployUserKeepsTheOldLoginOpen(t *testing.T) {
	w := newWorld(t)
	kept, guessed, searching := w.bound(t, "abc123"), w.bound(t, "abc234"), w.bound(t, "abc345")
	for i, facts := range []string{
		`{"deployed_at": "2026-01-01T00:00:00Z", "deploy_user": "before"}`,
		`{"deploy_user": "not-deployed"}`,
	} {
		w.exec(t, `WITH made AS (INSERT INTO jobs (id, family, site_id, subject, node_id, status, phase, current_stage, workflow_id, requested_by,
				correlation_id, completed_at)
				SELECT $1, 'onboarding', site_id, 'm1', node_id, 'completed', 'over', 'x', 'x', 'x', 'x', now() FROM node_maas_state WHERE node_id = $3
				RETURNING id, node_id)
			INSERT INTO onboarding_jobs (job_id, profile_id, sku_id, ipmi_ip, facts)
			SELECT made.id, m.profile_id, 'h200-sxm-baremetal-8g', '', $2 FROM made JOIN node_maas_state m USING (node_id)`,
			id.NewString(), facts, []id.Node{kept, guessed}[i])
	}
	sweep := func(want int) {
		t.Helper()
		if got, err := w.commands.LockLogins(t.Context()); err != nil || got != want {
			t.Fatalf("%d nodes were asked, %v; want %d", got, err, want)
		}
	}
	unproven := func(want ...id.Node) {
		t.Helper()
		got, err := agenttask.UnprovenLogins(t.Context(), w.db, []id.Node{kept, guessed, searching})
		if err != nil || len(got) != len(want) {
			t.Fatalf("not proven are %v, %v; want %v", got, err, want)
		}
		for _, n := range want {
			if got[n] != "hpcadmin" {
				t.Errorf("of %s: %q", n, got[n])
			}
		}
	}
	sweep(3)
	unproven()
	if got := w.lockedAs(t, kept, agentwire.LoginLockOutput{}); got != "before" {
		t.Errorf("the account %s is locked, and another one was deployed", got)
	}
	if got := w.lockedAs(t, guessed, agentwire.LoginLockOutput{}); got != "hpcadmin" {
		t.Errorf("the account %s is locked", got)
	}
	w.lockedAs(t, searching, agentwire.LoginLockOutput{Searched: true})
	unproven(guessed)
	sweep(0)
	w.clock.pass(25 * time.Hour)
	sweep(1)
	w.lockedAs(t, guessed, agentwire.LoginLockOutput{Searched: true, Others: []string{"before"}})
	unproven()
	w.clock.pass(25 * time.Hour)
	sweep(0)
	if user, err := agenttask.DeployUser(t.Context(), w.db, kept); err != nil || user != "before" {
		t.Errorf("deployed with %q, %v", user, err)
	}
	if user, err := agenttask.DeployUser(t.Context(), w.db, guessed); err != nil || user != "" {
		t.Errorf("deployed with %q, %v", user, err)
	}
}

// The image may have an account of the name that the site has now. That one was
// locked says nothing of the account that the machine was deployed with.
func TestAttackAnAccountOfTheImageStandsInForTheDeployLogin(t *testing.T) {
	w := newWorld(t)
	n := w.bound(t, "abc123")
	w.exec(t, `UPDATE maas_sites SET deploy_user = 'ubuntu'`) // it was another one when the machine was deployed
	for _, out := range []agentwire.LoginLockOutput{{Existed: true}, {Existed: true, Searched: true}} {
		if got, err := w.commands.LockLogins(t.Context()); err != nil || got != 1 {
			t.Fatalf("%d nodes were asked, %v", got, err)
		}
		if got := w.lockedAs(t, n, out); got != "ubuntu" {
			t.Fatalf("the account %s is locked", got)
		}
		got, err := agenttask.UnprovenLogins(t.Context(), w.db, []id.Node{n})
		if err != nil || (got[n] == "ubuntu") == out.Searched {
			t.Errorf("searched %v: not proven are %v, %v", out.Searched, got, err)
		}
		w.clock.pass(25 * time.Hour)
	}
	if got, err := w.commands.LockLogins(t.Context()); err != nil || got != 0 {
		t.Errorf("%d nodes were asked once more, %v", got, err)
	}
}
