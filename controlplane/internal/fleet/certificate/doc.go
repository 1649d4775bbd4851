// Package certificate issues certificates and handover receipts: what was done
// to clean a node and what was seen of it, signed, each chained to the one
// before it of the same node. What a document is and how it is checked is in
// contract/certificate; here is who may get one, its place in the chain, and
// the record of it.
//
// Invariants:
//   - The same evidence of an operation has at most one document; asking again
//     gives the same one. An operation that goes through its stages once more
//     gets another, and the newest one counts.
//   - The documents of a node are numbered without a gap, and each names the
//     digest of the one before it. The database decides races.
//   - A document that claims what it has no evidence for is not issued.
//   - What was issued is never changed or removed.
//
// It does not judge whether a node is clean: the operation that cleaned it
// brings what it saw.
package certificate
