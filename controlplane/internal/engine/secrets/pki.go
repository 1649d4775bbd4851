package secrets

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/deploy/openbao"
)

const maxCSR = 16 << 10

// Certificate is a certificate that was signed for a node. Serial is the serial
// number as lower-case hex, two digits a byte, without separators: what
// hex.EncodeToString makes of the bytes of x509.Certificate.SerialNumber.
type Certificate struct {
	PEM       string
	IssuerPEM string
	Serial    string
	NotAfter  time.Time
}

// ServerCertificate is a certificate for a listener of the control plane, with
// its key. PEM holds the chain without the trust root.
type ServerCertificate struct {
	PEM      string
	Key      redact.Secret
	NotAfter time.Time
}

// SignNodeCSR asks the node CA to sign the key of a request. The certificate
// names only the URI; names in the request are ignored.
func (e *Engine) SignNodeCSR(ctx context.Context, csrPEM, uri string, ttl time.Duration) (Certificate, error) {
	key, err := requestedKey(csrPEM)
	if err != nil {
		return Certificate{}, err
	}
	answer, err := e.write(ctx, "sign node certificate", openbao.PKIMount+"/sign/"+openbao.NodeRole, map[string]any{
		"csr": csrPEM, "uri_sans": uri, "ttl": seconds(ttl), "exclude_cn_from_sans": true,
	})
	if err != nil {
		return Certificate{}, err
	}
	c := Certificate{PEM: field(answer, "certificate"), IssuerPEM: field(answer, "issuing_ca")}
	leaf, err := parseCertificate(c.PEM)
	if err != nil {
		return Certificate{}, fmt.Errorf("sign node certificate: %w", err)
	}
	if err := checkNodeCertificate(leaf, key, uri); err != nil {
		return Certificate{}, err
	}
	c.Serial, c.NotAfter = hex.EncodeToString(leaf.SerialNumber.Bytes()), leaf.NotAfter
	return c, nil
}

// RevokeCertificate puts a node certificate on the revocation list of its CA.
// It is no error if it is revoked already. If the CA does not hold it, for
// example because it expired long ago, the error is ErrNotFound.
func (e *Engine) RevokeCertificate(ctx context.Context, serial string) error {
	raw, err := hex.DecodeString(serial)
	if err != nil || len(raw) == 0 || len(raw) > 20 {
		return fault.New(fault.Invalid, "certificate_serial_invalid", "%q is not the serial number of a certificate", serial)
	}
	pairs := make([]string, len(raw))
	for i, b := range raw {
		pairs[i] = hex.EncodeToString([]byte{b})
	}
	name := strings.Join(pairs, ":")
	_, err = e.write(ctx, "revoke certificate "+serial, openbao.PKIMount+"/revoke", map[string]any{"serial_number": name})
	if fault.CodeOf(err) != codeRefused {
		return err
	}
	// The engine answers an unknown serial like any other bad request.
	held, lookErr := e.read(ctx, "look for certificate "+serial, openbao.PKIMount+"/cert/"+name)
	if lookErr == nil && held == nil {
		return fmt.Errorf("revoke certificate %s: %w", serial, ErrNotFound)
	}
	return err
}

// NodeCA returns the certificates that verify node certificates: their issuer
// and the chain above it, up to the root.
func (e *Engine) NodeCA(ctx context.Context) (string, error) {
	return e.chain(ctx, openbao.PKIMount)
}

// ServerCA returns the certificates that verify those of the control plane. It
// is never the same as NodeCA.
func (e *Engine) ServerCA(ctx context.Context) (string, error) {
	return e.chain(ctx, openbao.ServerPKIMount)
}

// IssueServerCertificate makes a key and a certificate for a listener of the
// control plane. Names are DNS names or IP addresses.
func (e *Engine) IssueServerCertificate(ctx context.Context, names []string, ttl time.Duration) (
	ServerCertificate, error,
) {
	var hosts, addresses []string
	for _, n := range names {
		switch {
		case net.ParseIP(n) != nil:
			addresses = append(addresses, n)
		case n == "" || strings.Contains(n, ","):
			return ServerCertificate{}, fault.New(fault.Invalid, "server_name_invalid",
				"%q is neither a DNS name nor an IP address", n)
		default:
			hosts = append(hosts, n)
		}
	}
	if len(names) == 0 {
		return ServerCertificate{}, fault.New(fault.Invalid, "server_name_invalid", "a server certificate needs a name")
	}
	answer, err := e.write(ctx, "issue server certificate", openbao.ServerPKIMount+"/issue/"+openbao.ServerRole,
		map[string]any{
			"alt_names": strings.Join(hosts, ","), "ip_sans": strings.Join(addresses, ","),
			"ttl": seconds(ttl), "private_key_format": "pkcs8",
		})
	if err != nil {
		return ServerCertificate{}, err
	}
	c := ServerCertificate{PEM: field(answer, "certificate"), Key: redact.New(field(answer, "private_key"))}
	leaf, err := parseCertificate(c.PEM)
	if err != nil {
		return ServerCertificate{}, fmt.Errorf("issue server certificate: %w", err)
	}
	c.PEM, c.NotAfter = joinPEM(append([]string{c.PEM}, intermediates(answer)...)...), leaf.NotAfter
	return c, nil
}

