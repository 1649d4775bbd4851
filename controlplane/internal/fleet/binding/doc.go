// Package binding knows which node is which machine of MAAS, and how MAAS last
// showed it. A machine is bound to one node at most; a node that is deleted does
// not count.
package binding
