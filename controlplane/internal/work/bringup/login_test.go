package bringup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/ssh"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/rack"
)

func loginOf(t *testing.T, userData string) rack.Login {
	t.Helper()
	l, found, err := rack.ReadLogin([]byte(userData))
	if err != nil || !found {
		t.Fatalf("the first boot makes no login: %v", err)
	}
	return l
}

// Whoever reads the first boot of one machine learns nothing that opens another,
// nor anything of the site.
func TestAttackTheFirstBootOfOneMachineOpensAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(2))
	a, b := w.ready(t, 1), w.ready(t, 2)
	for _, job := range []*bringup.Work{a, b} {
		result := w.does(t, bringup.RenderCloudInit, job)
		rendered := w.userData(t, job)
		if strings.Contains(rendered, deployPassword) || strings.Contains(rendered, "$2b$") {
			t.Error("the deploy password of the site is on the machine")
		}
		path := bringup.LoginPath(job.Kind, job.Job)
		if !slices.Contains(w.vault.paths(), path) || !strings.HasPrefix(job.Facts.HostKey, "ssh-ed25519 ") {
			t.Errorf("there is no key to the machine under %s, or no pinned host key: %q", path, job.Facts.HostKey)
		}
		w.told(t, job, result)
	}
	first, second := loginOf(t, w.userData(t, a)), loginOf(t, w.userData(t, b))
	if first.HostKey == second.HostKey || first.Keys == second.Keys || a.Facts.HostKey == b.Facts.HostKey {
		t.Error("two machines share a key")
	}
	if strings.Contains(first.Keys, "PRIVATE") {
		t.Error("the private half of the login is on the machine")
	}
	// Rendered anew, the one before is void.
	w.does(t, bringup.RenderCloudInit, a)
	if again := loginOf(t, w.userData(t, a)); again.HostKey == first.HostKey || again.Keys == first.Keys {
		t.Error("a second first boot has the keys of the first")
	}
}

// Machine A takes the address of machine B, with its own host key: it is offered
// nothing, and the job says so.
func TestAttackAMachineAnswersInPlaceOfAnother(t *testing.T) {
	t.Parallel()
	w, street := newStreet(t, 2)
	a, _ := street.deploys(t, w, 1)
	b, job := street.deploys(t, w, 2)
	street.mu.Lock()
	for address, at := range street.boxes {
		if at == b {
			street.boxes[address] = a
		}
	}
	street.mu.Unlock()
	f := w.fails(t, bringup.EnsureHardwareSyncConfigured, job, bringup.StateAmbiguity, ssh.CodeHostKeyChanged)
	if !f.Final || a.Offered() != 0 || len(a.Commands()) != 0 || job.Facts.SSHHostKey != "" {
		t.Errorf("A was offered %d credentials and told %q; %+v", a.Offered(), a.Commands(), job.Facts)
	}
	a.discreetAbout(t, job)
}

// A job that the release before has rendered gives its machine the password of the
// site; it goes on as it began.
func TestAMachineOfTheOldFormIsStillReached(t *testing.T) {
	t.Parallel()
	w, b, job := deployedWorld(t)
	b.Reinstall(t)
	b.Authorize("")
	b.SetPassword(deployPassword)
	w.fails(t, bringup.EnsureHardwareSyncConfigured, job, bringup.StateAmbiguity, ssh.CodeHostKeyChanged)
	job.Facts.HostKey = ""
	job.Deadline = time.Now().Add(100 * time.Millisecond)
	w.fails(t, bringup.EnsureHardwareSyncConfigured, job, bringup.PostDeployConnectivityFailure, "ssh_no_login")
	if b.Offered() != 0 {
		t.Error("the password of the site was sent to a machine that was never given it")
	}
	for i, l := range job.Facts.FirstBootLayers {
		if l.Name == firstboot.DeployUserLayer {
			job.Facts.FirstBootLayers[i].Version = firstboot.SharedLoginVersion
		}
	}
	job.Deadline = time.Now().Add(30 * time.Second)
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	if !strings.HasPrefix(job.Facts.SSHHostKey, "ssh-ed25519 ") {
		t.Errorf("facts are %+v", job.Facts)
	}
	pinned := job.Facts.SSHHostKey
	b.Reinstall(t)
	w.fails(t, bringup.EnsureHardwareSyncConfigured, job, bringup.StateAmbiguity, ssh.CodeHostKeyChanged)
	if job.Facts.SSHHostKey != pinned {
		t.Error("the key was not pinned")
	}
	b.discreetAbout(t, job)
}

