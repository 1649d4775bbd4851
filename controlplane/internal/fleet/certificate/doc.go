// Package certificate issues certificates and handover receipts: signed
// documents that say what was done to clean a node and what was seen of it.
// Each names the one before it of the same node, so that they form a chain.
// contract/certificate says what a document is and how it is checked. This
// package decides who may get one and its place in the chain, and records it.
//
// Invariants:
//   - The same evidence of an operation has at most one document; asking again
//     returns the same one. An operation that goes through its stages once more
//     gets another, and the newest one counts.
//   - The documents of a node are numbered without a gap, and each names the
//     digest of the one before it. The database decides races.
//   - A document that claims something without evidence is not issued.
//   - An issued document is never changed or removed.
//
// The package does not judge whether a node is clean: the operation that
// cleaned it brings the evidence.
package certificate
