// Package fleetview shows the whole fleet at once: how many nodes are how, and
// every node with the little that tells at a glance how it is. It joins what
// other slices own, owns nothing itself and changes nothing.
package fleetview
