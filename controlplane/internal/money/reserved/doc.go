// Package reserved charges nodes that are reserved and not used.
//
// Invariants:
//   - Only a reservation with terms costs anything. Terms are agreed in the transaction
//     that makes it, by whoever may take money of tenants, and never change.
//   - How many nodes are not used at a moment is a rule of the database (reserved_unused)
//     over what never changes once its time is over. Whoever looks late, twice, on several
//     replicas or after an outage of days books the same sum, and a node is paid once: as
//     held or as reserved.
//   - Charged windows are a chain that begins with the reservation: the database refuses a
//     gap, an overlap and a fork. A window, its entry and its postings are one transaction.
//   - What we lacked for a reservation is written down when it is seen, and is not charged
//     from then on. Reservations of one owner and SKU are judged together, at one moment.
package reserved
