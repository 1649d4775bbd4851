// Package price owns what SKUs cost: prices of a unit for an hour, in a currency,
// each from a moment on.
//
// Invariants:
//   - The price in force is the one of the SKU and currency that began last. The next
//     one ends it, so there is never a gap and there are never two.
//   - A price begins now or later. One that has begun is never changed or removed; the
//     database refuses it. One that has not begun can be withdrawn.
//   - Amounts are integers of minor units, within bounds.
//
// What somebody pays is frozen when an allocation is made; no price changes that
// afterwards.
package price
