// Package rollout brings a release of the agent to many nodes with care: to a few
// canaries of every kind first, then in waves, and back where it does harm.
//
// Invariants:
//   - the list of nodes is frozen when a rollout begins, and each has an outcome.
//     Nodes that are pinned or follow no channel are never updated by a rollout;
//   - no node is in two live rollouts: an index of the database refuses it;
//   - a node counts as done only after the bake time, when it still reports the
//     version, was heard meanwhile, ran through it without a new start and without using
//     much more memory than before, has renewed its certificate with the version, and is
//     as schedulable as it was before;
//   - every phase of a node has a deadline, so nothing is being updated for ever;
//   - more failures than the plan allows pause the rollout at once and, if the plan says
//     so, send the wave or everything back. A failed node is sent back in any case;
//   - nodes go back as few at once as they go forward, and never to a version that may
//     not be given;
//   - the rows are the state. The workflow only waits and looks again, so whatever is
//     killed, the next look goes on.
package rollout
