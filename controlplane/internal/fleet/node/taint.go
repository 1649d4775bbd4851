package node

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// Access is the most access that somebody had on a node.
type Access string

// The kinds of access.
const (
	NoAccess   Access = ""
	UserAccess Access = "user"
	RootAccess Access = "root"
)

// RootCause is the way in which somebody got root.
type RootCause string

// The causes.
const (
	RootBySudo      RootCause = "sudo"                 // an account with sudo was requested
	RootByShell     RootCause = "root_shell"           // a shell of root
	RootByContainer RootCause = "privileged_container" // a container that the kernel does not confine
	RootByConsole   RootCause = "physical_console"     // somebody at the machine or with access to its BMC
	RootFound       RootCause = "found"                // a validation found traces that only root leaves
	RootByOperation RootCause = "operation"            // a run of a tenant changed the node as root
)

// Root says who had root on a node. It stands until a later installation is
// proven clean, or until somebody accepts the risk in words.
type Root struct {
	At      *time.Time `json:"at,omitempty"` // the last time
	Cause   RootCause  `json:"cause,omitempty"`
	EndedAt *time.Time `json:"ended_at,omitempty"`
	Risk    string     `json:"risk,omitempty"` // the risk that somebody accepted; empty: proven gone
	// AcceptedBy is who accepted it; empty if that was not recorded here yet.
	AcceptedBy string `json:"accepted_by,omitempty"`
}

// Stands says whether what somebody with root may have left is neither proven
// gone nor accepted.
func (r Root) Stands() bool { return r.At != nil && (r.EndedAt == nil || !r.EndedAt.After(*r.At)) }

// Accepted says whether somebody accepted the risk of what root may have left.
func (r Root) Accepted() bool { return r.At != nil && !r.Stands() && r.Risk != "" }

// Installation is what a node runs on, if an operation of ours made it.
type Installation struct {
	// MadeAt is when the installation began: nothing in it is older. It is nil
	// if nobody knows, for example for a machine that was added by hand.
	MadeAt *time.Time `json:"made_at,omitempty"`
	By     string     `json:"by,omitempty"` // the operation
	// Generation is the generation that the node enrolled with. If the node has
	// another one now, somebody enrolled it again with a token, and nobody saw
	// how its installation was made.
	Generation int64 `json:"generation,omitempty"`
}

// Access returns the most access that somebody had since the node was last
// proven clean.
func (n Node) Access() Access {
	switch {
	case n.Root.Stands():
		return RootAccess
	case n.Tainted():
		return UserAccess
	}
	return NoAccess
}

// Compromised says whether somebody had root on the very installation that the
// node runs on. They may have replaced the programs through which it reports,
// so only a later installation can testify.
func (n Node) Compromised() bool {
	made := n.Installation.MadeAt
	return n.Root.Stands() && (made == nil || !made.After(*n.Root.At) || n.Installation.Generation != n.Generation)
}

// CodeRoot is the code for a node whose installation somebody had root on.
const CodeRoot = "node_root_tainted"

// Incredible refuses what a compromised installation says about itself, and
// says what helps.
func (n Node) Incredible() error {
	if !n.Compromised() {
		return nil
	}
	f := fault.New(fault.Conflict, CodeRoot,
		"somebody had root on node %s at %s (%s), and it runs on the same installation since: what that says of itself is "+
			"not independent, and never enough to call it clean",
		n.Hostname, n.Root.At.UTC().Format(time.RFC3339), n.Root.Cause)
	if n.OnboardingMode == MAAS {
		return f.WithRemedy("reinstall it: gpuaas node reimage %s; "+
			"or put it aside as it is: gpuaas node drain %[1]s", n.Hostname)
	}
	return f.WithRemedy("no MAAS can reinstall it: take it out (gpuaas node drain %s, "+
		"then gpuaas node remove %[1]s); or clean it and accept the risk that is left, which its paper names: "+
		"gpuaas node reset %[1]s --residual-risk TEXT", n.Hostname)
}
