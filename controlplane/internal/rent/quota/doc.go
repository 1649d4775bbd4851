// Package quota owns what tenants and projects may hold: GPUs and nodes, in all
// or of one SKU. Where no quota is set, there is no limit.
//
// A quota says what may be held, not what there is: it reserves nothing and
// promises nothing.
//
// Invariants:
//   - Admit runs in the transaction that makes what is asked for. It locks the
//     quotas that apply and counts under the lock, so parallel requests cannot
//     exceed a quota together.
//   - Whoever sets a quota waits for those that were admitted before it and have
//     not yet committed. A quota therefore never overlooks them.
//   - Quotas of tenants are set by the platform, those of projects by the tenant
//     and never above its own. If the platform lowers a tenant's quota later, the
//     lower of both counts.
//   - A request that begins to wait must fit together with all that is held and waited
//     for. Whoever does not wait is held to what is held only: what waits is asked again
//     when it is placed.
//   - Lowering a quota takes nothing away from anybody. It only refuses more.
//
// It does not know what is held: it asks whoever counts it (Usage).
package quota
