// Package certificate defines the documents that are issued about the cleaning
// of a node, certificates and handover receipts: how they are signed, checked
// and shown. Whoever checks one needs this package, the file and the public
// key, and nothing of the control plane that issued it.
//
// A document states who observed what. What nobody observed stands under
// reported or not_covered, never among the subjects with a level: Validate
// refuses a claim without method, coverage, verification and evidence.
//
// A file holds the document, a digest of each of its leaves by JSON pointer,
// and a signature over these digests. So a check can name the very field that
// was changed. A file has only one form, canonical JSON: if any byte is
// changed, the file is refused. Each file of a node names the digest of the one
// before it.
package certificate
