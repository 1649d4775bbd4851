// Package identity knows who there is: tenants and their projects, people and
// their roles, service accounts, and the tokens by which all of them are
// recognised. It signs people in through an OpenID Connect provider and turns
// the token of a request into a principal.
//
// Invariants:
//   - a token is shown once, when it is made; only its SHA-256 is stored;
//   - a token never lets its holder do more than its owner may, and never more
//     than the token it was made with, which it does not outlive either;
//   - nobody gives a role that they do not hold, or that their token's scopes
//     leave out, and no service account makes tokens for itself;
//   - somebody can always administer the platform: no command ends the last way in;
//   - a thing of another tenant does not exist, as far as a caller can tell.
//
// Every change is one transaction that also holds its audit entry and its
// events. The package decides nothing about permissions of an operation: that
// is declared at the operation and decided before a command runs. It only adds
// the rules that depend on data, such as the last administrator.
package identity
