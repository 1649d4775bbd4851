package agentgateway

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/node"
)

// enroll gives a machine with a token its first certificate, or a new one with
// a recovery token. The token is bound to the key of the request, so that a
// machine whose answer was lost may ask again and nobody else can.
func (g *Gateway) enroll(w http.ResponseWriter, r *http.Request) error {
	token, err := tokenOf(r)
	if err != nil {
		return err
	}
	var in agentwire.EnrollRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	if err := checkEnrolment(in); err != nil {
		return err
	}
	fingerprint, err := keyFingerprint(in.CSR)
	if err != nil {
		return err
	}
	ctx := r.Context()
	// The gateway fetches what goes with the certificate first: otherwise a failure
	// would use the token up without an answer.
	kit, err := g.kit(ctx)
	if err != nil {
		return err
	}
	n, err := g.nodes.BeginEnrolment(ctx, token, fingerprint, in.Instance, in.Hostname, in.Build, in.Capabilities,
		in.Hardware)
	if err != nil {
		return err
	}
	if err := g.issue(ctx, n.ID, in.CSR, fingerprint, "", &kit); err != nil {
		return err
	}
	kit.Generation = n.Generation
	return answer(w, agentwire.EnrollResponse{NodeID: n.ID.String(), Issued: kit})
}

// renew gives a node that presents a valid certificate its next one.
func (g *Gateway) renew(w http.ResponseWriter, r *http.Request, c caller) error {
	var in agentwire.RenewRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	fingerprint, err := keyFingerprint(in.CSR)
	if err != nil {
		return err
	}
	kit, err := g.kit(r.Context())
	if err != nil {
		return err
	}
	if err := g.issue(r.Context(), c.Node, in.CSR, fingerprint, c.presented.Serial, &kit); err != nil {
		return err
	}
	kit.Generation = c.Generation
	return answer(w, kit)
}

