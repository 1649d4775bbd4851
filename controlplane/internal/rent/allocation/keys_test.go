package allocation_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/people/identity"
	"gpuaas/controlplane/internal/people/sshkey"
	"gpuaas/controlplane/internal/rent/allocation"
)

// crew is a world with people in it: ann and ben are members of the project, and each
// has a key; the project has one, too.
type crew struct {
	*world
	people       *identity.Service
	keys         *sshkey.Service
	ann, ben     id.User
	ofAnn, ofBen id.SSHKey
	shared       id.SSHKey
	done         int
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	w := newWorld(t)
	c := &crew{world: w, ann: id.New[id.User](), ben: id.New[id.User]()}
	c.people = identity.New(identity.Config{DB: w.db, Follow: allocation.Keyrings{}})
	c.keys = sshkey.New(w.db, allocation.Keyrings{})
	c.service = allocation.New(allocation.Config{
		DB: w.db, Tasks: w.agents, Cleanups: w.cleanups, Terminals: w.terminals, Members: c.people,
	})
	add := func(owner string, of any, name string) id.SSHKey {
		k := id.New[id.SSHKey]()
		w.exec(t, `INSERT INTO ssh_keys (id, `+owner+`, name, algorithm, public_key, fingerprint, added_by)
			VALUES ($1, $2, $3, 'ssh-ed25519', 'ssh-ed25519 AAAA' || $3, 'SHA256:' || $3, 'ann')`, k, of, name)
		return k
	}
	for user, name := range map[id.User]string{c.ann: "ann", c.ben: "ben"} {
		w.exec(t, `INSERT INTO users (id, email, name) VALUES ($1, $2 || '@example.com', $2)`, user, name)
		w.exec(t, `INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, 'project_member')`, w.project,
			user)
	}
	c.ofAnn, c.ofBen, c.shared = add("user_id", c.ann, "ofann"), add("user_id", c.ben, "ofben"),
		add("project_id", w.project, "shared")
	c.ctx = c.by(t, c.ann)
	return c
}

// by is a context in which a member of the project asks.
func (c *crew) by(t *testing.T, user id.User) context.Context {
	t.Helper()
	return auth.With(telemetry.WithCorrelation(t.Context(), "corr"), &auth.Principal{
		Kind: auth.KindUser, ID: user.String(), Name: "somebody",
		Projects: map[id.Project]auth.ProjectRole{c.project: {Org: c.org, Role: auth.ProjectMember}},
	})
}

// root is a context in which the platform itself acts.
func (c *crew) root(t *testing.T) context.Context {
	t.Helper()
	return auth.With(telemetry.WithCorrelation(t.Context(), "corr"), auth.System("test"))
}

// follow carries out the workflows that were begun since it was last called, and those
// that these begin.
func (c *crew) follow(t *testing.T, before ...func(*testsuite.TestWorkflowEnvironment)) {
	t.Helper()
	for {
		var raw []byte
		err := c.owner.QueryRow(t.Context(), `SELECT envelope FROM (SELECT envelope, row_number() OVER (ORDER BY seq) AS n
			FROM outbox_events WHERE destination = 'temporal' AND event_type IN ('ReviewAllocationKeys', 'ChangeAllocationKeys')) AS s
			WHERE n = $1`, c.done+1).Scan(&raw)
		if err != nil {
			return // there is no more
		}
		c.done++
		var start struct {
			Type  string
			Input json.RawMessage
		}
		if err := json.Unmarshal(raw, &start); err != nil {
			t.Fatal(err)
		}
		env := durabletest.New(t, c.service.RegisterWorker)
		for _, f := range before {
			f(env)
		}
		if start.Type == "ReviewAllocationKeys" {
			var in allocation.Review
			if err := json.Unmarshal(start.Input, &in); err != nil {
				t.Fatal(err)
			}
			env.ExecuteWorkflow(allocation.ReviewKeys, in)
		} else {
			var in allocation.KeyErrand
			if err := json.Unmarshal(start.Input, &in); err != nil {
				t.Fatal(err)
			}
			env.ExecuteWorkflow(allocation.ChangeKeys, in)
		}
		if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
			t.Fatalf("%s: %v", start.Type, env.GetWorkflowError())
		}
	}
}

// opens says which keys the node was last told of, and fails unless the row says the
// same and nothing is left to do.
func (c *crew) opens(t *testing.T, a allocation.Allocation, want ...id.SSHKey) {
	t.Helper()
	now := c.get(t, a.ID)
	var has []id.SSHKey
	var texts []string
	for _, k := range now.Keys {
		has, texts = append(has, k.ID), append(texts, k.PublicKey)
	}
	if len(has) != len(want) || slices.ContainsFunc(want, func(k id.SSHKey) bool { return !slices.Contains(has, k) }) {
		t.Errorf("it shall open to %v, not %v", want, has)
	}
	last := c.agents.given[len(c.agents.given)-1].Params.(agentwire.ProvisionUserParams)
	if !slices.Equal(last.AuthorizedKeys, texts) || last.UID != int(now.UID) {
		t.Errorf("the node was told %v", last.AuthorizedKeys)
	}
	if now.Keyring.ChangingSince != nil || now.Keyring.WaitingFor != "" {
		t.Errorf("its keys are being changed: %+v", now.Keyring)
	}
}

