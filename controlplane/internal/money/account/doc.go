// Package account owns what tenants pay with and what was agreed with them: one
// billing account per tenant, the projects that are free, and the terms of every
// allocation, frozen in the transaction that makes it.
//
// Invariants:
//   - A tenant has one currency, for ever. The database holds it: terms, and all money
//     of the ledger, refer to the account by tenant and currency.
//   - Terms never change, whatever becomes of prices, discounts and projects. Those that
//     follow the list say so, and each price of it counts while it is in force.
//   - What is free is free by somebody's word, and the terms say whose: a project that
//     was declared free, or a platform that lets tenants without an account rent.
//   - A SKU without a price in the currency of the tenant cannot be rented by it.
package account
