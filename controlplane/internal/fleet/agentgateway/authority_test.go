package agentgateway_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/secrets"
)

// authority is a certificate authority whose certificates can be wrong in any
// way that is asked for.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func serialNumber() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err)
	}
	return n
}

func newAuthority(tb testing.TB, name string, parent *authority) *authority {
	tb.Helper()
	a := &authority{key: newKey(tb)}
	template := &x509.Certificate{
		SerialNumber: serialNumber(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(400 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	signer, key := template, a.key
	if parent != nil {
		signer, key = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, a.key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// sign makes a certificate out of a template, which may hold anything.
func (a *authority) sign(tb testing.TB, public any, template x509.Certificate) []byte {
	tb.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = serialNumber()
	}
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(24*time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, public, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	return der
}

func uri(text string) []*url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return []*url.URL{u}
}

// engine is a secrets engine that signs with authorities of its own.
type engine struct {
	tb           testing.TB
	nodes, other *authority // of node certificates, and of server certificates

	mu     sync.Mutex
	nodeCA string
	fail   error
	keys   map[string]ed25519.PrivateKey
	life   time.Duration // of server certificates; zero: what is asked for
	issued int
}

func newEngine(tb testing.TB) *engine {
	tb.Helper()
	root := newAuthority(tb, "node root", nil)
	e := &engine{
		tb: tb, nodes: newAuthority(tb, "node CA", root), other: newAuthority(tb, "server root", nil),
		keys: map[string]ed25519.PrivateKey{},
	}
	e.nodeCA = e.nodes.pem + root.pem
	return e
}

func (e *engine) breaks(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = err
}

func (e *engine) broken() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fail
}

func (e *engine) SignNodeCSR(_ context.Context, csr, identity string, ttl time.Duration) (secrets.Certificate, error) {
	if err := e.broken(); err != nil {
		return secrets.Certificate{}, err
	}
	block, _ := pem.Decode([]byte(csr))
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return secrets.Certificate{}, fault.New(fault.Invalid, "csr_refused", "no")
	}
	end := time.Now().Add(ttl).Truncate(time.Second)
	template := clientTemplate(identity)
	template.NotBefore, template.NotAfter, template.SerialNumber = time.Now().Add(-time.Minute), end, serialNumber()
	der := e.nodes.sign(e.tb, request.PublicKey, template)
	return secrets.Certificate{
		PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), IssuerPEM: e.nodes.pem,
		Serial: hex.EncodeToString(template.SerialNumber.Bytes()), NotAfter: end,
	}, nil
}

func (e *engine) RevokeCertificate(context.Context, string) error { return e.broken() }

func (e *engine) CreateSigningKey(_ context.Context, name string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	e.keys[name] = private
	return public, err
}

func (e *engine) Sign(_ context.Context, name string, message []byte) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	return ed25519.Sign(e.keys[name], message), nil
}

func clientTemplate(identity string) x509.Certificate {
	return x509.Certificate{
		URIs: uri(identity), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func (e *engine) NodeCA(context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nodeCA, e.fail
}

func (e *engine) ServerCA(context.Context) (string, error) { return e.other.pem, e.broken() }

func (e *engine) IssueServerCertificate(_ context.Context, names []string,
	ttl time.Duration,
) (secrets.ServerCertificate, error) {
	e.mu.Lock()
	if e.life != 0 {
		ttl = e.life
	}
	e.issued++
	fail := e.fail
	e.mu.Unlock()
	if fail != nil {
		return secrets.ServerCertificate{}, fail
	}
	key := newKey(e.tb)
	end := time.Now().Add(ttl)
	template := x509.Certificate{
		NotBefore: time.Now().Add(-time.Minute), NotAfter: end, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der := e.other.sign(e.tb, key.Public(), template)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return secrets.ServerCertificate{}, err
	}
	return secrets.ServerCertificate{
		PEM:      string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:      redact.New(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))),
		NotAfter: end,
	}, nil
}

// pair is what a client shows.
func pair(key *ecdsa.PrivateKey, der ...[]byte) *tls.Certificate {
	return &tls.Certificate{Certificate: der, PrivateKey: key}
}

func requestFor(tb testing.TB, key *ecdsa.PrivateKey) string {
	tb.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "ignored"}}, key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}
