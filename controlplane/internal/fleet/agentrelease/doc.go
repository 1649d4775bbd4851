// Package agentrelease owns the releases of the agent: packages that were uploaded,
// which channel wants which of them, and which versions no node is given.
//
// Invariants:
//   - a release is kept only with a statement that the holder of a release key has
//     signed, and only when the archive is what the statement says. The control plane
//     has the public halves of these keys; the private ones are with whoever builds;
//   - a version is given once. Its content never changes, and its row stays;
//   - a channel wants a release that is neither withdrawn nor blocked, is not below the
//     floor, and speaks a protocol of this control plane. What makes one of these untrue
//     later puts the channel back to the release before, or to none;
//   - a version that is blocked, withdrawn or below the floor is given to no node,
//     however it is asked for: that is asked at every order and every download.
//
// What a channel wants is delivered by nobody here: a node is only shown as outdated.
package agentrelease
