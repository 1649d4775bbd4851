package stack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
	"github.com/openbao/openbao/api/v2"
)

func TestPostgresAsksForAPassword(t *testing.T) {
	s := start(t, Options{State: state(t), Only: []Engine{Postgres}})
	for _, role := range []string{superuser, ownerRole, productRole, appRole, temporalRole} {
		for _, password := range []string{"", "wrong"} {
			url := s.postgres().url(role, password, superuserDatabase)
			conn, err := pgx.Connect(t.Context(), url)
			if err == nil {
				_ = conn.Close(t.Context())
				t.Errorf("%s logs in with password %q", role, password)
			}
		}
	}
	p := s.Endpoints()
	stranger := strings.Replace(p.PostgresURL, "/"+productDatabase+"?", "/"+temporalDatabase+"?", 1)
	if err := query(t.Context(), stranger, "SELECT 1"); err == nil {
		t.Error("the product's role may enter Temporal's database")
	}
	for _, url := range []string{p.PostgresURL, p.PostgresMigrateURL} {
		err := query(t.Context(), url, "SELECT 1 / count(*) FROM pg_roles WHERE rolname = current_user AND NOT (rolsuper "+
			"OR rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication)")
		if err != nil {
			t.Errorf("a role has more than it needs: %v", err)
		}
	}
}

func TestNATSAsksForItsToken(t *testing.T) {
	s := start(t, Options{State: state(t), Only: []Engine{NATS}})
	for _, option := range []natsgo.Option{natsgo.Token(""), natsgo.Token("wrong")} {
		if c, err := natsgo.Connect(s.Endpoints().NATSURL, option); err == nil {
			c.Close()
			t.Error("NATS lets a client in without its token")
		}
	}
}

// Every secret of the stack stays in files that only their owner can read.
func TestSecretsStayInTheirFiles(t *testing.T) {
	s := start(t, Options{State: state(t)})
	secrets := secretsOf(t, s)
	keys := readKeys(t, s)

	handedOut, err := json.Marshal(s.Endpoints())
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{keys.RootToken, keys.UnsealKey, s.postgres().passwords[superuser]} {
		if strings.Contains(string(handedOut), hidden) {
			t.Error("the endpoints hold a root token, an unseal key or the superuser's password")
		}
	}
	for _, text := range []string{
		fmt.Sprint(s.Endpoints()), fmt.Sprintf("%+v %#v", s.Endpoints(), s.Endpoints()),
		s.Endpoints().LogValue().String(),
	} {
		wantNone(t, "printed endpoints", text, secrets)
	}
	for _, e := range []Engine{Postgres, Temporal, OpenBao} {
		for _, file := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.PID(e), file))
			if err != nil {
				t.Fatal(err)
			}
			wantNone(t, file+" of "+string(e), string(b), secrets)
		}
	}
	stop(t, s)
	allowed := []string{"secrets", filepath.Join("bao", baoKeysFile), filepath.Join("temporal", "config.json")}
	err = filepath.WalkDir(string(s.folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, string(s.folder)+"/")
		if info.Mode().Perm()&0o077 != 0 && !strings.HasPrefix(name, "nats/") && !strings.HasPrefix(name, "postgres/data/") {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		if slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(name, a) }) {
			return nil
		}
		b, err := os.ReadFile(path)
		wantNone(t, name, string(b), secrets)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func secretsOf(t *testing.T, s *Stack) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(s.folder.path("secrets"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, entry := range entries {
		if found[entry.Name()], err = s.folder.secret(entry.Name()); err != nil {
			t.Fatal(err)
		}
	}
	for _, as := range identities() {
		delete(found, as.roleIDFile) // a name, not a secret
	}
	keys := readKeys(t, s)
	found["root token"], found["unseal key"] = keys.RootToken, keys.UnsealKey
	return found
}

func readKeys(t *testing.T, s *Stack) baoKeys {
	t.Helper()
	keys, err := s.supervisor(OpenBao).engine.(*bao).readKeys()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func wantNone(t *testing.T, where, text string, secrets map[string]string) {
	t.Helper()
	for name, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s holds the secret %s", where, name)
		}
	}
}

