// Package identity owns tenants and their projects, people and their roles,
// service accounts, and the tokens by which all of them are recognised. It
// signs people in through an OpenID Connect provider and turns the token of a
// request into a principal.
//
// Invariants:
//   - A token is shown once, when it is made; only its SHA-256 is stored.
//   - A token never allows more than its owner may do, and never more than the
//     token it was made with. It does not outlive that token either.
//   - Nobody gives a role that they do not hold, or that their token's scopes
//     leave out, and no service account makes tokens for itself.
//   - Somebody can always administer the platform: no command ends the last way
//     in.
//   - To a caller, things of other tenants do not exist.
//
// Every change is one transaction that also holds its audit entry and its
// events. Operations declare the permission that they need, and the frame
// decides before a command runs. This package only adds the rules that depend
// on data, such as the one about the last administrator.
package identity
