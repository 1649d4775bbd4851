package stack

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/deploy/openbao"
)

// errand is something that a role wants from the secrets engine.
type errand struct {
	verb, path string
	data       map[string]any
	roles      []openbao.Role // who may
}

func (e errand) run(t *testing.T, c *api.Client) error {
	t.Helper()
	var err error
	switch e.verb {
	case "read":
		_, err = c.Logical().ReadWithContext(t.Context(), e.path)
	case "list":
		_, err = c.Logical().ListWithContext(t.Context(), e.path)
	case "delete":
		_, err = c.Logical().DeleteWithContext(t.Context(), e.path)
	default:
		_, err = c.Logical().WriteWithContext(t.Context(), e.path, e.data)
	}
	return err
}

func (s *Stack) asRole(t *testing.T, r openbao.Role) *api.Client {
	t.Helper()
	p := s.Endpoints()
	p.SecretsRoleIDFile, p.SecretsSecretIDFile = p.appRole(r).RoleIDFile, p.appRole(r).SecretIDFile
	c, err := logInToBao(t.Context(), p)
	if err != nil {
		t.Fatalf("log in as %s: %v", r, err)
	}
	return c
}

// Somebody who took over one process uses its identity for what only others may
// do: the relay signs tasks, the worker acts as the listener for nodes.
func TestAttackARoleUsesWhatBelongsToAnother(t *testing.T) {
	s := start(t, Options{State: state(t), Only: []Engine{OpenBao}})
	const people, nodes, worker = openbao.RoleAPI, openbao.RoleNodes, openbao.RoleWorker
	secret := map[string]any{"data": map[string]any{"k": "v"}}
	key, sign := map[string]any{"type": "ed25519"}, map[string]any{"input": "aGk="}
	csr := map[string]any{"csr": nodeRequest(t), "uri_sans": "spiffe://gpuaas.test/node/n1"}
	names := map[string]any{"alt_names": "nodes.gpuaas.test"}
	errands := []errand{ // those that prepare for others come first
		{"write", "gpuaas-kv/data/maas-sites/s1/api-token", secret, []openbao.Role{people}},
		{"write", "gpuaas-kv/data/maas-sites/s1/power/default", secret, []openbao.Role{people}},
		{"write", "gpuaas-kv/data/first-boot/onboarding/j1", secret, []openbao.Role{worker}},
		{"write", "gpuaas-transit/keys/task-signer-1", key, []openbao.Role{people, worker}},
		{"write", "gpuaas-transit/keys/gpuaas-certificates-1", key, []openbao.Role{people, worker}},
		{"read", "gpuaas-transit/keys/task-signer-1", nil, []openbao.Role{people, worker}},
		{"write", "gpuaas-transit/sign/task-signer-1", sign, []openbao.Role{people, nodes}},
		{"write", "gpuaas-transit/sign/gpuaas-certificates-1", sign, []openbao.Role{worker}},
		{"read", "gpuaas-kv/data/maas-sites/s1/api-token", nil, []openbao.Role{people, nodes, worker}},
		{"read", "gpuaas-kv/data/maas-sites/s1/power/default", nil, []openbao.Role{people, worker}},
		{"read", "gpuaas-kv/data/first-boot/onboarding/j1", nil, []openbao.Role{worker}},
		{"list", "gpuaas-kv/metadata/", nil, []openbao.Role{worker}},
		{"delete", "gpuaas-kv/metadata/first-boot/onboarding/j1", nil, []openbao.Role{worker}},
		{"write", "gpuaas-pki/sign/node", csr, []openbao.Role{nodes}},
		{"write", "gpuaas-server-pki/issue/control-plane", names, []openbao.Role{nodes}},
		{"read", "gpuaas-pki/cert/ca_chain", nil, openbao.Roles()},
		{"read", "gpuaas-server-pki/cert/ca_chain", nil, openbao.Roles()},
		{"delete", "gpuaas-kv/metadata/maas-sites/s1/api-token", nil, []openbao.Role{people}},
		{"read", "auth/token/lookup-self", nil, openbao.Roles()},
		{"write", "gpuaas-transit/keys/task-signer-1/rotate", nil, nil},
		{"read", "gpuaas-transit/export/signing-key/task-signer-1", nil, nil},
		{"delete", "gpuaas-transit/keys/task-signer-1", nil, nil},
		{"write", "gpuaas-pki/sign-verbatim", csr, nil},
		{"write", "gpuaas-pki-root/root/sign-intermediate", csr, nil},
		{"read", "sys/mounts", nil, nil},
		{"write", "auth/token/create", map[string]any{"policies": []string{"gpuaas"}}, nil},
		{"write", "auth/approle/role/gpuaas-relay", map[string]any{"token_policies": []string{"gpuaas"}}, nil},
	}
	clients := map[openbao.Role]*api.Client{}
	for _, r := range openbao.Roles() {
		clients[r] = s.asRole(t, r)
	}
	for _, e := range errands {
		for _, r := range openbao.Roles() {
			may := slices.Contains(e.roles, r)
			if err := e.run(t, clients[r]); (err == nil) != may {
				t.Errorf("%s: %s %s: %v, want allowed: %v", r, e.verb, e.path, err, may)
			}
		}
	}
}

// A state folder of a launcher that knew only one identity for all roles.
func TestAFolderWithOneIdentityGetsOneForEachRole(t *testing.T) {
	dir := state(t)
	s := start(t, Options{State: dir, Only: []Engine{OpenBao}})
	if err := putBao(t.Context(), s.Endpoints()); err != nil {
		t.Fatal(err)
	}
	root, err := s.supervisor(OpenBao).engine.(*bao).client(readKeys(t, s).RootToken)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range openbao.Roles() {
		if _, err := root.Logical().DeleteWithContext(t.Context(), "auth/approle/role/"+r.AppRole()); err != nil {
			t.Fatal(err)
		}
		if err := root.Sys().DeletePolicyWithContext(t.Context(), r.AppRole()); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{identityOf(r).roleIDFile, identityOf(r).secretIDFile} {
			if err := os.Remove(filepath.Join(dir, "secrets", file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop(t, s)
	s = start(t, Options{State: dir, Only: []Engine{OpenBao}})
	for _, r := range openbao.Roles() {
		s.asRole(t, r)
	}
	if err := findBao(t.Context(), s.Endpoints()); err != nil { // with the identity of before
		t.Error(err)
	}
}
