// Package payment takes in what payment providers tell: money of tenants that came, and
// money that went back. It calls no provider.
//
// Invariants:
//   - The signature is checked on the body as it came, in constant time, before anything
//     of it is read; a signature that is older than the tolerance is refused.
//   - An event is booked once by its id, and so is the payment or refund that it tells of,
//     however many events do. The entry and the note of it are one transaction.
//   - A refund goes back from the tenant whose payment it is of, and all refunds of a
//     payment together are no more than it.
//   - The secret is in the secrets engine only. Nothing of a body is logged.
//   - What is refused writes nothing.
//
// A further provider is an Adapter: it checks the signatures of its provider and says what
// an event is about. Booking is the same for all.
package payment
