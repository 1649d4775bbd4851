// Package faults makes onboardings, decommissions and allocations go wrong and checks what
// becomes of them: each stage in each way in which providers, agents, networks
// and workers fail. It onboards a machine of a simulated data centre through
// the public API. If the case is about a decommission, a tenant gets an account
// on the node, and the node is decommissioned. The fault strikes at its stage.
// Then the package does what an operator would do: it reads the explanation,
// fixes what went wrong and takes the first recommended action.
//
// It checks for each case, and over all of them, what must hold whatever
// happens: no machine is deployed twice, nothing has an effect after somebody
// else took over, no node is active before its agent polls and its hardware
// sync is fresh, whatever is parked can be acted upon, no node becomes
// schedulable that is not proven clean, no certificate claims what there is no
// evidence for, no task is given twice at once, nothing is released that is
// somebody else's, and no secret leaves the secrets engine.
//
// The package knows the control plane only by its API and by the points where
// stages begin and end; whoever runs both passes these points to a Trap. The
// same seed makes the same things go wrong.
package faults
