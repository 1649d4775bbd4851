// Package reconciliation finds out where MAAS, the agents and the inventory
// disagree, reports it, and takes the few actions that are safe.
//
// Rules judge each look at a machine, one file per rule. A rule that holds
// makes a finding. The finding opens; where one look can be wrong, a second
// look confirms it; it acts at most once; and it closes by itself when a look
// shows that the rule no longer holds. A question that MAAS did not answer, or
// answered only in part, is no information: it opens nothing and closes
// nothing.
//
// A cycle of a site is cheap. It asks MAAS for the machines that are not
// deployed, reads the new events, reads by id the machines that changed or are
// doubted, and walks over all machines at a slower pace. While an onboarding or
// a decommission works on a node, the cycle only tells that job what it finds.
package reconciliation
