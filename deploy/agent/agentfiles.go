// Package agentfiles is the one home of what goes onto a node beside the
// programs of the agent: its systemd unit and the template of its settings.
// The control plane puts both into the agent package.
package agentfiles

import _ "embed"

// Names of the files, in the package and on the node.
const (
	UnitName = "gpuaas-node-agent.service" // below /etc/systemd/system
	EnvName  = "agent.env"                 // below /etc/gpuaas
)

// Unit is the systemd unit of the agent.
//
//go:embed gpuaas-node-agent.service
var Unit string

// Env is the template of the settings of the agent. Words between @ are filled
// in on the node.
//
//go:embed agent.env
var Env string
