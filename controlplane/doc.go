// Package controlplane wires the control plane together: one configuration, the
// roles a process can take, and how it starts, waits, recovers and stops.
package controlplane
