// Package fleetview shows the whole fleet at once: counts of nodes by
// condition, and every node with the few facts that show its condition at a
// glance. It joins what other slices own. It owns no table and changes nothing.
package fleetview
