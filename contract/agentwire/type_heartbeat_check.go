package agentwire

import (
	"time"
)

// TypeHeartbeatCheck asks for a sign of life.
const TypeHeartbeatCheck = "node.heartbeat_check"

var _ = declare[HeartbeatParams, HeartbeatOutput](Spec{
	Type: TypeHeartbeatCheck, Title: "answer, with the state of the agent",
	Class: ClassConcurrent, Window: max(Lease, time.Minute), Patience: 5 * time.Minute, Attempts: 1,
	Sound: []string{`{}`},
})

// HeartbeatParams asks for nothing but an answer.
type HeartbeatParams struct{}

// Validate implements Params.
func (HeartbeatParams) Validate() error { return nil }

// HeartbeatOutput is the sign of life.
type HeartbeatOutput struct {
	Build         Build     `json:"build"`
	Now           time.Time `json:"now"`
	UptimeSeconds int64     `json:"uptime_seconds"` // of the agent
	TasksRunning  int       `json:"tasks_running"`
	UnsentResults int       `json:"unsent_results"`
	Draining      bool      `json:"draining"`
}
