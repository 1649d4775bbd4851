// Package agenttask owns what nodes are asked to do: the queue between the
// control plane, which decides, and the agents, which execute.
//
// A task has a type from the catalog of contract/agentwire, parameters that
// were checked against it, and one node. A command queues it, a poll of its
// node claims it, the gateway signs it as it is handed out, and the result that
// the agent reports ends it and signals the workflow that waits for it.
//
// Invariants:
//   - Only the node that a task is for can claim it, renew it or end it, and
//     only in the generation of the node that the task was made for.
//   - Of the tasks that change a node one is handed out at a time; the database
//     decides races between polls.
//   - A task that has ended is never changed again.
//   - While an agent gives signs of life for a task, the task is not handed out
//     again. When its lease has run out it is, a limited number of times.
//
// Attempts of a task are one execution: the agent's journal recognises the id
// and neither starts it twice nor repeats what it has done. So the result and
// the progress of any attempt count, even after the lease ran out and the task
// waits to be handed out again, or was handed out again.
package agenttask
