// Package signer owns the keys that sign tasks and agent packages. The private
// halves stay in the secrets engine. This package records which key signs now
// and which ones nodes accept, and replaces one key by another so that no node
// ever refuses its work.
//
// A new key is staged first: nodes learn to accept it before it signs anything.
// When all of them do, it becomes active and the one before it stays acceptable
// for a grace period, in which the exchange can be undone.
package signer