// Whoever removes a key, leaves the project, may only look any more or is disabled
// opens no allocation in use any more.
func TestAttackAKeyDoesNotOutliveItsOwnersRights(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *crew) error{
		"the key was removed": func(t *testing.T, c *crew) error { return c.keys.RemoveOwn(c.by(t, c.ben), c.ofBen) },
		"left the project": func(t *testing.T, c *crew) error {
			return c.people.RemoveProjectMember(c.root(t), c.project, c.ben)
		},
		"may only look": func(t *testing.T, c *crew) error {
			_, err := c.people.PutProjectMember(c.root(t), c.project, c.ben, auth.ProjectViewer)
			return err
		},
		"disabled": func(t *testing.T, c *crew) error {
			off := true
			_, err := c.people.UpdateUser(c.root(t), c.ben, 1, identity.UserChange{Disabled: &off})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t)
			c.nodes(t, 2)
			other := c.active(t, allocation.Ask{Keys: []id.SSHKey{c.ofAnn}})
			a := c.active(t, allocation.Ask{Keys: []id.SSHKey{c.ofAnn, c.shared}})
			c.ctx = c.by(t, c.ben)
			if _, err := c.service.ChangeKeys(c.ctx, a.ID, []id.SSHKey{c.ofBen}, nil); err != nil {
				t.Fatal(err)
			}
			c.follow(t)
			c.opens(t, a, c.ofAnn, c.shared, c.ofBen)
			if err := lose(t, c); err != nil {
				t.Fatal(err)
			}
			c.follow(t)
			c.opens(t, a, c.ofAnn, c.shared)
			if now := c.get(t, other.ID); now.Keyring.Revision != 0 {
				t.Errorf("an allocation that the key did not open was changed: %+v", now.Keyring)
			}
			told, err := c.service.Told(c.ctx, a.ID)
			if err != nil || !strings.Contains(told, "1 keys are taken away") || !strings.Contains(told, "opens to its 2 keys") {
				t.Errorf("%s, %v", told, err)
			}
		})
	}
}

func TestAHigherRoleKeepsItsKeys(t *testing.T) {
	c := newCrew(t)
	c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	if _, err := c.people.PutProjectMember(c.root(t), c.project, c.ann, auth.ProjectAdmin); err != nil {
		t.Fatal(err)
	}
	c.follow(t)
	c.opens(t, a, c.ofAnn, c.shared)
	if now := c.get(t, a.ID); now.Keyring.Revision != 0 {
		t.Errorf("%+v", now.Keyring)
	}
}

// A node that does not answer is asked until it does, and everybody can see that.
func TestASilentNodeIsToldOfItsKeysWhenItAnswers(t *testing.T) {
	c := newCrew(t)
	n := c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	c.agents.silent = true
	if err := c.keys.RemoveOwn(c.ctx, c.ofAnn); err != nil {
		t.Fatal(err)
	}
	waited := false
	c.follow(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			now := c.get(t, a.ID)
			waited = now.Keyring.ChangingSince != nil && strings.Contains(now.Keyring.WaitingFor, "does not answer")
			c.agents.mu.Lock()
			defer c.agents.mu.Unlock()
			c.agents.silent = false
			c.agents.fail[n] = map[string]agentwire.TaskError{agentwire.TypeProvisionUser: {Code: "no_space"}}
		}, 30*time.Minute)
		env.RegisterDelayedCallback(func() {
			waited = waited && strings.Contains(c.get(t, a.ID).Keyring.WaitingFor, "could not do it")
			c.agents.mu.Lock()
			defer c.agents.mu.Unlock()
			delete(c.agents.fail, n)
		}, 3*time.Hour)
	})
	if !waited {
		t.Error("nobody could see that the node is behind")
	}
	c.opens(t, a, c.shared)
}

// A change of keys that its node did not fetch is withdrawn with the allocation: it
// would make the account again, on the node of the next tenant.
func TestAttackAChangeOfKeysDoesNotOutliveTheAllocation(t *testing.T) {
	c := newCrew(t)
	n := c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	c.service = allocation.New(allocation.Config{
		DB: c.db, Tasks: agenttask.Commands{DB: c.db}, Cleanups: c.cleanups, Terminals: c.terminals, Members: c.people,
	})
	if err := c.keys.RemoveOwn(c.ctx, c.ofAnn); err != nil {
		t.Fatal(err)
	}
	c.follow(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { c.release(t, a) }, time.Minute)
	})
	asked := c.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = 'allocation.provision_user'`, n)
	live := c.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND status IN ('queued', 'dispatched')`, n)
	if asked != 1 || live != 0 {
		t.Errorf("%d of %d tasks outlive the allocation", live, asked)
	}
}

// A key that goes while the node is being prepared does not stay on it.
func TestAttackAKeyThatWasRemovedWhileTheNodeWasPrepared(t *testing.T) {
	c := newCrew(t)
	c.node(t, "n1")
	a := c.create(t, allocation.Ask{})[0]
	if err := c.keys.RemoveOwn(c.ctx, c.ofAnn); err != nil {
		t.Fatal(err)
	}
	c.follow(t)
	a = c.provision(t, a)
	if a.Status != allocation.Active || a.Keyring.ChangingSince == nil {
		t.Fatalf("%s, %+v", a.Status, a.Keyring)
	}
	c.follow(t)
	c.opens(t, a, c.shared)
}

func TestKeysOfOthersAreNotAdded(t *testing.T) {
	c := newCrew(t)
	c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	_, err := c.service.ChangeKeys(c.ctx, a.ID, []id.SSHKey{c.ofBen}, nil)
	if fault.CodeOf(err) != "ssh_key_not_found" {
		t.Errorf("%v", err)
	}
	if _, err := c.service.ChangeKeys(c.ctx, a.ID, nil, []id.SSHKey{c.ofBen}); fault.CodeOf(err) != "ssh_key_not_found" {
		t.Errorf("%v", err)
	}
	c.release(t, a)
	_, err = c.service.ChangeKeys(c.ctx, a.ID, nil, []id.SSHKey{c.ofAnn})
	if fault.CodeOf(err) != "allocation_state_conflict" {
		t.Errorf("%v", err)
	}
}