func (g *Gateway) report(w http.ResponseWriter, r *http.Request, c caller) error {
	var in agentwire.Report
	if err := read(w, r, &in); err != nil {
		return err
	}
	if err := g.nodes.Report(r.Context(), c.Node, in); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// hostKeys stores by which keys people recognise the node over SSH.
func (g *Gateway) hostKeys(w http.ResponseWriter, r *http.Request, c caller) error {
	var in agentwire.HostKeysRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	if err := g.nodes.KeepHostKeys(r.Context(), c.Node, in); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// trusted gives a node the signed statement of what to trust. The same statement
// comes with every certificate; this operation is for nodes that must not wait
// for their next one.
func (g *Gateway) trusted(w http.ResponseWriter, r *http.Request, _ caller) error {
	if _, err := g.trust.serverCA(r.Context()); err != nil { // there is a bundle
		return err
	}
	statements, err := g.signer.Statements(r.Context(), g.settings.TrustDomain, g.trust.issuerNow)
	if err != nil {
		return err
	}
	return answer(w, agentwire.TrustAnswer{Statements: statements})
}

// kit is everything that goes with a certificate.
func (g *Gateway) kit(ctx context.Context) (agentwire.Issued, error) {
	verifiers, err := g.signer.Verifiers(ctx)
	if err != nil {
		return agentwire.Issued{}, err
	}
	ca, err := g.trust.serverCA(ctx)
	if err != nil {
		return agentwire.Issued{}, err
	}
	statements, err := g.signer.Statements(ctx, g.settings.TrustDomain, g.trust.issuerNow)
	if err != nil {
		return agentwire.Issued{}, err
	}
	trusted, err := g.trust.nodeIssuers(ctx)
	if err != nil {
		return agentwire.Issued{}, err
	}
	return agentwire.Issued{
		NodeCA: trusted.pem, Verifiers: verifiers, Trust: statements,
		TrustBundle: agentwire.TrustBundle{
			Version: ca.fingerprint[:16], Environment: g.settings.Environment, Domain: g.settings.TrustDomain,
			PEM: ca.pem, Fingerprint: ca.fingerprint, PublishedAt: ca.publishedAt,
		},
	}, nil
}

// issue issues a certificate and records it. The gateway refuses a certificate
// whose serial is not recorded. askedWith is the serial of the certificate that
// this one renews; it is empty at enrolment.
func (g *Gateway) issue(ctx context.Context, n id.Node, csr, fingerprint, askedWith string,
	kit *agentwire.Issued,
) error {
	signed, err := g.trust.certify(ctx, csr, spiffe(g.settings.TrustDomain, n), g.settings.CertificateTTL)
	if err != nil {
		return err
	}
	recorded := node.Cert{Serial: signed.Serial, KeyFingerprint: fingerprint, NotAfter: signed.NotAfter}
	if err := g.nodes.RecordCertificate(ctx, n, recorded, askedWith); err != nil {
		return err
	}
	now := g.clock()
	kit.Certificate, kit.NotAfter = signed.PEM, signed.NotAfter
	kit.RenewAfter = now.Add(signed.NotAfter.Sub(now) * 2 / 3).UTC().Truncate(1e9)
	return nil
}

// maxHardware bounds how much a machine may report about its hardware. It is
// several times what real machines report.
const maxHardware = 16 << 10

func checkEnrolment(in agentwire.EnrollRequest) error {
	var fields []fault.Field
	refuse := func(field, message string) {
		fields = append(fields, fault.Field{Path: "body." + field, Message: message})
	}
	if !plain(in.Instance, 128) {
		refuse("instance", "must be visible ASCII, 128 characters at most")
	}
	if !plain(in.Hostname, 253) {
		refuse("hostname", "must be a host name")
	}
	if len(in.Build.Version) > 64 || len(in.Build.Commit) > 64 {
		refuse("build", "version and commit have 64 characters at most")
	}
	if h := in.Hardware; h != nil &&
		len(h.UUID)+len(h.SystemSerial)+len(h.BoardSerial)+len(h.ChassisSerial)+20*len(h.MACs) > maxHardware {
		refuse("hardware", fmt.Sprintf("must have %d bytes at most", maxHardware))
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fields...)
}

// tokenOf returns the bearer token of a request. It reads only the header,
// because addresses end up in logs.
func tokenOf(r *http.Request) (redact.Secret, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || !plain(token, 256) {
		return redact.Secret{}, fault.New(fault.Unauthenticated, agentwire.CodeTokenInvalid,
			"this needs a bootstrap or recovery token").
			WithRemedy("send Authorization: Bearer with the token that was issued for this node")
	}
	return redact.New(token), nil
}

// keyFingerprint returns the fingerprint of the key in a certificate request, to
// bind a token to it. The secrets engine checks the rest of the request.
func keyFingerprint(csr string) (string, error) {
	block, _ := pem.Decode([]byte(csr))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return "", csrRefused("it is not PEM of a CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", csrRefused("it cannot be parsed")
	}
	if request.CheckSignature() != nil {
		return "", csrRefused("its signature is not one of the key in it")
	}
	return fingerprintOf(request.RawSubjectPublicKeyInfo), nil
}

// fingerprintOf returns the fingerprint of a public key.
func fingerprintOf(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

func csrRefused(why string) error {
	return fault.New(fault.Invalid, "csr_refused", "the certificate request is not usable: %s", why).
		WithRemedy("send one PEM block CERTIFICATE REQUEST with an ECDSA P-256 or Ed25519 key, signed by that key")
}

// nodeTokenGrant returns the token of a request and what it allows.
func (g *Gateway) nodeTokenGrant(r *http.Request) (redact.Secret, node.Grant, error) {
	token, err := tokenOf(r)
	if err != nil {
		return token, node.Grant{}, err
	}
	grant, err := g.nodes.TokenGrant(r.Context(), token)
	return token, grant, err
}
