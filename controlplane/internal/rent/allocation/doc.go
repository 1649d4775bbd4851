// Package allocation owns what tenants rent: whole nodes now. An allocation is
// asked for, placed in the transaction that records it, provisioned by a workflow,
// used, released, and cleaned up after by a decommission, whose proof ends it.
//
// Invariants:
//   - A claim says who has a node. The database allows one live claim per node. A
//     claim ends with the proof that the node is clean, or with the node: it
//     outlives an allocation that failed or could not be cleaned up after.
//   - A node is handed out only if it is active, schedulable, not tainted, not held,
//     not claimed, heard of lately and without a critical finding.
//   - active_at and release_requested_at say for how long the tenant could use the
//     node. Both are times of the database at that moment, and neither ever moves.
//   - The operation that cleans a node is a decommission; there are never two on one
//     node. Where it parks, the allocation is release_failed.
//   - A request that finds no capacity may wait. Nobody overtakes those who wait: each
//     request leaves them as many free nodes as they ask for. A request that waited is
//     placed as a request of that moment, once and whole.
//   - Tenants take turns in the queue of a SKU, and the projects of a tenant within.
//   - A node that a reservation of others needs is left to them (package reservation).
//   - A tenant learns why there is no capacity, and nothing about other tenants.
package allocation
