// Package sshkey owns the SSH keys that people log in with to what they rent.
// A key belongs to a person, or to a project whose members share it.
//
// Invariants:
//   - Only public keys are kept. Whoever sends a private key is told so, and
//     nothing of it is stored or logged.
//   - A key is one line without options. Nobody can smuggle a command, an
//     environment or a second key into the file of a node.
//   - A token whose scopes do not name ssh_key:manage adds and removes no key of
//     its owner: a key would outlive the token and let in more than it may.
package sshkey
