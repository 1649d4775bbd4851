package eventwire

// AgentReleaseChanged is the event type of releases of the agent.
const AgentReleaseChanged Type = "agent.release.changed"

// What can happen to a release of the agent.
const (
	ReleaseUploaded  = "uploaded"
	ReleasePromoted  = "promoted"
	ReleaseWithdrawn = "withdrawn"
	ReleaseBlocked   = "blocked"
	ReleaseUnblocked = "unblocked"
	ReleaseFloor     = "floor"
)

// AgentRelease is the payload of the event about releases of the agent.
type AgentRelease struct {
	Version string `json:"version" doc:"empty: the channel wants none any more, or there is no floor"`
	Change  string `json:"change" enum:"uploaded,promoted,withdrawn,blocked,unblocked,floor"`
	Channel string `json:"channel" doc:"of a promotion: stable or candidate"`
}
