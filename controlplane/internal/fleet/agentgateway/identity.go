package agentgateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// certificate is a client certificate that was found good.
type certificate struct {
	node     id.Node
	serial   string
	leaf     *x509.Certificate
	notAfter time.Time
}

// connection remembers what was found out about the certificate of one
// connection, so that only the first request pays for the signatures.
type connection struct {
	mu   sync.Mutex
	by   *issuers // the verdict holds as long as these are the issuers
	cert certificate
}

type connectionKey struct{}

// identify verifies the client certificate of a connection. Every way it can
// be wrong has a code of its own.
func (g *Gateway) identify(ctx context.Context, state *tls.ConnectionState) (certificate, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return certificate{}, fault.New(fault.Unauthenticated, agentwire.CodeCertificateMissing,
			"this needs the certificate of a node").
			WithRemedy("enrol the node first: gpuaas-agent enroll")
	}
	trusted, err := g.trust.nodeIssuers(ctx)
	if err != nil {
		return certificate{}, err
	}
	conn, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		conn = &connection{}
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	now := g.clock()
	if conn.by == trusted && now.Before(conn.cert.notAfter) {
		return conn.cert, nil
	}
	cert, err := g.verify(ctx, state.PeerCertificates, trusted, now)
	if err != nil {
		return certificate{}, err
	}
	conn.by, conn.cert = trusted, cert
	return cert, nil
}

func (g *Gateway) verify(ctx context.Context, presented []*x509.Certificate, trusted *issuers,
	now time.Time,
) (certificate, error) {
	leaf := presented[0]
	err := verifyChain(presented, trusted, now)
	if isUnknown(err) {
		// The CA may have been replaced a moment ago.
		if refetch := g.trust.refetchIssuers(ctx, refetchSoon); refetch != nil {
			return certificate{}, refetch
		}
		err = verifyChain(presented, g.trust.issuers.Load(), now)
	}
	if err != nil {
		return certificate{}, err
	}
	node, err := identityOf(leaf, g.settings.TrustDomain)
	if err != nil {
		return certificate{}, err
	}
	return certificate{
		node: node, serial: hex.EncodeToString(leaf.SerialNumber.Bytes()), leaf: leaf, notAfter: leaf.NotAfter,
	}, nil
}

// verifyChain tells an expired certificate of this control plane, whose node can
// recover, from a certificate of a stranger, which was never valid here.
func verifyChain(presented []*x509.Certificate, trusted *issuers, now time.Time) error {
	leaf := presented[0]
	between := x509.NewCertPool()
	for _, c := range presented[1:] {
		between.AddCert(c)
	}
	options := x509.VerifyOptions{
		Roots: trusted.pool, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	_, err := leaf.Verify(options)
	if err == nil {
		return nil
	}
	if now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		options.CurrentTime = leaf.NotAfter.Add(-time.Second)
		if _, err := leaf.Verify(options); err == nil {
			return fault.New(fault.Unauthenticated, agentwire.CodeCertificateExpired,
				"the certificate of the node is valid from %s to %s, and it is %s here", utc(leaf.NotBefore), utc(leaf.NotAfter),
				utc(now)).
				WithRemedy("issue a recovery token for the node and enrol it again")
		}
	}
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage {
		return mismatch("the certificate is not one for clients")
	}
	return fault.New(fault.Unauthenticated, agentwire.CodeCertificateUnknown,
		"the certificate was not issued by the CA of this control plane's nodes").
		WithRemedy("compare the issuer of the node's certificate with its node CA bundle; after a change of the CA enrol the node again with a recovery token")
}

func isUnknown(err error) bool {
	return err != nil && fault.CodeOf(err) == agentwire.CodeCertificateUnknown
}

// identityOf reads the one identity of a node certificate.
func identityOf(leaf *x509.Certificate, domain string) (id.Node, error) {
	if len(leaf.URIs) != 1 {
		return id.Node{}, mismatch("the certificate does not name exactly one identity")
	}
	u := leaf.URIs[0]
	text, ok := strings.CutPrefix(u.Path, "/node/")
	if !ok || u.Scheme != "spiffe" || u.Host != domain || *u != (url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}) {
		return id.Node{}, mismatch("the certificate names no node of trust domain " + domain)
	}
	node, err := id.Parse[id.Node](text)
	if err != nil || node.String() != text {
		return id.Node{}, mismatch("the certificate names no node of trust domain " + domain)
	}
	return node, nil
}

// spiffe is the identity of a node.
func spiffe(domain string, node id.Node) string {
	return "spiffe://" + domain + "/node/" + node.String()
}

func mismatch(why string) error {
	return fault.New(fault.Forbidden, agentwire.CodeIdentityMismatch, "%s", why).
		WithRemedy("check GPUAAS_NODE_ID of the agent against its certificate; to make a machine another node, enrol it with that node's token")
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
