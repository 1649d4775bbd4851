// Package selfcheck sends a harmless errand through the whole control plane: an
// intent recorded by the API, an event relayed to NATS, a workflow carried out
// by a worker, a secret written, read and removed. An operator learns in
// seconds whether everything works together, and otherwise what to mend.
//
// It is also the smallest complete slice, and a good one to read first.
package selfcheck
