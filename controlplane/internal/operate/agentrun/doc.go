// Package agentrun brings an agent to one node, or mends the one that is there: what is
// done is recorded, explained, and followed until the node has proven it.
//
// Invariants:
//   - the table of scenarios and modes decides what is done. Where a mode cannot reach the
//     node, the run says which step is left for somebody on the machine, and waits for the
//     word of the node;
//   - a node has one run at a time, and none while a rollout updates it: an index of the
//     database refuses the first, and rollouts leave nodes with a run alone;
//   - nothing is done to a node that is busy, unless the run is forced with a reason;
//   - a run succeeds only when the node reports the version, was heard, has a valid
//     certificate, and is as schedulable as before. No answer of a task, no finished
//     decommission and no word of an operator counts alone;
//   - every phase has a deadline, and a run that cannot go on is parked with a code and with
//     what to do, until somebody retries or cancels it;
//   - no row, event, history or log holds a token: whoever asks sees it once;
//   - the rows are the state. The workflow only waits and looks again.
package agentrun
