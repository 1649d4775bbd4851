// Package apiclient is the Go client of the API: generated from contract/openapi.yaml, with
// what a generator cannot know added by hand. The templates give every operation one method and
// no types of its own for failures; what the methods share is in request.go.
//
// New makes a client whose calls carry the token, a correlation id and, where they change
// something, an Idempotency-Key; that are repeated only when repeating is safe; and whose
// every failure is either a *Problem (the control plane answered) or a *CallError (it did
// not). Stream follows the event feed across interruptions.
package apiclient
