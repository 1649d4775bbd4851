package controlplane

import (
	"context"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/controlplane/internal/fleet/signer"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/money/payment"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/rent/webhook"
	"gpuaas/deploy/openbao"
)

// identities are the ways of this process to the secrets engine, one for each
// of its roles. Every call goes out as a role whose policy allows it, so a
// process can do what its roles can and nothing else.
type identities map[openbao.Role]*secrets.Engine

func openIdentities(cfg Config) (identities, error) {
	out := identities{}
	for _, r := range cfg.identities() {
		as := cfg.Secrets.of(r)
		engine, err := secrets.Open(secrets.Config{
			Address: cfg.Secrets.Address, CAFile: cfg.Secrets.CAFile, KVMount: cfg.Secrets.KVMount,
			RoleIDFile: as.RoleIDFile, SecretIDFile: as.SecretIDFile,
		})
		if err != nil {
			return nil, err
		}
		out[r] = engine
	}
	return out, nil
}

// as returns the first of the roles that this process has.
func (i identities) as(roles ...openbao.Role) (*secrets.Engine, error) {
	for _, r := range roles {
		if e := i[r]; e != nil {
			return e, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "secrets_identity_missing",
		"no role of this process may ask the secrets engine for that").
		WithRemedy("run it in a process with role %s", roles[0])
}

// as1 makes a call as the first of the roles that this process has.
func as1[A any](i identities, call func(*secrets.Engine) (A, error), roles ...openbao.Role) (A, error) {
	e, err := i.as(roles...)
	if err != nil {
		var none A
		return none, err
	}
	return call(e)
}

func (i identities) do(call func(*secrets.Engine) error, roles ...openbao.Role) error {
	e, err := i.as(roles...)
	if err != nil {
		return err
	}
	return call(e)
}

// Put writes what people said about sites, and the secrets of webhooks, payment
// providers and sources of artifacts, as the API, and the rest as the worker.
func (i identities) Put(ctx context.Context, path string, values map[string]redact.Secret) error {
	return i.do(func(e *secrets.Engine) error { return e.Put(ctx, path, values) }, writers(path))
}

// Get reads.
func (i identities) Get(ctx context.Context, path string) (map[string]redact.Secret, error) {
	return as1(i, func(e *secrets.Engine) (map[string]redact.Secret, error) { return e.Get(ctx, path) }, readers(path)...)
}

// Delete removes what Put wrote. The worker removes the BMC credentials of a
// machine that leaves.
func (i identities) Delete(ctx context.Context, path string) error {
	roles := []openbao.Role{writers(path)}
	if site.IsOverridePath(path) {
		roles = append(roles, openbao.RoleWorker)
	}
	return i.do(func(e *secrets.Engine) error { return e.Delete(ctx, path) }, roles...)
}

func writers(path string) openbao.Role {
	if strings.HasPrefix(path, site.SecretsPrefix) || strings.HasPrefix(path, webhook.SecretsPrefix) ||
		strings.HasPrefix(path, payment.SecretsPrefix) || strings.HasPrefix(path, artifact.SecretsPrefix) {
		return openbao.RoleAPI
	}
	return openbao.RoleWorker
}

// readers of a site's secrets are the roles that call its MAAS. The listener
// for nodes does so on behalf of a machine. The API reads the secret of a webhook
// to keep it beside the next one, and checks by itself what payment providers signed. The
// login of a source of artifacts is read to ask about them, and on behalf of nodes that
// fetch them.
func readers(path string) []openbao.Role {
	if strings.HasPrefix(path, webhook.SecretsPrefix) {
		return []openbao.Role{openbao.RoleWorker, openbao.RoleAPI}
	}
	if strings.HasPrefix(path, payment.SecretsPrefix) {
		return []openbao.Role{openbao.RoleAPI}
	}
	if strings.HasPrefix(path, artifact.SecretsPrefix) {
		return []openbao.Role{openbao.RoleAPI, openbao.RoleNodes}
	}
	if strings.HasPrefix(path, site.SecretsPrefix) {
		return []openbao.Role{openbao.RoleWorker, openbao.RoleAPI, openbao.RoleNodes}
	}
	return []openbao.Role{openbao.RoleWorker}
}

// Check asks, as a role, whether the engine accepts it.
func (i identities) Check(ctx context.Context) error {
	return i.do(func(e *secrets.Engine) error { return e.Check(ctx) }, openbao.RoleWorker)
}

// CreateSigningKey makes keys as the role that manages them.
func (i identities) CreateSigningKey(ctx context.Context, name string) ([]byte, error) {
	return as1(i, func(e *secrets.Engine) ([]byte, error) { return e.CreateSigningKey(ctx, name) }, openbao.RoleWorker,
		openbao.RoleAPI)
}

// Sign signs for nodes as the role that answers nodes, and certificates about
// cleaning as the role that cleans.
func (i identities) Sign(ctx context.Context, name string, message []byte) ([]byte, error) {
	roles := []openbao.Role{openbao.RoleWorker}
	if strings.HasPrefix(name, signer.KeyPrefix) {
		roles = []openbao.Role{openbao.RoleNodes, openbao.RoleAPI}
	}
	return as1(i, func(e *secrets.Engine) ([]byte, error) { return e.Sign(ctx, name, message) }, roles...)
}

// SignNodeCSR is only for the listener for nodes.
func (i identities) SignNodeCSR(ctx context.Context, csrPEM, uri string, ttl time.Duration) (
	secrets.Certificate, error,
) {
	return as1(i, func(e *secrets.Engine) (secrets.Certificate, error) { return e.SignNodeCSR(ctx, csrPEM, uri, ttl) },
		openbao.RoleNodes)
}

// IssueServerCertificate is only for the listener for nodes.
func (i identities) IssueServerCertificate(ctx context.Context, names []string, ttl time.Duration) (
	secrets.ServerCertificate, error,
) {
	return as1(i, func(e *secrets.Engine) (secrets.ServerCertificate, error) {
		return e.IssueServerCertificate(ctx, names, ttl)
	}, openbao.RoleNodes)
}

// RevokeCertificate revokes the identity of a node, whichever role decided it.
func (i identities) RevokeCertificate(ctx context.Context, serial string) error {
	return i.do(func(e *secrets.Engine) error { return e.RevokeCertificate(ctx, serial) }, openbao.RoleAPI,
		openbao.RoleNodes, openbao.RoleWorker)
}

// NodeCA is public.
func (i identities) NodeCA(ctx context.Context) (string, error) {
	return as1(i, func(e *secrets.Engine) (string, error) { return e.NodeCA(ctx) }, openbao.RoleNodes, openbao.RoleAPI,
		openbao.RoleWorker)
}

// ServerCA is public too: bootstrap commands contain it.
func (i identities) ServerCA(ctx context.Context) (string, error) {
	return as1(i, func(e *secrets.Engine) (string, error) { return e.ServerCA(ctx) }, openbao.RoleNodes, openbao.RoleAPI,
		openbao.RoleWorker)
}
