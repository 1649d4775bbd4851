// Package faults makes onboardings and decommissions go wrong and looks what
// becomes of them: each stage in each way that providers, agents, networks and
// workers fail. A machine of a simulated data centre is onboarded through the
// public API, and, if the case is about that, a tenant gets an account on it and
// it is decommissioned; the fault strikes at its stage, and then the package does
// what an operator would: it reads the explanation, puts right what went wrong
// and takes the first action that is recommended.
//
// What must hold whatever happens is checked for each case and over all of them:
// no machine is deployed twice, nothing has an effect after somebody else took
// over, no node is active before its agent polls and its hardware sync is fresh,
// whatever is parked can be acted upon, no node becomes schedulable that is not
// proven clean, no certificate claims what there is no evidence for, no task is
// given twice at once, nothing is released that is somebody else's, and no secret
// leaves the secrets engine.
//
// The package knows the control plane by its API and by the points where stages
// begin and end, which whoever runs both leads here. The same seed makes the
// same things go wrong.
package faults
