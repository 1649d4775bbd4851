// Package region is a MAAS region without its HTTP interface: users, machines,
// storage, networks, images, events and settings, the rules by which each
// operation is accepted or refused, and what machines do once they are told to.
// It works with the documents and refusals that the HTTP interface sends.
//
// It imitates MAAS 3.7: an operation commits first and touches the BMC
// afterwards, so a failure of the BMC leaves traces behind.
package region
