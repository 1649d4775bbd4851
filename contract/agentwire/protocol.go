package agentwire

// Protocol numbers what agents and control planes say to each other. It grows when one
// of them says what the other one of before cannot understand, and not with additions.
const Protocol = 1

// OldestProtocol is the oldest one that a control plane still speaks with agents. Older
// agents cannot be updated by it.
const OldestProtocol = 1

// FactProtocol is the fact by which an agent says its Protocol. Agents that do not say
// it speak the first one.
const FactProtocol = "agent.protocol"
