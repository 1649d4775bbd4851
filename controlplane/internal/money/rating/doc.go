// Package rating says what time costs. It is pure: the same terms and times give
// the same amount, wherever and however often they are asked.
//
// Invariants:
//   - An amount is rounded once: the cost until an instant is the floor of an exact
//     sum. A charge for a part is a difference of two costs, so no split of time
//     changes the total.
//   - Only whole seconds count, from one origin: the second that is not over is free,
//     and it belongs to the charge in which it ends.
//   - Integers only. What does not fit in the bounds is an error and never wraps.
package rating
