// Package fleet simulates node agents by the thousand, to see what a control
// plane can carry. Each of them speaks the real protocol: it enrols with a
// token and a key of its own, holds a mutually authenticated connection, waits
// for tasks, verifies their signatures and reports. It does nothing to any
// machine: every task succeeds, and what it says is what a clean machine would.
//
// An agent is one goroutine and one connection, so that the simulator needs
// less than the control plane that it measures.
package fleet
