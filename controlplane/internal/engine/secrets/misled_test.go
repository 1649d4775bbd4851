package secrets_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/secrets"
)

// misled is an engine whose role was set up wrongly: it signs what the test
// says and not what it was asked for.
func misled(t *testing.T, certificate string) *secrets.Engine {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"data": map[string]any{"certificate": certificate, "issuing_ca": certificate}}
		if r.URL.Path == "/v1/auth/approle/login" {
			answer = map[string]any{"auth": map[string]any{"client_token": "t", "lease_duration": 3600}}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return open(t, func(c *secrets.Config) { c.Address = server.URL })
}

func TestACertificateThatWasNotAskedForIsNotHandedOut(t *testing.T) {
	key, uri := p256(t), nodeURI()
	own, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(nodeURI())
	if err != nil {
		t.Fatal(err)
	}
	good := x509.Certificate{
		SerialNumber: big.NewInt(0x0abc), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{own},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	sign := func(change func(*x509.Certificate), public any) string {
		template := good
		change(&template)
		der, err := x509.CreateCertificate(rand.Reader, &template, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}},
			public, p256(t))
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	csr := greedyRequest(t, key)
	c, err := misled(t, sign(func(*x509.Certificate) {}, key.Public())).SignNodeCSR(t.Context(), csr, uri, time.Hour)
	if err != nil || c.Serial != "0abc" {
		t.Fatalf("the right one: %q, %v", c.Serial, err)
	}
	for name, certificate := range map[string]string{
		"of another key":   sign(func(*x509.Certificate) {}, p256(t).Public()),
		"of another node":  sign(func(c *x509.Certificate) { c.URIs = []*url.URL{other} }, key.Public()),
		"of two nodes":     sign(func(c *x509.Certificate) { c.URIs = []*url.URL{own, other} }, key.Public()),
		"with a host name": sign(func(c *x509.Certificate) { c.DNSNames = []string{"console.example"} }, key.Public()),
		"with an address": sign(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} },
			key.Public()),
		"with a common name": sign(func(c *x509.Certificate) { c.Subject.CommonName = "console.example" }, key.Public()),
		"for servers": sign(func(c *x509.Certificate) {
			c.ExtKeyUsage = append(c.ExtKeyUsage,
				x509.ExtKeyUsageServerAuth)
		}, key.Public()),
		"for anything": sign(func(c *x509.Certificate) { c.ExtKeyUsage = nil }, key.Public()),
		"of a CA":      sign(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, key.Public()),
	} {
		_, err := misled(t, certificate).SignNodeCSR(t.Context(), csr, uri, time.Hour)
		if fault.CodeOf(err) != "node_certificate_unexpected" || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := misled(t, "").SignNodeCSR(t.Context(), csr, uri,
		time.Hour); fault.CodeOf(err) != "secrets_answer_malformed" {
		t.Errorf("nothing: %v", err)
	}
}
