package agentgateway

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
)

// Refresh renews what is due, now.
func (t *Trust) Refresh(ctx context.Context) error { return t.refresh(ctx) }

// ServerPEM is what nodes verify the listener with.
func (t *Trust) ServerPEM() string { return t.bundle.Load().pem }

// Leaf is the certificate that the next handshake shows.
func (t *Trust) Leaf() string { return t.server.Load().pair.Leaf.SerialNumber.String() }

// UseFormer names the file of former node CAs.
func (t *Trust) UseFormer(file string) { t.cfg.FormerCAFile = file }

// Script renders the installation of a package that need not exist.
func (r *Renderer) Script(ctx context.Context, n id.Node, token redact.Secret, version, digest string) (redact.Secret,
	error,
) {
	return r.script(ctx, n, token, &agentPackage{version: version, digest: "sha256:" + digest})
}
