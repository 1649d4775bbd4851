// Package sku owns the catalog of what can be rented: kinds of machines, in
// which counts, and at what price.
//
// Invariants:
//   - The id of a SKU is a name that people use. It never changes and is never
//     used for another SKU, even after the SKU was deleted.
//   - A SKU that nodes have cannot be deleted. A command that makes such a node
//     reads the SKU with ForUse, which prevents that meanwhile.
//   - A disabled SKU keeps its nodes and gets no new ones.
package sku
