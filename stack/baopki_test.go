package stack

import (
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/deploy/openbao"
)

// chainOf reads the CA certificates of a mount: the issuer first, the root last.
func chainOf(t *testing.T, c *api.Client, mount string) []*x509.Certificate {
	t.Helper()
	answer, err := c.Logical().ReadWithContext(t.Context(), mount+"/cert/ca_chain")
	if err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	rest := []byte(answer.Data["ca_chain"].(string))
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, certificate)
	}
	return chain
}

func asRoot(t *testing.T, s *Stack) *api.Client {
	t.Helper()
	c, err := s.supervisor(OpenBao).engine.(*bao).client(readKeys(t, s).RootToken)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNodeCAIsAnIntermediateAndTheServerCAIsAnother(t *testing.T) {
	folder := state(t)
	s := start(t, Options{State: folder, Only: []Engine{OpenBao}})
	node, server := chainOf(t, asRoot(t, s), openbao.PKIMount), chainOf(t, asRoot(t, s), openbao.ServerPKIMount)
	if len(node) != 2 || len(server) != 1 {
		t.Fatalf("chains of %d and %d certificates", len(node), len(server))
	}
	if err := node[0].CheckSignatureFrom(node[1]); err != nil || !node[0].MaxPathLenZero {
		t.Errorf("the node CA is no intermediate at the end of a chain: %v", err)
	}
	if err := server[0].CheckSignatureFrom(node[1]); err == nil || server[0].CheckSignatureFrom(server[0]) != nil {
		t.Error("the server CA is not a root of its own")
	}
	stop(t, s)
	s = start(t, Options{State: folder, Only: []Engine{OpenBao}})
	if again := chainOf(t, asRoot(t, s), openbao.PKIMount); !again[0].Equal(node[0]) {
		t.Error("a second start made another node CA")
	}
	if again := chainOf(t, asRoot(t, s), openbao.ServerPKIMount); !again[0].Equal(server[0]) {
		t.Error("a second start made another server CA")
	}
}

// Folders of earlier versions have a node CA that is its own root, and nothing
// for servers. Certificates that were issued under it must stay valid.
func TestAnOlderFolderKeepsItsNodeCA(t *testing.T) {
	folder := state(t)
	s := start(t, Options{State: folder, Only: []Engine{OpenBao}})
	c := asRoot(t, s)
	for _, mount := range []string{openbao.PKIMount, rootPKIMount, openbao.ServerPKIMount} {
		if err := c.Sys().UnmountWithContext(t.Context(), mount); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Sys().MountWithContext(t.Context(), openbao.PKIMount,
		&api.MountInput{Type: "pki", Config: api.MountConfigInput{MaxLeaseTTL: caLifetime}}); err != nil {
		t.Fatal(err)
	}
	if err := ensureRoot(t.Context(), c, openbao.PKIMount, "gpuaas node CA"); err != nil {
		t.Fatal(err)
	}
	old := chainOf(t, c, openbao.PKIMount)
	stop(t, s)

	s = start(t, Options{State: folder, Only: []Engine{OpenBao}})
	if now := chainOf(t, asRoot(t, s), openbao.PKIMount); len(now) != 1 || !now[0].Equal(old[0]) {
		t.Error("the node CA was replaced")
	}
	if server := chainOf(t, asRoot(t, s), openbao.ServerPKIMount); len(server) != 1 || server[0].Equal(old[0]) {
		t.Error("no server CA was made")
	}
	product, err := logInToBao(t.Context(), s.Endpoints())
	if err != nil {
		t.Fatal(err)
	}
	_, err = product.Logical().WriteWithContext(t.Context(), "gpuaas-pki/sign/node",
		map[string]any{"csr": nodeRequest(t), "uri_sans": "spiffe://gpuaas.test/node/n1"})
	if err != nil {
		t.Errorf("it signs no more: %v", err)
	}
}
