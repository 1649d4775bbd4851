// Package node owns the inventory of machines: what they are, their coarse
// lifecycle, the identity of their agents, and when these agents last called.
// What a workflow is doing to a machine is not a state of the machine: it is a
// stage of the workflow.
//
// Invariants:
//   - Only Move changes the state of a node, and every change of a node leaves
//     an entry in its history that says what it was like afterwards.
//   - An active node is schedulable unless a reason or an operation holds it;
//     no other node is. Each reason is a hold of its own, and whoever lifts one
//     leaves the others.
//   - A node that a tenant had access to returns to service only after it was
//     proven clean.
//   - Only the hash of a token is stored. A token works once: the key that used
//     it may repeat a request whose answer was lost; another key may not.
//   - A certificate is good while its serial is known and not revoked, whatever
//     the certificate itself says.
//   - One machine and one process use the identity of a node. A process that
//     starts displaces the one before it. If the displaced one calls again, two
//     are alive, and the first keeps the identity.
//   - Silence of a node counts only while somebody listened.
//
// Polls cost no write: contacts are collected in memory and flushed for all
// nodes at once. The clock of the database measures the age of contacts, so a
// replica whose clock is wrong takes no node for lost.
package node
