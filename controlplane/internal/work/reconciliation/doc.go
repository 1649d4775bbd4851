// Package reconciliation finds out where MAAS, the agents and the inventory
// disagree, says so, and does the little about it that is safe.
//
// A look at a machine is judged by rules, one file each. A rule that holds makes
// a finding: it opens, is confirmed by a second look where one can be wrong, acts
// at most once, and closes by itself when a look shows that it is over. What was
// not answered, or only in part, is no information: it opens nothing and closes
// nothing.
//
// A cycle of a site is cheap: it asks MAAS for the machines that are not
// deployed, tails its events for what changed, reads what changed or is doubted
// by id, and walks over all machines at a slower pace. What it finds about a node
// that an onboarding or a decommission works on is left to that, which is told.
package reconciliation
