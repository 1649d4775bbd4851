package agentgateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/engine/secrets"
)

// PKI lists the calls that the gateway makes to the secrets engine.
type PKI interface {
	// SignNodeCSR has the node CA sign a request for one identity.
	SignNodeCSR(ctx context.Context, csrPEM, uri string, ttl time.Duration) (secrets.Certificate, error)
	// NodeCA is the issuer of node certificates and the chain above it.
	NodeCA(ctx context.Context) (string, error)
	// ServerCA returns the CA that nodes verify the control plane with.
	ServerCA(ctx context.Context) (string, error)
	// IssueServerCertificate makes a certificate for this listener.
	IssueServerCertificate(ctx context.Context, names []string, ttl time.Duration) (secrets.ServerCertificate, error)
}

// serverCertificateLife is how long the gateway asks a certificate to be valid.
// The gateway renews it after two thirds of that time.
const serverCertificateLife = 30 * 24 * time.Hour

// issueServer gets a certificate for this listener from the secrets engine.
func (t *Trust) issueServer(ctx context.Context) (*serverCertificate, error) {
	issued, err := t.cfg.PKI.IssueServerCertificate(ctx, t.cfg.Names, serverCertificateLife)
	if err != nil {
		return nil, fmt.Errorf("issue certificate of the node listener: %w", err)
	}
	pair, err := tls.X509KeyPair([]byte(issued.PEM), []byte(issued.Key.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("read certificate of the node listener: %w", err)
	}
	now := t.cfg.Clock()
	return &serverCertificate{pair: &pair, notAfter: issued.NotAfter, renewAt: now.Add(issued.NotAfter.Sub(now) * 2 / 3)},
		nil
}

// certify has the node CA sign the key of a request.
func (t *Trust) certify(ctx context.Context, csrPEM, uri string, ttl time.Duration) (secrets.Certificate, error) {
	return t.cfg.PKI.SignNodeCSR(ctx, csrPEM, uri, ttl)
}
