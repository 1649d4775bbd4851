// Package outbox publishes what happened, and never forgets to. A command
// appends events and workflow starts in its own transaction; a Relay carries
// them to NATS and Temporal once that transaction has committed.
//
//	pending ──publish──▶ published
//	   │  ▲
//	give_up  requeue
//	   ▼  │
//	 failed ──discard──▶ discarded
//
// Invariants:
//   - An event exists if and only if the change that caused it was committed.
//   - Delivery is at least once. Every copy of an event has the same id, and
//     both destinations drop copies by it.
//   - Events of one aggregate reach one destination in commit order: an event
//     that waits for another attempt holds back the later ones of its
//     aggregate, and nothing else. Once it has failed for good, or when it is
//     requeued after that, the others no longer wait for it.
//   - Any number of relays may run side by side.
//
// The package must not know what an event means, nor how a workflow is started:
// it hands messages to a Deliverer.
package outbox
