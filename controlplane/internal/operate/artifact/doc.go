// Package artifact owns what nodes fetch: artifacts in OCI registries and files, each by
// its digest, registered for the platform, a tenant or a project; and the keys whose
// signatures of artifacts count.
//
// Invariants:
//   - What is registered never changes its source, digest or owner. A signature is looked
//     for when it is registered and whenever somebody asks; the answer says which format
//     and which key was accepted, or why none was.
//   - An artifact of a registry is registered only after its manifest was read by digest.
//   - A signature counts only by a key that its owner, or the platform, trusts now for
//     that repository, and only for exactly this digest.
//   - A tenant sees its own artifacts and the platform's. Those of others look like ones
//     that do not exist, and their revocations are not felt.
//   - What is revoked is fetched by no run of those who may see it, and stays revoked.
//
// Where artifacts may come from, package policy says; there is no second list of it here.
// Bytes of artifacts never pass through the control plane: only manifests and signatures
// are read.
package artifact
