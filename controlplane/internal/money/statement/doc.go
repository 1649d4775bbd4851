// Package statement tells what renting cost: usage by tenant, project, SKU, node, user,
// label and day, the statements of months, and whether the ledger is what rating says.
//
// Invariants:
//   - What time costs is computed from the rows of allocations and their frozen terms,
//     as metering does; nothing is counted by ticks. A split by days sums to the whole.
//   - A tenant reads of its own allocations only, and of their nodes what allocations
//     show it.
//   - Every entry of a ledger belongs to the statement of one month, by a trigger. Nothing
//     comes into a month that is closed: what is late goes to the next and is marked.
//   - Statements of a tenant are a chain without gaps in number, time and balance. The
//     database refuses one that does not have all that was booked, and any change.
//   - CSV, HTML and FOCUS are made of the frozen document alone.
package statement
