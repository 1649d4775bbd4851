package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/auth"
)

// selfSigned is a certificate that is its own authority, and its key.
func selfSigned(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames:  []string{"localhost"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// A process whose node listener started with a certificate that nodes cannot
// verify is not ready, and says so to load balancers, operators and whoever
// started it.
func TestAListenerThatNoNodeCanVerifyIsNotReady(t *testing.T) {
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	fresh, key := selfSigned(t, "another authority")
	for name, text := range map[string][]byte{"tls.crt": fresh, "ca.crt": fresh, "tls.key": key} {
		if err := os.WriteFile(file(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := newHouse(t, func(c *Config) {
		c.Roles, c.Nodes.Listen = []Role{RoleAPI}, "127.0.0.1:0"
		c.Nodes.TLS.CertFile, c.Nodes.TLS.KeyFile, c.Nodes.TLS.CAFile = file("tls.crt"), file("tls.key"), file("ca.crt")
	})
	known, _ := selfSigned(t, "the authority that nodes know")
	if _, err := h.fleet.signers.Bundle(t.Context(), string(known)); err != nil {
		t.Fatal(err)
	}
	if err := h.fleet.trust.CheckNow(t.Context()); err == nil { // as when the listener starts
		t.Fatal("nobody noticed")
	}
	said := make(chan Announcement, 1)
	h.opts.Ready = func(a Announcement) { said <- a }
	h.announce(t.Context(), "127.0.0.1:0")
	if a := <-said; a.Listener == nil || !strings.Contains(a.Listener.Error(), `"the authority that nodes know"`) {
		t.Errorf("whoever started it is told: %v", a.Listener)
	}
	w := httptest.NewRecorder()
	h.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), `"node_listener":{"up":false,"code":"listener_not_in_bundle"}`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if _, body := h.get(t, auth.Auditor, "/api/v1/admin/system"); !strings.Contains(body, `"ready":false`) ||
		!strings.Contains(body, "start with the files it had") {
		t.Error(body)
	}
}
