// Package balance decides how far tenants may go with what they have, and what happens
// when they come to its end: warnings, refusals and releases.
//
// Invariants:
//   - What is available is computed from rows at any moment: what was booked, less what
//     was used and is not booked yet, less what is set aside for first windows, plus the
//     credit line. Nothing is counted by ticks.
//   - Whoever is let something has set aside the cost of its first window, under the lock
//     of the tenant's row: two requests never spend the same money. A hold ends with the
//     first charge of its meter or with the meter, so no crash leaves one behind.
//   - A state is left and entered in one transaction with the event that tells of it, so
//     each warning is told once per transition.
//   - At the end allocations are released by the ordinary command, in the transaction that
//     records it, each once; what was paid meanwhile stops that before the next one.
//
// A tenant without a row pays afterwards, without limit.
package balance
