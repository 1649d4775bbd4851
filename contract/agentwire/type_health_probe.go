package agentwire

import (
	"time"
)

// TypeHealthProbe looks at the health of a machine.
const TypeHealthProbe = "diag.health_probe"

var _ = declare[HealthProbeParams, HealthProbeOutput](Spec{
	Type: TypeHealthProbe, Title: "look at the health of the machine",
	Class: ClassConcurrent, Window: 5 * time.Minute, Patience: 15 * time.Minute, Attempts: 2,
	Sound: []string{`{}`},
})

// HealthProbeParams asks for all checks.
type HealthProbeParams struct{}

// Validate implements Params.
func (HealthProbeParams) Validate() error { return nil }

// HealthProbeOutput lists the checks.
type HealthProbeOutput struct {
	Healthy bool          `json:"healthy"`
	Checks  []HealthCheck `json:"checks"`
}

// HealthCheck is one look at the machine.
type HealthCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warning, failed, not_applicable
	Detail string `json:"detail"`
}
