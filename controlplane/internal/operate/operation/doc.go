// Package operation owns runs: one request to carry out a version of an operation
// definition on some nodes, what became of it on each of them, and what the steps
// printed.
//
// A run freezes the digest of its definition, its inputs and its list of targets. A
// workflow takes turns with its row (Drive): it settles what nodes have reported,
// hands out further targets within the limits of the run, and ends the run when
// nothing is left to do. Everything that decides is in the rows, so that a lost
// workflow is started again and nothing is lost with it.
//
// Invariants:
//   - Targets are resolved and authorised on the server. A project reaches a node only
//     through its allocation that is in use, and that is looked at again, under a lock,
//     when the node is given its work.
//   - A node is given only what its agent says it can do, and one task per attempt.
//   - A step that succeeded is not done again by a resume, unless the definition says so.
//   - An attempt of which nobody heard how it ended is not repeated: the node is asked
//     to look first, once.
//   - Locks are taken in the order operation, node, allocation, task.
//
// It knows nothing of step kinds: definitions and agents do.
package operation
