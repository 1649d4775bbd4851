package agentwire

import (
	"time"
)

// TypeDeprovisionUser removes the account of an allocation.
const TypeDeprovisionUser = "allocation.deprovision_user"

// TypeRevokeUser is the older name of the same task.
const TypeRevokeUser = "allocation.revoke_user"

const accountRemoved = "The account of the allocation is removed from the node with what runs under it. Its tenant " +
	"is cut off."

const releases = "release the allocation, which removes the account: gpuaas allocation release ALLOCATION"

var _ = declare[DeprovisionUserParams, DeprovisionUserOutput](Spec{
	Type: TypeDeprovisionUser, Title: "remove the account of an allocation", Destroys: accountRemoved,
	Reserved: releases,
	Class:    ClassUser, Window: 15 * time.Minute, Patience: time.Hour, Attempts: 3,
	Sound: []string{
		`{"allocation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","username":"alice","keep_home":true}`,
	},
})

var _ = declare[DeprovisionUserParams, DeprovisionUserOutput](Spec{
	Type: TypeRevokeUser, Title: "remove the account of an allocation (older name)", Destroys: accountRemoved,
	Reserved: releases,
	Class:    ClassUser, Window: 15 * time.Minute, Patience: time.Hour, Attempts: 3,
	Sound: []string{`{"allocation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","username":"alice"}`},
})

// DeprovisionUserParams names the account to remove.
type DeprovisionUserParams struct {
	AllocationID string `json:"allocation_id"`
	Username     string `json:"username"`
	KeepHome     bool   `json:"keep_home,omitempty"`
}

// Validate implements Params.
func (p DeprovisionUserParams) Validate() error { return account(p.AllocationID, p.Username) }

// DeprovisionUserOutput says what was removed.
type DeprovisionUserOutput struct {
	Username       string `json:"username"`
	Existed        bool   `json:"existed"`
	ProcessesEnded int    `json:"processes_ended"`
	SessionsClosed int    `json:"sessions_closed"`
	HomeRemoved    bool   `json:"home_removed"`
}
