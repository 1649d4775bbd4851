// Package site knows the MAAS regions that the product works with: how each is
// reached, the policy bundles (profiles) that work is done by, the BMC
// credentials that deviate from a site's own, and the addresses of RoCE
// interfaces.
//
// Invariants:
//   - a credential is in the secrets engine and nowhere else, under a path made
//     of ids; rows hold a fingerprint and a time;
//   - a credential is written to the engine first and noted in a row
//     afterwards. A crash in between leaves a credential that is used although
//     its fingerprint is not shown yet; writing it again puts that right;
//   - a MAAS token is kept only after MAAS has accepted it as one of an
//     administrator, and is sent to no other address than the one it was
//     checked against: it cannot be lured out by changing the URL of the site;
//   - credentials are read at every use, so rotation needs no restart;
//   - a disabled site refuses new machines. Running work, the operations of its
//     nodes and their reconciliation go on: nothing of a site is removed while
//     nodes or jobs need it, neither the site nor a profile.
//
// The check of credentials and the probe talk to MAAS while a caller waits, so
// both have deadlines. Whatever MAAS does, a probe has an answer.
package site
