package agentwire

import (
	"errors"
	"time"
)

// TypeDrain empties a node, or ends that.
const TypeDrain = "node.drain"

var _ = declare[DrainParams, DrainOutput](Spec{
	Type: TypeDrain, Title: "close sessions, revoke users, refuse new ones",
	Destroys: "Terminal sessions on the node are closed and new ones refused; with revoke_users the accounts of its " +
		"allocations are removed too. Tenants who work there are cut off.",
	Class: ClassExclusive, Window: 15 * time.Minute, Patience: time.Hour, Attempts: 3,
	Sound: []string{
		`{}`, `{"reason":"r","revoke_users":true}`, `{"reason":"","resume":true,"revoke_users":false}`,
	},
})

// DrainParams says how a node is emptied.
type DrainParams struct {
	Reason      string `json:"reason"`
	RevokeUsers bool   `json:"revoke_users"`
	// Resume ends the drain instead: new users are accepted again.
	Resume bool `json:"resume,omitempty"`
}

// Validate implements Params.
func (p DrainParams) Validate() error {
	if p.Resume && p.RevokeUsers {
		return errors.New("resume and revoke_users exclude each other")
	}
	return limit("reason", p.Reason, 500)
}

// DrainOutput says what was done to empty the node.
type DrainOutput struct {
	Draining       bool     `json:"draining"`
	SessionsClosed int      `json:"sessions_closed"`
	UsersRevoked   []string `json:"users_revoked"`
	UsersLeft      []string `json:"users_left"`
}