func TestAppRoleMayDoItsWorkAndNothingElse(t *testing.T) {
	s := start(t, Options{State: state(t), Only: []Engine{OpenBao}})
	c, err := logInToBao(t.Context(), s.Endpoints())
	if err != nil {
		t.Fatal(err)
	}
	wantModestToken(t, c)

	type call struct {
		verb, path string
		data       map[string]any
	}
	request := func(r call) (*api.Secret, error) {
		switch r.verb {
		case "read":
			return c.Logical().ReadWithContext(t.Context(), r.path)
		case "list":
			return c.Logical().ListWithContext(t.Context(), r.path)
		case "delete":
			return c.Logical().DeleteWithContext(t.Context(), r.path)
		}
		return c.Logical().WriteWithContext(t.Context(), r.path, r.data)
	}
	csr := nodeRequest(t)
	for _, r := range []call{
		{"write", "gpuaas-kv/data/sites/a", map[string]any{"data": map[string]any{"k": "v"}}},
		{"read", "gpuaas-kv/data/sites/a", nil},
		{"list", "gpuaas-kv/metadata/sites", nil},
		{"write", "gpuaas-kv/delete/sites/a", map[string]any{"versions": []int{1}}},
		{"write", "gpuaas-kv/destroy/sites/a", map[string]any{"versions": []int{1}}},
		{"delete", "gpuaas-kv/metadata/sites/a", nil},
		{"write", "gpuaas-transit/keys/tasks", map[string]any{"type": "ed25519"}},
		{"read", "gpuaas-transit/keys/tasks", nil},
		{"write", "gpuaas-transit/sign/tasks", map[string]any{"input": "aGk="}},
		{"write", "gpuaas-pki/sign/node", map[string]any{"csr": csr, "uri_sans": "spiffe://gpuaas.test/node/n1"}},
		{"read", "gpuaas-pki/cert/ca_chain", nil},
		{
			"write", "gpuaas-server-pki/issue/control-plane",
			map[string]any{"alt_names": "nodes.gpuaas.test", "ip_sans": "127.0.0.1"},
		},
		{"read", "gpuaas-server-pki/cert/ca_chain", nil},
		{"read", "auth/token/lookup-self", nil},
		{"write", "auth/token/renew-self", nil},
	} {
		if _, err := request(r); err != nil {
			t.Errorf("%s %s: refused: %v", r.verb, r.path, err)
		}
	}
	for _, r := range []call{
		{"read", "sys/policies/acl/gpuaas", nil},
		{"write", "sys/policies/acl/gpuaas", map[string]any{"policy": `path "*" { capabilities = ["sudo"] }`}},
		{"read", "sys/mounts", nil},
		{"write", "sys/mounts/mine", map[string]any{"type": "kv"}},
		{"read", "sys/raw/core", nil},
		{"write", "sys/seal", nil},
		{"write", "cubbyhole/mine", map[string]any{"k": "v"}},
		{"write", "secret/data/mine", map[string]any{"data": map[string]any{"k": "v"}}},
		{"write", "auth/token/create", map[string]any{"policies": []string{"root"}}},
		{"write", "auth/approle/role/gpuaas", map[string]any{"token_policies": []string{"root"}}},
		{"read", "auth/approle/role/gpuaas/role-id", nil},
		{"write", "gpuaas-transit/keys/open", map[string]any{"type": "ed25519", "exportable": true}},
		{"write", "gpuaas-transit/keys/other", map[string]any{"type": "rsa-2048"}},
		{"write", "gpuaas-transit/keys/tasks/rotate", nil},
		{"write", "gpuaas-transit/keys/tasks/config", map[string]any{"deletion_allowed": true}},
		{"read", "gpuaas-transit/export/signing-key/tasks", nil},
		{"read", "gpuaas-transit/backup/tasks", nil},
		{"delete", "gpuaas-transit/keys/tasks", nil},
		{"write", "gpuaas-pki/roles/mine", map[string]any{"allow_any_name": true}},
		{"write", "gpuaas-pki/root/generate/internal", map[string]any{"common_name": "mine"}},
		{"write", "gpuaas-pki/sign-verbatim", map[string]any{"csr": csr}},
		{"write", "gpuaas-pki/issue/node", map[string]any{"uri_sans": "spiffe://gpuaas.test/node/n1"}},
		{"write", "gpuaas-pki-root/root/sign-intermediate", map[string]any{"csr": csr, "common_name": "mine"}},
		{"write", "gpuaas-server-pki/sign/control-plane", map[string]any{"csr": csr}},
		{"write", "gpuaas-server-pki/roles/control-plane", map[string]any{"client_flag": true}},
		{"write", "gpuaas-pki/sign/node", map[string]any{"csr": csr, "uri_sans": "spiffe://gpuaas.test/admin/a"}},
		{"write", "gpuaas-pki/sign/node", map[string]any{"csr": csr, "common_name": "console.example"}},
	} {
		if _, err := request(r); err == nil {
			t.Errorf("%s %s: allowed, want refused", r.verb, r.path)
		}
	}
}

