package stacktest

import (
	"testing"

	"gpuaas/stack"
)

// Temporal returns the shared server and its namespace, with the product's
// search attributes. Tests keep apart by task queue and workflow id.
func Temporal(tb testing.TB) (address, namespace string) {
	tb.Helper()
	p := engine(tb, stack.Temporal).Endpoints
	return p.TemporalAddress, p.TemporalNamespace
}

// BaoAccess is how the product logs in to its secrets engine.
type BaoAccess struct {
	Address      string
	RoleIDFile   string
	SecretIDFile string
}

// Bao returns the shared secrets engine. Tests keep apart by path.
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

// NATS starts a server of the test's own, in this process; it takes
// milliseconds.
func NATS(tb testing.TB) NATSAccess {
	tb.Helper()
	p := Start(tb, stack.Options{Only: []stack.Engine{stack.NATS}}).Endpoints()
	return NATSAccess{URL: p.NATSURL, TokenFile: p.NATSTokenFile}
}
