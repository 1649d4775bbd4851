// Package faults makes onboardings go wrong and looks what becomes of them: each
// stage in each way that providers, networks and workers fail. A machine of a
// simulated data centre is onboarded through the public API, the fault strikes
// at its stage, and then the package does what an operator would: it reads the
// explanation, puts right what went wrong and takes the first action that is
// recommended.
//
// What must hold whatever happens is checked for each case and over all of them:
// no machine is deployed twice, nothing has an effect after somebody else took
// over, no node is active before its agent polls and its hardware sync is fresh,
// whatever is parked can be acted upon, and no secret leaves the secrets engine.
//
// The package knows the control plane by its API and by the points where stages
// begin and end, which whoever runs both leads here. The same seed makes the
// same things go wrong.
package faults
