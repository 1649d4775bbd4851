// Package policy owns what the platform, tenants and projects allow of operations:
// seven keys per type of operation, or for all types, at three levels.
//
// Invariants:
//   - A lower level never widens a limit: of numbers the smallest counts, of lists
//     what all of them allow, and what one level demands is demanded.
//   - Whether an operation is enabled, the most specific level decides, unless the
//     platform denies it for good.
//   - Every effective value says which level decided it, and which others were there.
//   - A further decision can only deny; if it cannot be had, the answer is no.
//   - A policy document never changes; which version counts is decided by the last
//     activation, and none is activated that fails one of its examples.
//
// It does not know runs: package operation asks for the effective policy when a run
// is made, and again before each node gets its task.
package policy
