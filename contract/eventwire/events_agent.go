package eventwire

// AgentReleaseChanged is the event type of releases of the agent.
const AgentReleaseChanged Type = "agent.release.changed"

// The event types of releases on their way to many nodes.
const (
	AgentUpgradeStarted    Type = "agent.upgrade.started"
	AgentUpgradeChanged    Type = "agent.upgrade.changed"
	AgentUpgradeCompleted  Type = "agent.upgrade.completed"
	AgentUpgradeFailed     Type = "agent.upgrade.failed"
	AgentRollbackCompleted Type = "agent.rollback.completed"
	AgentNodeFailed        Type = "agent.upgrade.node_failed"
	AgentRunChanged        Type = "node.agent_run.changed"
	AgentNodeReturned      Type = "agent.rollback.node_returned"
)

// AgentRun is the payload of the event about what is done to the agent of one node. It
// never holds a token.
type AgentRun struct {
	RunID    string `json:"run_id" format:"uuid"`
	NodeID   string `json:"node_id" format:"uuid"`
	Hostname string `json:"hostname"`
	Mode     string `json:"mode" enum:"reimage,manual_install,rebootstrap"`
	Scenario string `json:"scenario" enum:"bootstrap_install,in_place_upgrade,repair_reinstall,certificate_repair,drift_reconcile"`
	Status   string `json:"status" words:"agent_run"`
	Code     string `json:"error_code" doc:"why it is parked; empty: it is not"`
}

// AgentRollout is the payload of events about releases on their way to many nodes.
type AgentRollout struct {
	RolloutID string `json:"rollout_id" format:"uuid"`
	Version   string `json:"version"`
	Status    string `json:"status" enum:"running,paused,returning,completed,aborted"`
	Wave      int32  `json:"wave" doc:"the one under way; 0: the canaries"`
	Waves     int32  `json:"waves"`
	Because   string `json:"because" doc:"why it is paused or goes back"`
}

// AgentRolloutNode is the payload of events about a node of a rollout.
type AgentRolloutNode struct {
	RolloutID string `json:"rollout_id" format:"uuid"`
	NodeID    string `json:"node_id" format:"uuid"`
	Hostname  string `json:"hostname"`
	Version   string `json:"version" doc:"that the rollout brings"`
	From      string `json:"from_version" doc:"that the node ran before"`
	Wave      int32  `json:"wave" doc:"0: a canary"`
	Because   string `json:"because"`
}

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

// agentEvents are the events about the agent itself.
func agentEvents() []Definition {
	return []Definition{
		{AgentReleaseChanged, ToPlatform, "A release of the agent was uploaded, promoted, withdrawn or blocked.", AgentRelease{}},
		{AgentUpgradeStarted, ToPlatform, "A release of the agent is on its way to many nodes.", AgentRollout{}},
		{AgentUpgradeChanged, ToPlatform, "A rollout of the agent goes on to its next wave, or somebody paused, resumed or ended it.", AgentRollout{}},
		{AgentUpgradeCompleted, ToPlatform, "All nodes of a rollout of the agent have their outcome.", AgentRollout{}},
		{AgentUpgradeFailed, ToPlatform, "A rollout of the agent is paused, because too many nodes failed.", AgentRollout{}},
		{AgentRollbackCompleted, ToPlatform, "A rollout of the agent was ended, and no node of it is in flight any more.", AgentRollout{}},
		{AgentNodeFailed, ToPlatform, "A node took a release of the agent badly.", AgentRolloutNode{}},
		{AgentNodeReturned, ToPlatform, "A node of a rollout runs the version of before again.", AgentRolloutNode{}},
		{AgentDriftChanged, ToPlatform, "After a report of an agent, its drift is another.", AgentDrift{}},
		{AgentRunChanged, ToPlatform, "What is done to the agent of a node began, went on, or came to its end.", AgentRun{}},
	}
}
