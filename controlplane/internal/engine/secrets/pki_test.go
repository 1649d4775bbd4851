package secrets_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/stack/stacktest"
)

func p256(tb testing.TB) crypto.Signer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// greedyRequest asks for every name that a node must not get.
func greedyRequest(tb testing.TB, key crypto.Signer) string {
	tb.Helper()
	other, err := url.Parse("spiffe://gpuaas.test/node/somebody-else")
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "console.example"}, DNSNames: []string{"console.example"},
		EmailAddresses: []string{"root@console.example"},
		IPAddresses:    []net.IP{net.IPv4(10, 0, 0, 1)}, URIs: []*url.URL{other},
	}, key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func nodeURI() string { return "spiffe://gpuaas.test/node/" + id.NewString() }

func parse(tb testing.TB, text string) *x509.Certificate {
	tb.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		tb.Fatalf("no PEM in %q", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func pool(tb testing.TB, text string, err error) *x509.CertPool {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM([]byte(text)) {
		tb.Fatalf("no certificates in %q", text)
	}
	return p
}

func TestANodeCertificateHasOneNameAndOneUse(t *testing.T) {
	e := open(t, nil)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, caErr := e.NodeCA(t.Context())
	for name, key := range map[string]crypto.Signer{"P-256": p256(t), "Ed25519": ed} {
		t.Run(name, func(t *testing.T) {
			uri := nodeURI()
			signed, err := e.SignNodeCSR(t.Context(), greedyRequest(t, key), uri, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			leaf := parse(t, signed.PEM)
			if len(leaf.URIs) != 1 || leaf.URIs[0].String() != uri {
				t.Errorf("URIs are %v", leaf.URIs)
			}
			if len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) != 0 || leaf.Subject.CommonName != "" {
				t.Errorf("names of the request were taken over: %v %v %v %q", leaf.DNSNames, leaf.IPAddresses, leaf.EmailAddresses,
					leaf.Subject.CommonName)
			}
			if !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) || leaf.IsCA {
				t.Errorf("usages are %v, CA %v", leaf.ExtKeyUsage, leaf.IsCA)
			}
			if signed.Serial != hex.EncodeToString(leaf.SerialNumber.Bytes()) || !signed.NotAfter.Equal(leaf.NotAfter) {
				t.Errorf("serial %s, not after %v do not describe the certificate", signed.Serial, signed.NotAfter)
			}
			if err := leaf.CheckSignatureFrom(parse(t, signed.IssuerPEM)); err != nil {
				t.Errorf("not signed by its issuer: %v", err)
			}
			if _, err := leaf.Verify(x509.VerifyOptions{
				Roots:     pool(t, ca, caErr),
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			}); err != nil {
				t.Errorf("not good under the node CA: %v", err)
			}
		})
	}
}

func TestANodeCAEndsInItsRoot(t *testing.T) {
	text, err := open(t, nil).NodeCA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text, "BEGIN CERTIFICATE"); n != 2 {
		t.Fatalf("%d certificates, want an intermediate and its root:\n%s", n, text)
	}
	if first := parse(t, text); first.CheckSignatureFrom(first) == nil {
		t.Error("the issuer is its own root")
	}
}

func TestANodeCertificateLivesADayAtMost(t *testing.T) {
	e := open(t, nil)
	for asked, most := range map[time.Duration]time.Duration{time.Hour: time.Hour, 365 * 24 * time.Hour: 24 * time.Hour} {
		signed, err := e.SignNodeCSR(t.Context(), greedyRequest(t, p256(t)), nodeURI(), asked)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(signed.NotAfter); left > most || left < most-5*time.Minute {
			t.Errorf("asked for %v, lives %v", asked, left)
		}
	}
}

