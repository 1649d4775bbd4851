// Package stack runs the engines that the product needs on one machine: a
// private PostgreSQL, a Temporal server, an OpenBao and NATS JetStream.
//
// `gpuaas up` starts it if the operator names no outside service, and the same
// code serves the tests. PostgreSQL comes from the installed binaries, Temporal
// and OpenBao from gpuaas-servers (module stack/servers), and NATS runs in this
// process. Everything lives below one state folder:
//
//	lock          held while a launcher runs; says which one
//	stack.json    ports and process ids of the last run; no secrets
//	logs/         one file per engine
//	secrets/      passwords, tokens and AppRole credentials, mode 0600
//	temporal/tls/ certificates of Temporal and its clients, mode 0600
//	postgres/ temporal/ bao/ nats/
//
// Invariants:
//   - Everything listens on loopback and asks for a password, a token or a
//     certificate, so that another account of the machine gets nowhere.
//   - No engine has a capability. PostgreSQL, which refuses to run as root,
//     gets its folder as an open file.
//   - Every step of the set-up can be repeated: a launcher that was killed at
//     any moment is followed by one that succeeds.
//   - No child outlives its launcher. An engine that dies comes back on the
//     same port.
//   - The package never hands out a root token or a superuser.
package stack
