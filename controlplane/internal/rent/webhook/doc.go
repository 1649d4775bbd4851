// Package webhook tells projects what happens in them, at addresses that they
// choose.
//
// A trigger of the database makes one delivery per event and webhook in the
// transaction of the event, so nothing is told that did not happen and nothing that
// happened is forgotten. Workers post what is due.
//
// Invariants:
//   - A webhook is told events of its own project only.
//   - Delivery is at least once; every copy has the id of the event as webhook-id.
//     Nothing is promised about the order.
//   - The secret that signs is in the secrets engine. Rows, events, logs and errors
//     hold none of it.
//   - A receiver that is slow or gone holds up nobody else, and not for ever: it is
//     tried for about a day per event, and after some days of nothing but failures, or
//     when too much waits for it, its webhook is disabled.
//   - Tenants take turns, the projects of a tenant within, and the webhooks of these.
//
// The package must not choose who may be called: the courier does.
package webhook
