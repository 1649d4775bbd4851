package stacktest

import (
	"crypto/rand"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"gpuaas/stack"
	"gpuaas/testkit"
)

// TemporalAccess is how the product connects to Temporal.
type TemporalAccess struct {
	Address    string
	Namespace  string
	CAFile     string
	CertFile   string
	KeyFile    string
	ServerName string
}

// Temporal returns the shared server and a namespace of the test, with the
// product's search attributes. All workers of the product serve one task queue:
// in one namespace, tests would get the tasks of others.
func Temporal(tb testing.TB) TemporalAccess {
	tb.Helper()
	p := engine(tb, stack.Temporal).Endpoints
	a := TemporalAccess{
		Address: p.TemporalAddress, Namespace: "test-" + strings.ToLower(rand.Text()),
		CAFile: p.TemporalCAFile, CertFile: p.TemporalCertFile, KeyFile: p.TemporalKeyFile,
	}
	c, err := client.Dial(a.Options(tb))
	if err != nil {
		tb.Fatalf("connect to Temporal: %v", err)
	}
	defer c.Close()
	usable, err := stack.MakeNamespace(tb.Context(), c, a.Namespace)
	if err != nil {
		tb.Fatal(err)
	}
	testkit.Succeeds(tb, "the namespace of the test", testkit.Patience, func() error { return usable(tb.Context()) })
	return a
}

// Options returns those of a plain client of the server.
func (a TemporalAccess) Options(tb testing.TB) client.Options {
	tb.Helper()
	options := client.Options{HostPort: a.Address, Namespace: a.Namespace}
	if a.CertFile == "" { // a stack of an older launcher
		return options
	}
	trust, err := stack.ClientTLS(a.CAFile, a.CertFile, a.KeyFile)
	if err != nil {
		tb.Fatalf("read the certificates of Temporal: %v", err)
	}
	options.ConnectionOptions.TLS = trust
	return options
}

// BaoAccess is how the product logs in to its secrets engine.
type BaoAccess struct {
	Address      string
	RoleIDFile   string
	SecretIDFile string
}

// Bao returns the shared secrets engine. Tests use different paths.
func Bao(tb testing.TB) BaoAccess {
	tb.Helper()
	p := engine(tb, stack.OpenBao).Endpoints
	return BaoAccess{Address: p.SecretsAddress, RoleIDFile: p.SecretsRoleIDFile, SecretIDFile: p.SecretsSecretIDFile}
}

// NATSAccess is how the product connects to NATS.
type NATSAccess struct {
	URL       string
	TokenFile string
}

// NATS starts the test's own server in this process; it takes milliseconds.
func NATS(tb testing.TB) NATSAccess {
	tb.Helper()
	p := Start(tb, stack.Options{Only: []stack.Engine{stack.NATS}}).Endpoints()
	return NATSAccess{URL: p.NATSURL, TokenFile: p.NATSTokenFile}
}
