// Package metering charges the time of allocations. It reads the rows that also
// decide who may use a node; no tick and no event counts anything.
//
// Invariants:
//   - Billable is the time from active_at to release_requested_at of an allocation.
//   - Charged windows are a chain that begins at active_at: the database refuses a gap,
//     an overlap and a fork. A window, its entry and its postings are one transaction
//     under the lock of the meter.
//   - Whoever looks late, twice, on several replicas or after an outage of days books
//     the same sum.
//   - The time in which the tenant could not use the node (repair, quarantine, long
//     silence of its agent) is given back by entries of their own, each second once;
//     windows stay.
//   - A meter is closed once, after its allocation has ended.
package metering
