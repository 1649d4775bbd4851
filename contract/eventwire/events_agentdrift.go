package eventwire

// AgentDriftChanged is the event type of agents that drift, or do so no more.
const AgentDriftChanged Type = "agent.drift.changed"

// AgentDrift is the payload of the event about the drift of an agent.
type AgentDrift struct {
	NodeID   string `json:"node_id" format:"uuid"`
	Hostname string `json:"hostname"`
	Version  string `json:"version" doc:"of the agent, as it reports it"`
	Was      string `json:"was" enum:"in_sync,version_drift,config_drift,certificate_only_repair_needed,unknown"`
	Is       string `json:"is" enum:"in_sync,version_drift,config_drift,certificate_only_repair_needed,unknown"`
}
