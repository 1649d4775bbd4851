package agentwire

import (
	"slices"
	"strings"
	"time"
)

// StepCredentialMint asks the control plane for a credential.
const StepCredentialMint = "credential.mint" //nolint:gosec // a name

var _ = declareStep[CredentialMintWith, CredentialMintResult](StepKind{
	Kind: StepCredentialMint, Title: "get a short-lived credential for later steps", Impact: ImpactNone,
	Interruptible: true,
	Checks: "Nothing on the node changes. The control plane decides, and the node keeps what it gets in memory for the " +
		"steps of the same task.",
	Sound: []string{
		`{"credential_type":"s3_read","intent":{"bucket":"models"},"values":["key"]}`,
		`{"credential_type":"cluster_join_token","values":["token"]}`,
	},
	Answer: `{"credential_type":"simulated","values":{"token":"secret:simulated"}}`,
})

// OperationCredentials are the types of credentials that steps may ask for.
var OperationCredentials = []string{
	CredentialOCIPull, CredentialS3Read, CredentialGCSRead, CredentialHFToken, CredentialClusterJoin,
}

// CredentialMintWith says which credential, and what it is for.
type CredentialMintWith struct {
	CredentialType string            `json:"credential_type"`
	Intent         map[string]string `json:"intent,omitempty"`
	// Values names what the credential must consist of. Later steps refer to
	// each as ${steps.ID.values.NAME}.
	Values []string `json:"values"`
}

// Validate implements StepParams.
func (w CredentialMintWith) Validate() StepProblems {
	var p StepProblems
	if !slices.Contains(OperationCredentials, w.CredentialType) {
		p.add("credential_type", "must be one of %s", strings.Join(OperationCredentials, ", "))
	}
	if len(w.Intent) > 16 {
		p.add("intent", "must not have more than 16 entries")
	}
	for _, name := range sorted(w.Intent) {
		if !templateName.MatchString(name) || len(w.Intent[name]) > 1024 || !printable(w.Intent[name]) {
			p.add("intent."+name, "must be a name of lower-case letters with a printable text of at most 1024 bytes")
		}
	}
	if len(w.Values) == 0 || len(w.Values) > 8 {
		p.add("values", "there must be between 1 and 8 values")
	}
	for _, name := range w.Values {
		if !templateName.MatchString(name) {
			p.add("values", "%q is not a name of lower-case letters, digits and _", clip(name))
		}
	}
	return p
}

// CredentialMintResult names the handles of the credential, which mean
// something only within the task.
type CredentialMintResult struct {
	CredentialType string            `json:"credential_type"`
	ExpiresAt      time.Time         `json:"expires_at,omitzero"`
	Values         map[string]Secret `json:"values"`
}