func TestARequestThatProvesNothingIsRefused(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := greedyRequest(t, p256(t))
	block, _ := pem.Decode([]byte(good))
	forged := slices.Clone(block.Bytes)
	forged[len(forged)-1] ^= 1
	again := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	e := open(t, func(c *secrets.Config) { c.Address = "http://127.0.0.1:1" }) // refused without asking anybody
	for name, csr := range map[string]string{
		"nothing":               "",
		"not PEM":               "canary-text",
		"another block":         again("CERTIFICATE", block.Bytes),
		"not a request":         again("CERTIFICATE REQUEST", []byte("canary-text")),
		"forged signature":      again("CERTIFICATE REQUEST", forged),
		"two requests":          good + good,
		"RSA key":               greedyRequest(t, weak),
		"larger than a request": good + strings.Repeat("\n", 1<<20),
	} {
		_, err := e.SignNodeCSR(t.Context(), csr, nodeURI(), time.Hour)
		if fault.KindOf(err) != fault.Invalid || fault.CodeOf(err) != "csr_refused" ||
			strings.Contains(err.Error(), "canary-text") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestANameBesideNodesIsNotSigned(t *testing.T) {
	e := open(t, nil)
	for _, uri := range []string{"spiffe://gpuaas.test/admin/a", "https://console.example/", ""} {
		if c, err := e.SignNodeCSR(t.Context(), greedyRequest(t, p256(t)), uri, time.Hour); err == nil {
			t.Errorf("%q was signed as %v", uri, parse(t, c.PEM).URIs)
		}
	}
}

func TestARevokedCertificateIsOnTheList(t *testing.T) {
	e := open(t, nil)
	signed, err := e.SignNodeCSR(t.Context(), greedyRequest(t, p256(t)), nodeURI(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	serial := parse(t, signed.PEM).SerialNumber
	listed := func() bool {
		return slices.ContainsFunc(revocationList(t).RevokedCertificateEntries,
			func(r x509.RevocationListEntry) bool { return r.SerialNumber.Cmp(serial) == 0 })
	}
	if listed() {
		t.Fatal("revoked before it was")
	}
	for range 2 { // a revocation is repeated when its answer was lost
		if err := e.RevokeCertificate(t.Context(), signed.Serial); err != nil {
			t.Fatal(err)
		}
	}
	if !listed() {
		t.Error("not on the revocation list")
	}
	if err := e.RevokeCertificate(t.Context(), "0123456789abcdef"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("a serial that nobody has: %v", err)
	}
	for _, bad := range []string{"", "xyz", "01:02", strings.Repeat("ab", 21)} {
		if err := e.RevokeCertificate(t.Context(), bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func revocationList(t *testing.T) *x509.RevocationList {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, stacktest.Bao(t).Address+"/v1/gpuaas-pki/crl",
		nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	der, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAServerCertificateStandsOnItsOwnRoot(t *testing.T) {
	e := open(t, nil)
	names := []string{"nodes.gpuaas.test", "127.0.0.1", "::1", "api.gpuaas.test"}
	issued, err := e.IssueServerCertificate(t.Context(), names, 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair([]byte(issued.PEM), []byte(issued.Key.Reveal())); err != nil {
		t.Errorf("certificate and key do not belong together: %v", err)
	}
	if shown := fmt.Sprintf("%v %+v", issued, issued); strings.Contains(shown, "PRIVATE KEY") {
		t.Error("the key shows when it is printed")
	}
	leaf := parse(t, issued.PEM)
	if left := time.Until(issued.NotAfter); !issued.NotAfter.Equal(leaf.NotAfter) || left > 48*time.Hour ||
		left < 47*time.Hour {
		t.Errorf("lives %v", left)
	}
	serverCA, err := e.ServerCA(t.Context())
	server := pool(t, serverCA, err)
	nodeCA, err := e.NodeCA(t.Context())
	node := pool(t, nodeCA, err)
	for _, name := range names {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: server, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: node}); err == nil {
		t.Error("a server certificate is good under the node CA")
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots:     server,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err == nil {
		t.Error("a server certificate is good for clients")
	}
	signed, err := e.SignNodeCSR(t.Context(), greedyRequest(t, p256(t)), nodeURI(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, signed.PEM).Verify(
		x509.VerifyOptions{Roots: server, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
		t.Error("a node certificate is good under the server CA")
	}
}

func TestServerNamesAreNamesOrAddresses(t *testing.T) {
	e := open(t, nil)
	for _, names := range [][]string{nil, {""}, {"a,b"}} {
		if _, err := e.IssueServerCertificate(t.Context(), names, time.Hour); fault.CodeOf(err) != "server_name_invalid" {
			t.Errorf("%q: %v", names, err)
		}
	}
}

func TestPKIThatIsNotThereIsUnavailable(t *testing.T) {
	e := open(t, func(c *secrets.Config) { c.Address = "http://127.0.0.1:1" })
	_, signErr := e.SignNodeCSR(t.Context(), greedyRequest(t, p256(t)), nodeURI(), time.Hour)
	_, issueErr := e.IssueServerCertificate(t.Context(), []string{"a.test"}, time.Hour)
	_, caErr := e.NodeCA(t.Context())
	for _, err := range []error{signErr, issueErr, caErr, e.RevokeCertificate(t.Context(), "01")} {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("got %v", err)
		}
	}
}
