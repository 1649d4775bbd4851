// Package blob keeps files that all replicas need, such as the bundles of sites,
// by the SHA-256 of their content. The content is in rows of PostgreSQL, in chunks.
//
// Invariants:
//   - a blob is there whole, and its content has its digest: an upload becomes a
//     blob only after its content was read back and hashed;
//   - whoever reads a blob gets its content or a failure, never other content;
//   - the same content is stored once;
//   - a blob that somebody refers to is not removed. One that nobody refers to, and
//     an upload that nobody goes on with, are removed after a day.
//
// The package knows nothing of what blobs are for: an owner names itself by a kind
// and an id, sets the limit of size, and decides who may upload. It is meant for
// files of up to some hundred megabytes, not for models or images.
package blob