func wantModestToken(t *testing.T, c *api.Client) {
	t.Helper()
	self, err := c.Auth().Token().LookupSelfWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	policies, err := self.TokenPolicies()
	if err != nil || !slices.Equal(policies, []string{"gpuaas"}) {
		t.Errorf("the token has policies %v (%v), want only gpuaas", policies, err)
	}
	if ttl, err := self.TokenTTL(); err != nil || ttl.Hours() > 1 {
		t.Errorf("the token lives %v (%v), want an hour at most", ttl, err)
	}
}

// nodeRequest is a certificate request that asks for more than a node may have.
func nodeRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "console.example"}, DNSNames: []string{"console.example"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func TestNodeCertificateBearsOnlyItsURI(t *testing.T) {
	s := start(t, Options{State: state(t), Only: []Engine{OpenBao}})
	c, err := logInToBao(t.Context(), s.Endpoints())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := c.Logical().WriteWithContext(t.Context(), "gpuaas-pki/sign/node",
		map[string]any{"csr": nodeRequest(t), "uri_sans": "spiffe://gpuaas.test/node/n1"})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(signed.Data["certificate"].(string)))
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if len(certificate.URIs) != 1 || certificate.URIs[0].String() != "spiffe://gpuaas.test/node/n1" {
		t.Errorf("URIs are %v", certificate.URIs)
	}
	if len(certificate.DNSNames) != 0 || certificate.Subject.CommonName != "" {
		t.Errorf("the names of the request were taken over: %v, %q", certificate.DNSNames, certificate.Subject.CommonName)
	}
	if !slices.Equal(certificate.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("usages are %v, want client authentication only", certificate.ExtKeyUsage)
	}
	if life := certificate.NotAfter.Sub(certificate.NotBefore); life.Hours() > 24.1 {
		t.Errorf("the certificate lives %v", life)
	}
}

// Another account takes the port of the database while it is down, and asks
// every caller for the password.
func TestAttackAFakeDatabaseAsksForThePassword(t *testing.T) {
	s := start(t, Options{State: state(t), Only: []Engine{Postgres}})
	url := s.Endpoints().PostgresURL
	if err := s.Kill(Postgres); err != nil {
		t.Fatal(err)
	}
	fake, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.postgres().address())
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	heard := make(chan string, 1)
	go func() {
		conn, err := fake.Accept()
		if err != nil {
			heard <- err.Error()
			return
		}
		defer conn.Close()
		buffer := make([]byte, 4096)
		_, _ = conn.Read(buffer)                               // who it is
		_, _ = conn.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3}) // the password, in the clear
		n, _ := conn.Read(buffer)
		heard <- string(buffer[:n])
	}()
	if err := query(t.Context(), url, "SELECT 1"); err == nil {
		t.Error("the product believes a fake database")
	}
	if said := <-heard; strings.Contains(said, s.postgres().passwords[productRole]) {
		t.Error("a fake database was told the password")
	}
}
