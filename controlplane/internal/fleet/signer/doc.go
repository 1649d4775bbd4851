// Package signer owns the keys that tasks and agent packages are signed with.
// The private halves stay in the secrets engine; here is which key signs now,
// which ones nodes accept, and how one key replaces another without a moment
// in which a node refuses its work.
//
// A new key is staged first: nodes learn to accept it before it signs
// anything. When all of them do, it becomes active and the one before it stays
// acceptable for a grace period, in which the exchange can be undone.
package signer
