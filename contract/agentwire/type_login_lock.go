package agentwire

import (
	"fmt"
	"time"
)

// TypeLoginLock closes the login of the first boot.
const TypeLoginLock = "node.login_lock"

var _ = declare[LoginLockParams, LoginLockOutput](Spec{
	Type: TypeLoginLock, Title: "lock the account that the machine was set up by",
	Destroys: "The account loses its keys, its password and its rule for sudo, and whoever is logged in by it is thrown out.",
	Class:    ClassUser, Window: 5 * time.Minute, Patience: time.Hour, Attempts: 3,
	Sound: []string{`{"username":"hpcadmin"}`},
})

// LoginLockParams names the account with which the first boot set up the
// machine.
type LoginLockParams struct {
	Username string `json:"username"`
}

// Validate implements Params.
func (p LoginLockParams) Validate() error {
	if !userName.MatchString(p.Username) || p.Username == "root" {
		return fmt.Errorf("%q is no account that a first boot makes", p.Username)
	}
	return nil
}

// LoginLockOutput says what was found, and that none of it admits anybody any
// more.
type LoginLockOutput struct {
	Username string `json:"username"`
	Existed  bool   `json:"existed"`
	// Searched says that the agent also looked for accounts that a first boot made
	// under another name; Others are those that it found, which are closed as well.
	Searched       bool     `json:"searched,omitempty"`
	Others         []string `json:"others,omitempty"`
	Closed         []string `json:"closed"` // what admitted somebody until now
	ProcessesEnded int      `json:"processes_ended"`
}
