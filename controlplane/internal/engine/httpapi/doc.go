// Package httpapi is the frame around every operation of the API: it decides
// who may call it, what a failure looks like, and how a repeated request is
// recognised.
//
// Invariants:
//   - An operation reaches its handler only after a decision about its caller;
//     a path that was not registered here does not exist.
//   - Every failure is answered as one problem document (RFC 9457), and only
//     this package chooses the HTTP status, from the kind of the fault.
//   - What a caller must not know of looks exactly like what does not exist.
//   - A mutating request with an Idempotency-Key takes effect at most once.
//
// Slices describe operations with Register and RegisterStream and never see the
// router or the framework underneath.
package httpapi
