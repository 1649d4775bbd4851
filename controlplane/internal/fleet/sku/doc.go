// Package sku owns the catalog of what can be rented: kinds of machines, in
// which counts, and at what price.
//
// Invariants:
//   - the id of a SKU is a name that people use; it never changes and is never
//     used for another SKU again, deleted or not;
//   - a SKU that nodes are of cannot be deleted. Whoever makes a node of it
//     reads it with ForUse, which keeps it from being deleted meanwhile;
//   - a disabled SKU keeps its nodes and gets no new ones.
package sku
