// Package budget says what projects mean to spend in a month, tells them how far they
// have come, and refuses more where a budget stops them.
//
// Invariants:
//   - What was spent is computed at any moment from the rows that charges are made of:
//     nothing is counted by ticks, so a look that comes late, twice or never changes
//     nothing.
//   - Each percentage is told once in a period, by a row that cannot exist twice, in the
//     transaction of its event. The next period begins with none told.
//   - Whoever rents for a project with a hard stop holds the lock of its budget until the
//     allocation exists, and what was just rented counts with its first window: two
//     requests never spend the same rest of a budget.
//   - A budget ends nothing that runs.
package budget
