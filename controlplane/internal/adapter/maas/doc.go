// Package maas speaks to one MAAS region over its API 2.0. It is the only code
// that knows how MAAS answers, so everything surprising about those answers is
// dealt with here, once, and callers see typed results and faults.
//
// Three rules hold throughout:
//
//   - A write is sent at most once. When its outcome cannot be proven (a 5xx, a
//     time limit, a connection that broke after the request went out) the fault
//     is ambiguous and the caller reads the machine before it decides. MAAS
//     commits first and talks to the BMC afterwards, so a 5xx does not mean that
//     nothing happened.
//   - Reads repeat, with jitter and a new signature each time, when the
//     connection or a proxy failed.
//   - At most four requests are in flight per region, over all uses and
//     replicas: one Limiter is shared by every client of a site.
//
// Whatever MAAS or something that pretends to be MAAS sends as an error is
// bounded, stripped of control characters and of anything like a signature
// before it becomes part of a fault.
package maas
