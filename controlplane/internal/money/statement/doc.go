// Package statement tells what renting cost: usage by tenant, project, SKU, node, user,
// label and day.
//
// Invariants:
//   - What time costs is computed from the rows of allocations and their frozen terms,
//     as metering does; nothing is counted by ticks. A split by days sums to the whole.
//   - A tenant reads of its own allocations only, and of their nodes what allocations
//     show it.
package statement
