// Package maintenance owns what operators announce to the tenants of nodes: that
// something will be done to the node, when, why, what it needs of the tenant, and
// whether the tenant is asked for consent or only told.
//
// Invariants:
//   - An allocation has at most one maintenance that has not ended.
//   - Nothing is done before its time: one that ends the allocation ends it at the
//     deadline, and before only if the tenant says so; one that the tenant keeps the
//     node through is carried out within its window.
//   - Where consent was asked for, nothing is done without it. Only people of the
//     tenant give it.
//   - It is of a node: an allocation that was placed on another one is not concerned.
//   - A node whose tenant had to leave for it goes to nobody before it is finished,
//     however the tenant came to leave.
//   - It ends an allocation by the one command that releases allocations, and repairs
//     a node by the one that says so: it changes no allocation itself.
//   - Locks are taken in the order node, allocation, maintenance.
//
// Whether one may be carried out now, the view maintenances_open_now says: operations
// on nodes read it too.
package maintenance
