// Package rentalsettings owns how tenants and projects rent: how long an allocation lasts
// when its request does not say, how long it may last at most, and whether root
// access may be asked for.
//
// Invariants:
//   - A tenant's settings bound those of its projects. A project cannot be set beyond
//     its tenant; if the tenant is lowered later, the lower counts.
//   - What nobody has set is as the platform has it: an allocation never ends by
//     itself, may last for ever, and root access may be asked for.
//   - A change is about requests and extensions from then on. What is rented stays as
//     it is.
//
// It does not know allocations: whoever makes or extends one asks for the rules that
// are in force.
package rentalsettings
