// Package price owns what SKUs cost: prices of a unit for an hour, in a currency,
// each from a moment on.
//
// Invariants:
//   - The price in force is the one of the SKU and currency that began last. The next
//     one ends it, so there is never a gap and there are never two.
//   - A price begins now or later. One that has begun is never changed or removed; the
//     database refuses it. One that has not begun can be withdrawn.
//   - Amounts are integers of minor units, within bounds.
//   - The list as those see it who follow it begins each price with a whole second. A
//     price begins in no time for which one of them was charged, and not before the
//     notice has passed, unless somebody says why.
//
// What others pay is frozen when an allocation is made; no price changes that afterwards.
package price
