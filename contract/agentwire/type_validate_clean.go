package agentwire

import (
	"errors"
	"fmt"
	"time"
)

// TypeValidateClean looks for what tenants left.
const TypeValidateClean = "node.validate_clean"

var _ = declare[ValidateCleanParams, ValidateCleanOutput](Spec{
	Type: TypeValidateClean, Title: "look for anything a tenant left behind",
	Class: ClassExclusive, Window: 15 * time.Minute, Patience: time.Hour, Attempts: 3,
	Sound: []string{`{}`, `{"allowed_users":["ops","_svc-1"]}`},
})

// ValidateCleanParams names accounts that should be there.
type ValidateCleanParams struct {
	AllowedUsers []string `json:"allowed_users,omitempty"`
}

// Validate implements Params.
func (p ValidateCleanParams) Validate() error {
	if len(p.AllowedUsers) > 100 {
		return errors.New("at most 100 allowed users")
	}
	for _, u := range p.AllowedUsers {
		if !userName.MatchString(u) {
			return fmt.Errorf("%q is not a user name", u)
		}
	}
	return nil
}

// ValidateCleanOutput is the verdict, with everything that speaks against it.
type ValidateCleanOutput struct {
	Clean    bool           `json:"clean"`
	Findings []CleanFinding `json:"findings"`
	Checked  []CheckedKind  `json:"checked"`
	// Inventory is the present inventory of the installation. The control plane
	// compares it with the baseline. It is nil if the agent does not report it.
	Inventory *Inventory `json:"inventory,omitempty"`
	// Baseline says with what the control plane compared the inventory: present
	// or missing. Agents do not set it.
	Baseline string `json:"baseline,omitempty"`
	// NotCompared are places that the baseline does not cover, because the agent
	// that took it did not look there yet. No agent sets it.
	NotCompared []string `json:"not_compared,omitempty"`
}

// CheckedKind says how a kind of residue was looked for.
type CheckedKind struct {
	// users, processes, mounts, ipc, tmp, files, disks, gpu_memory, gpu_processes, terminals; what the control plane
	// compared adds baseline
	Kind   string `json:"kind"`
	Result string `json:"result"` // clean, findings, not_applicable
	// Detail says how much was looked at, or why there was nothing to look at.
	Detail string `json:"detail,omitempty"`
}

// CleanFinding is one thing that a tenant left behind.
type CleanFinding struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}
