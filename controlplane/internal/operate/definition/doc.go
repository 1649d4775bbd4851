// Package definition owns what work on nodes may be: operation definitions, each in
// numbered versions ("node.package.install@v1"). A version says which inputs it
// takes, which typed steps it does in which order, what a node must be able to do,
// who may be on the node meanwhile, and how risky that is.
//
// Invariants:
//   - A version that was ever active never changes. The database refuses it, too.
//   - A version is kept as canonical JSON with its SHA-256; whoever runs it freezes
//     the digest.
//   - No version is kept that its own lint refuses, and none becomes active that the
//     lint of today refuses.
//   - A reference fills one whole value. What a caller gave as an input is never read
//     as a reference, a path or a piece of a command.
//   - Command profiles belong to the platform: tenants read definitions without them.
//
// It knows neither runs nor targets: package operation resolves a version for one
// target by Resolve and hands the steps to a node.
package definition
