// Package region is a MAAS region without its wires: users, machines, storage,
// networks, images, events and settings, the rules by which each operation is
// accepted or refused, and what machines do once they are told to. It speaks
// in the documents and refusals that the HTTP face sends.
//
// It imitates MAAS 3.7: an operation commits first and touches the BMC
// afterwards, so a refusal that comes from the BMC leaves its traces behind.
package region
