// Package maas starts a simulated MAAS: a region with machines that behave,
// served over HTTP, with a plan of what goes wrong and, on request, a control
// API and a state file.
package maas
