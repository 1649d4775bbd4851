// Package ledger owns the money of tenants: double entry, append-only.
//
// Invariants, all held by the database:
//   - The postings of an entry sum to zero, and there are at least two.
//   - An entry, its postings and its tenant's account have one currency.
//   - Nothing is ever changed or removed. What was wrong is corrected by an entry that
//     reverses it and names it; an entry is corrected once at most.
//   - Every entry has a natural key, so that nothing is booked twice: a credit its
//     reference, a charge its allocation, meter and window.
//   - A balance is the sum of postings. The trigger of the postings keeps it beside them.
//
// Balances are as the tenant sees them: what it has left is positive.
package ledger
