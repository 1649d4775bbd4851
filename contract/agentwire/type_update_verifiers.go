package agentwire

import (
	"strings"
	"time"
)

// TypeUpdateVerifiers makes a node believe other signers of tasks.
const TypeUpdateVerifiers = "node.update_verifiers"

var _ = declare[UpdateVerifiersParams, UpdateVerifiersOutput](Spec{
	Type: TypeUpdateVerifiers, Title: "use another set of task verifiers",
	Class: ClassConcurrent, Window: 5 * time.Minute, Patience: 24 * time.Hour, Attempts: 5,
	Reserved: "rotate the signer with: gpuaas signer rotate",
	Sound: []string{
		`{"set":{"version":1,"verifiers":[{"id":"a","public_key":"` + strings.Repeat("A", 43) + `=","state":"active"}]}}`,
	},
})

// UpdateVerifiersParams carries the set to use from now on.
type UpdateVerifiersParams struct {
	Set VerifierSet `json:"set"`
}

// Validate implements Params.
func (p UpdateVerifiersParams) Validate() error { return p.Set.Validate() }

// UpdateVerifiersOutput holds the version that is in use now.
type UpdateVerifiersOutput struct {
	Version int64 `json:"version"`
}
