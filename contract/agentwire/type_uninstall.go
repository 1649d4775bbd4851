package agentwire

import (
	"time"
)

// TypeUninstall removes the agent.
const TypeUninstall = "node.uninstall"

var _ = declare[UninstallParams, UninstallOutput](Spec{
	Type: TypeUninstall, Title: "remove the agent from the machine",
	Destroys: "The agent and its identity are removed from the machine. The node falls silent, and comes back only when " +
		"it is bootstrapped again or reimaged.",
	Class: ClassExclusive, Window: 15 * time.Minute, Patience: time.Hour, Attempts: 3,
	Sound:  []string{`{"keep_logs":true}`},
	Answer: `{"removed":["simulated"],"residue":[]}`,
})

// UninstallParams says what may stay.
type UninstallParams struct {
	KeepLogs bool `json:"keep_logs"`
}

// Validate implements Params.
func (UninstallParams) Validate() error { return nil }

// UninstallOutput says what is gone and what is not.
type UninstallOutput struct {
	Removed []string `json:"removed"`
	Residue []string `json:"residue"`
}
