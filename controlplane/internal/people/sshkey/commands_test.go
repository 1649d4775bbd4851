package sshkey_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/people/sshkey"
)

// world is two people and a project.
type world struct {
	db      *postgres.DB
	keys    *sshkey.Service
	users   [2]id.User
	project id.Project
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	db := postgrestest.New(tb)
	w := &world{db: db, keys: sshkey.New(db, nil), project: id.New[id.Project]()}
	org := id.New[id.Org]()
	exec := func(query string, args ...any) {
		if _, err := db.Exec(tb.Context(), query, args...); err != nil {
			tb.Fatal(err)
		}
	}
	for i, name := range []string{"ann", "ben"} {
		w.users[i] = id.New[id.User]()
		exec(`INSERT INTO users (id, email) VALUES ($1, $2)`, w.users[i], name+"@example.com")
	}
	exec(`INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, org)
	exec(`INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.project, org)
	return w
}

// as is a context in which a person asks, with a token of these scopes.
func (w *world) as(tb testing.TB, n int, scopes ...auth.Permission) context.Context {
	tb.Helper()
	return auth.With(tb.Context(), &auth.Principal{Kind: auth.KindUser, ID: w.users[n].String(), Scopes: scopes})
}

func fresh(tb testing.TB) string {
	tb.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func TestKeysOfAPersonAndOfAProject(t *testing.T) {
	w := newWorld(t)
	ann, text := w.as(t, 0), fresh(t)
	own, err := w.keys.AddOwn(ann, "laptop", text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.keys.AddOwn(ann, "again", text); fault.CodeOf(err) != "ssh_key_exists" {
		t.Errorf("the same key twice: %v", err)
	}
	// The same key may belong to another owner: people use one machine for several.
	shared, err := w.keys.Add(ann, sshkey.Owner{Project: w.project}, "", text)
	if err != nil {
		t.Fatal(err)
	}
	page := postgres.Slice[id.SSHKey]{Limit: 10}
	mine, err := w.keys.Own(ann, page)
	if err != nil || len(mine) != 1 || mine[0] != own || own.Name != "laptop" {
		t.Errorf("%+v, %v", mine, err)
	}
	if theirs, err := w.keys.Keys(ann, sshkey.Owner{Project: w.project}, page); err != nil || len(theirs) != 1 ||
		theirs[0].ID != shared.ID {
		t.Errorf("%+v, %v", theirs, err)
	}
	var entries int
	if err := w.db.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action = 'ssh_key.add'`).Scan(
		&entries); err != nil || entries != 2 {
		t.Errorf("%d audit entries, %v", entries, err)
	}
	if err := w.keys.RemoveOwn(ann, own.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.keys.RemoveOwn(ann, own.ID); fault.CodeOf(err) != "ssh_key_not_found" {
		t.Errorf("removed twice: %v", err)
	}
}

// Nobody touches the keys of others: neither of another person, nor of a project
// by the way for one's own, and not with a token that was made for something else.
func TestAttackKeysOfOthersStay(t *testing.T) {
	w := newWorld(t)
	ann, ben := w.as(t, 0), w.as(t, 1)
	own, err := w.keys.AddOwn(ann, "laptop", fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := w.keys.Add(ann, sshkey.Owner{Project: w.project}, "", fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"another person's":     w.keys.RemoveOwn(ben, own.ID),
		"the project's":        w.keys.RemoveOwn(ann, shared.ID),
		"a person's, as ours":  w.keys.Remove(ben, sshkey.Owner{Project: w.project}, own.ID),
		"of another project's": w.keys.Remove(ben, sshkey.Owner{Project: id.New[id.Project]()}, shared.ID),
	} {
		if fault.CodeOf(err) != "ssh_key_not_found" {
			t.Errorf("%s: %v", name, err)
		}
	}
	narrow := w.as(t, 0, auth.NodeRead)
	if _, err := w.keys.AddOwn(narrow, "", fresh(t)); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("a narrow token adds a key: %v", err)
	}
	if err := w.keys.RemoveOwn(narrow, own.ID); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("a narrow token removes a key: %v", err)
	}
	if _, err := w.keys.AddOwn(w.as(t, 0, auth.SSHKeyManage), "", fresh(t)); err != nil {
		t.Errorf("a token for keys: %v", err)
	}
	robot := auth.With(t.Context(), &auth.Principal{Kind: auth.KindServiceAccount, ID: id.NewString()})
	if _, err := w.keys.AddOwn(robot, "", fresh(t)); fault.CodeOf(err) != "person_required" {
		t.Errorf("a service account: %v", err)
	}
}

// The limit holds when many are added at once.
func TestKeysAreLimited(t *testing.T) {
	w := newWorld(t)
	of := sshkey.Owner{Project: w.project}
	for range sshkey.MaxKeys - 2 {
		if _, err := w.keys.Add(w.as(t, 0), of, "", fresh(t)); err != nil {
			t.Fatal(err)
		}
	}
	var wait sync.WaitGroup
	refused := make(chan string, 6)
	for range cap(refused) {
		text := fresh(t)
		wait.Go(func() {
			code := ""
			if _, err := w.keys.Add(w.as(t, 1), of, "", text); err != nil {
				code = fault.CodeOf(err)
			}
			refused <- code
		})
	}
	wait.Wait()
	close(refused)
	counts := map[string]int{}
	for code := range refused {
		counts[code]++
	}
	if counts[""] != 2 || counts["ssh_keys_too_many"] != 4 {
		t.Errorf("%v", counts)
	}
}
