// Package fleet simulates node agents by the thousand, to measure what a
// control plane can carry. Each speaks the real protocol: it enrols with a
// token and its own key, holds a mutually authenticated connection, waits for
// tasks, verifies their signatures and reports. It does nothing to any machine:
// every task succeeds, and it answers as a clean machine would.
//
// An agent is one goroutine and one connection, so that the simulator needs
// less than the control plane that it measures.
package fleet
