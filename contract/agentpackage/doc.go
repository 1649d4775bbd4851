// Package agentpackage says what a release of the agent is made of: the archive with
// its programs, and the statement that whoever holds a release key signs about it.
//
// The machine that builds a release makes both, and the control plane reads both. The
// key that signs statements is not the signer of tasks, and the control plane never
// has it: it holds the public half only.
package agentpackage