// answers ends the live tasks of a type as the agent would.
func (w *world) answers(t *testing.T, job *bringup.Work, kind, status, code string) {
	t.Helper()
	tag, err := w.owner.Exec(t.Context(), `UPDATE node_tasks SET status = $3::node_task_status, finished_at = now(), error_code = $4,
		output = CASE WHEN $3 = 'succeeded' THEN '{}'::jsonb END WHERE node_id = $1 AND type = $2 AND status = 'queued'`, job.Node, kind, status, code)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%d tasks, %v", tag.RowsAffected(), err)
	}
}

// The key to a machine is destroyed and its account locked before the machine is
// called a node.
func TestAttackTheLoginOutlivesTheEnrolment(t *testing.T) {
	t.Parallel()
	tasks := &agenttask.Commands{}
	w, b, job := deployedWorld(t, func(p *plan) { p.config.Tasks = tasks })
	tasks.DB = w.db
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	w.does(t, bringup.WaitForHardwareSyncHealthy, job)
	w.polls(t, job)
	path := bringup.LoginPath(job.Kind, job.Job)
	for range 2 { // it is asked for once
		r := w.does(t, bringup.WaitForAgentEnrollment, job)
		if r.Await == nil || !strings.HasPrefix(r.Await.Signal, "node-task-") || !slices.Contains(w.vault.paths(), path) {
			t.Fatalf("%+v", r)
		}
	}
	w.answers(t, job, agentwire.TypeLoginLock, "failed", "account_not_locked")
	w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.AgentEnrollmentFailure, "login_not_locked")
	job.Epoch++
	if r := w.does(t, bringup.WaitForAgentEnrollment, job); r.Await == nil {
		t.Fatalf("%+v", r)
	}
	w.answers(t, job, agentwire.TypeLoginLock, "succeeded", "")
	if r := w.does(t, bringup.WaitForAgentEnrollment, job); r.Await != nil ||
		!strings.Contains(r.Message, "hpcadmin is locked") {
		t.Errorf("%+v", r)
	}
	if job.Facts.LoginLocked == nil || slices.Contains(w.vault.paths(), path) {
		t.Errorf("the key to the machine is still there: %q, %+v", w.vault.paths(), job.Facts)
	}
	// Whoever asks for more is led to the agent.
	said := len(b.Commands())
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	if got := b.Commands(); len(got) != said {
		t.Errorf("said over SSH: %q", got[said:])
	}
	b.discreetAbout(t, job)
}

// An agent of the release before cannot lock anything; the sweep does it later.
func TestAnAgentThatCannotLockTheLogin(t *testing.T) {
	t.Parallel()
	tasks := &agenttask.Commands{}
	w, _, job := deployedWorld(t, func(p *plan) { p.config.Tasks = tasks })
	tasks.DB = w.db
	w.polls(t, job)
	w.does(t, bringup.WaitForAgentEnrollment, job)
	w.answers(t, job, agentwire.TypeLoginLock, "failed", string(agentwire.RefusedUnknownType))
	r := w.does(t, bringup.WaitForAgentEnrollment, job)
	if r.Await != nil || !strings.Contains(r.Message, "too old") || job.Facts.LoginLocked != nil ||
		slices.Contains(w.vault.paths(), bringup.LoginPath(job.Kind, job.Job)) {
		t.Errorf("%+v, %q", r, w.vault.paths())
	}
}