func (e *Engine) chain(ctx context.Context, mount string) (string, error) {
	answer, err := e.read(ctx, "read CA of "+mount, mount+"/cert/ca_chain")
	if err != nil {
		return "", err
	}
	chain := field(answer, "ca_chain")
	if _, err := parseCertificate(chain); err != nil {
		return "", fmt.Errorf("read CA of %s: %w", mount, err)
	}
	return joinPEM(chain), nil
}

// read returns nil if there is nothing at the path.
func (e *Engine) read(ctx context.Context, what, path string) (answer *api.Secret, err error) {
	err = e.do(ctx, what, func() (err error) {
		answer, err = e.client.Logical().ReadWithContext(ctx, path)
		return err
	})
	return answer, err
}

func (e *Engine) write(ctx context.Context, what, path string, body map[string]any) (answer *api.Secret, err error) {
	err = e.do(ctx, what, func() (err error) {
		answer, err = e.client.Logical().WriteWithContext(ctx, path, body)
		return err
	})
	return answer, err
}

// requestedKey returns the key that a request proves to hold.
func requestedKey(csrPEM string) (crypto.PublicKey, error) {
	refused := func(why string) error {
		return fault.New(fault.Invalid, "csr_refused", "the certificate request is not usable: %s", why).
			WithRemedy("send one PEM block CERTIFICATE REQUEST with an ECDSA P-256 or Ed25519 key, signed by that key")
	}
	if len(csrPEM) > maxCSR {
		return nil, refused("it is too large")
	}
	block, rest := pem.Decode([]byte(csrPEM))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, refused("it is not one PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, refused("it cannot be parsed")
	}
	if csr.CheckSignature() != nil {
		return nil, refused("its signature is not one of the key in it")
	}
	switch key := csr.PublicKey.(type) {
	case ed25519.PublicKey:
		return key, nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return key, nil
		}
	}
	return nil, refused("its key is neither ECDSA (P-256, P-384) nor Ed25519")
}

// checkNodeCertificate makes sure that the CA did what was asked. People set up
// the role of the CA, and a role that takes names from the request would let a
// node choose who it is.
func checkNodeCertificate(leaf *x509.Certificate, key crypto.PublicKey, uri string) error {
	same, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case !ok || !same.Equal(key):
		return unexpected("it is for another key")
	case len(leaf.URIs) != 1 || leaf.URIs[0].String() != uri ||
		len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0:
		return unexpected("its names are not the one that was asked for")
	case leaf.Subject.CommonName != "":
		return unexpected("it has a common name")
	case leaf.IsCA || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) ||
		len(leaf.UnknownExtKeyUsage) > 0:
		return unexpected("it is good for more than client authentication")
	}
	return nil
}

func unexpected(why string) error {
	return fault.New(fault.Unavailable, "node_certificate_unexpected",
		"the node CA signed another certificate than was asked for: %s", why).
		WithRemedy("set up role %s/roles/%s as deploy/openbao says", openbao.PKIMount, openbao.NodeRole)
}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block != nil && block.Type == "CERTIFICATE" {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			return c, nil
		}
	}
	return nil, fault.New(fault.Internal, "secrets_answer_malformed", "the secrets engine answered without a certificate")
}

// intermediates returns the issuers that a client needs besides its trust root.
func intermediates(answer *api.Secret) []string {
	chain, _ := answer.Data["ca_chain"].([]any)
	var out []string
	for _, c := range chain {
		text, _ := c.(string)
		if cert, err := parseCertificate(text); err == nil && !bytes.Equal(cert.RawIssuer, cert.RawSubject) {
			out = append(out, text)
		}
	}
	return out
}

func field(answer *api.Secret, name string) string {
	if answer == nil {
		return ""
	}
	text, _ := answer.Data[name].(string)
	return text
}

func joinPEM(parts ...string) string {
	var out strings.Builder
	for _, p := range parts {
		out.WriteString(strings.TrimSpace(p) + "\n")
	}
	return out.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int64(d.Seconds())) }
