package agentwire

// Where the first boot of a machine keeps what belongs to it.
const (
	// FirstBootFolder holds the layers until they have succeeded, their records and
	// logs. Whoever holds the lock of the file "lock" in it carries them out.
	FirstBootFolder = "/var/lib/gpuaas-firstboot"
	// FirstBootAgentLayer is the layer that makes the machine a node.
	FirstBootAgentLayer = "agent-bootstrap"
	// FirstBootCredentials is the folder of what that layer fetches the agent with.
	FirstBootCredentials = "/run/gpuaas-bootstrap" //nolint:gosec // a path
)
