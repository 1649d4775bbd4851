// Package reservation owns capacity that is kept for a tenant or a project in a time
// window: so many nodes of a SKU.
//
// A reservation names a number, not nodes. Whenever somebody asks for a node, the
// nodes that are rented and free are dealt to the reservations that run (Read): first
// those that their owners rent, then free ones. What is dealt to others, the one who
// asks must leave.
//
// Invariants:
//   - Nobody gets a free node that a reservation of others needs and that no other free
//     node can replace. Where there are too few, the reservation that began earlier comes
//     first; nothing that is rented is taken away, and free nodes are kept as they come.
//   - What an owner rents counts as use of its reservations, whenever it was placed.
//   - Beginning and end are times, not jobs: nothing has to run for them to take effect.
//   - More than the fleet has is reserved only by force.
//   - A tenant learns that nodes are reserved, and nothing about whose.
package reservation
