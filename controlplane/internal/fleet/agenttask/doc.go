// Package agenttask owns what nodes are asked to do: the queue between the
// control plane, which decides, and the agents, which execute.
//
// A task has a type from the catalog of contract/agentwire, parameters that
// were checked against it, and one node. It is queued by a command, claimed by
// the poll of its node, signed as it is handed out, and ended by the result
// that the agent reports, which also signals the workflow that waits for it.
//
// Invariants:
//   - Only the node that a task is for can claim it, renew it or end it, and
//     only in the generation of the node that the task was made for.
//   - Of the tasks that change a node one is handed out at a time; the database
//     decides races between polls.
//   - A task that has ended is never changed again.
//   - A task that an agent gives signs of life for is not handed out again. One
//     whose lease ran out is, a limited number of times.
//
// Attempts of a task are one execution: the agent's journal recognises the id
// and neither starts it twice nor repeats what it has done. That is why the
// result, and the progress, of any attempt counts, also after the lease ran out
// and the task waits to be handed out again or was.
package agenttask
