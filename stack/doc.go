// Package stack runs the engines that the product needs on one machine: a
// private PostgreSQL, a Temporal server, an OpenBao and NATS JetStream.
//
// It is what `gpuaas up` starts when the operator names no outside service, and
// the same code serves the tests. PostgreSQL comes from the installed binaries,
// Temporal and OpenBao from gpuaas-servers (module stack/servers), NATS runs in
// this process. Everything lives below one state folder:
//
//	lock          held while a launcher runs; says which one
//	stack.json    ports and process ids of the last run; no secrets
//	logs/         one file per engine
//	secrets/      passwords, tokens and AppRole credentials, mode 0600
//	temporal/tls/ certificates of Temporal and its clients, mode 0600
//	postgres/ temporal/ bao/ nats/
//
// Invariants: everything listens on loopback and asks for a password, a token or
// a certificate, so that another account of the machine gets nowhere; no engine
// has a capability, and PostgreSQL, which refuses to be root, is handed its
// folder open; every step of the set-up can be repeated, so a launcher that was
// killed at any moment is followed by one that succeeds; no child outlives its launcher; an engine that dies comes back on
// the same port. The package never hands out a root token or a superuser.
package stack
