// Package node owns the inventory of machines: what they are, their coarse
// lifecycle, the identity of their agents, and when those were last heard of.
// What a workflow is doing to a machine is not a state of the machine: it is a
// stage of the workflow.
//
// Invariants:
//   - only Move changes the state of a node, and every change of a node leaves
//     an entry in its history that says what it was like afterwards;
//   - an active node is schedulable unless a reason or an operation holds it;
//     no other is;
//   - what a tenant had access to comes into service again only when it was
//     proven clean since;
//   - of a token only the hash is kept. It works once: the key that used it may
//     repeat a request whose answer was lost, no other key may;
//   - a certificate is good while its serial is known and not revoked, whatever
//     the certificate itself says;
//   - one machine and one process use the identity of a node. A process that
//     starts displaces the one before it; when the displaced one comes back,
//     two are alive, and the first keeps the identity;
//   - silence says something about a node only while somebody listened.
//
// Polls cost no write: contacts are gathered in memory and flushed for all
// nodes at once. Ages of contacts are measured by the clock of the database,
// so that a replica whose clock is wrong takes no node for lost.
package node
