// Package selfcheck sends a harmless errand through the whole control plane:
// the API records an intent, the relay passes an event to NATS, a worker
// carries out a workflow, and a secret is written, read and removed. An
// operator learns in seconds whether everything works together, and otherwise
// what to fix.
//
// It is also the smallest complete slice, and a good one to read first.
package selfcheck