// What was given up leaves no key behind.
func TestAJobThatIsGivenUpDestroysItsKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.does(t, bringup.RenderCloudInit, job)
	if err := w.bringup.Compensate(system(t), job); err != nil {
		t.Fatal(err)
	}
	for _, p := range w.vault.paths() {
		if strings.HasPrefix(p, "first-boot/") {
			t.Errorf("%s is still there", p)
		}
	}
	if _, err := w.vault.Get(t.Context(), bringup.LoginPath(job.Kind, job.Job)); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// A tenant who had root has read the key that the machine has to MAAS; after the
// release it opens nothing.
func TestAttackTheTokenOfAMachineIsUsedAfterItsRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.inService(t, 1, "quick")
	answer, err := w.sim.MachineToken(admin, job.SystemID)
	token, has := answer.(map[string]string)
	if err != nil || !has {
		t.Fatalf("the machine has the key %v, %v", answer, err)
	}
	use := func() error {
		_, err := w.sim.Authenticate(fmt.Sprintf(`OAuth oauth_signature_method="PLAINTEXT", oauth_consumer_key=%q, oauth_token=%q, oauth_signature="%%26%s", oauth_timestamp="%d", oauth_nonce=%q`,
			token["consumer_key"], token["token_key"], token["token_secret"], time.Now().Unix(), id.NewString()))
		return err
	}
	if err := use(); err != nil {
		t.Fatalf("the token of a deployed machine: %v", err)
	}
	r := w.does(t, bringup.ReleaseMAASNode, job)
	if r.Details["maas_token"] != "revoked" {
		t.Errorf("%+v", r)
	}
	if err := use(); err == nil {
		t.Error("the token outlived the release")
	}
}

// Where MAAS keeps it, somebody is told.
func TestATokenThatMAASKeepsIsLeftToSomebody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.inService(t, 1, "quick")
	w.fault(t, simfault.Rule{
		Machine: job.SystemID, Operation: "machine.get_token", Fault: simfault.ErrorBefore, Status: 200,
		ContentType: "application/json",
		Text:        `{"token_key":"k","token_secret":"s","consumer_key":"c"}`,
	})
	r := w.does(t, bringup.ReleaseMAASNode, job)
	if r.Details["maas_token"] != "kept" || len(r.Evidence) != 2 || r.Evidence[1].Kind != bringup.EvidenceFollowUp {
		t.Errorf("%+v", r)
	}
}

// A site that calls its deploy user otherwise while a machine is set up must not
// have another account locked than the one that lets somebody in.
func TestAttackTheDeployUserIsRenamedWhileAMachineIsSetUp(t *testing.T) {
	t.Parallel()
	tasks := &agenttask.Commands{}
	w, b, job := deployedWorld(t, func(p *plan) { p.config.Tasks = tasks })
	tasks.DB = w.db
	job.Site.Settings.DeployUser = "renamed"
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	if len(b.Commands()) == 0 || job.Facts.DeployUser != "hpcadmin" {
		t.Errorf("the machine was set up by %q: %q", job.Facts.DeployUser, b.Commands())
	}
	if _, err := w.owner.Exec(t.Context(), `UPDATE nodes SET status = 'active', first_poll_at = now(), agent_instance = 'm' WHERE id = $1`, job.Node); err != nil {
		t.Fatal(err)
	}
	w.does(t, bringup.WaitForAgentEnrollment, job)
	var username string
	if err := w.owner.QueryRow(t.Context(), `SELECT params->>'username' FROM node_tasks WHERE node_id = $1 AND type = $2`, job.Node, agentwire.TypeLoginLock).
		Scan(&username); err != nil || username != "hpcadmin" {
		t.Errorf("the account %q is locked, %v", username, err)
	}
}
