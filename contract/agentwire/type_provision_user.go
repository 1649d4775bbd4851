package agentwire

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// TypeProvisionUser creates the account of an allocation.
const TypeProvisionUser = "allocation.provision_user"

var _ = declare[ProvisionUserParams, ProvisionUserOutput](Spec{
	Type: TypeProvisionUser, Title: "create the account of an allocation",
	Class: ClassUser, Window: 15 * time.Minute, Patience: time.Hour, Attempts: 3,
	Needs: "terminal:open", LetsIn: true,
	Sound: []string{
		`{"allocation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","username":"alice","uid":20000,"gid":20000,` +
			`"authorized_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1t8Zq0 alice@example"],"sudo":true}`,
	},
})

var keyForm = regexp.MustCompile(
	`^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh\.com|sk-ecdsa-sha2-nistp256@openssh\.com) [A-Za-z0-9+/]+={0,3}( [!-~ ]{0,200})?$`)

// ProvisionUserParams describes the account of an allocation.
type ProvisionUserParams struct {
	AllocationID   string   `json:"allocation_id"`
	Username       string   `json:"username"`
	UID            int      `json:"uid"`
	GID            int      `json:"gid"`
	AuthorizedKeys []string `json:"authorized_keys"`
	Sudo           bool     `json:"sudo"`
}

// MinUID is the lowest id of an allocation user: system accounts and the
// accounts of the site are below it.
const MinUID = 20000

// Validate implements Params.
func (p ProvisionUserParams) Validate() error {
	if err := account(p.AllocationID, p.Username); err != nil {
		return err
	}
	if p.UID < MinUID || p.UID > 60000 || p.GID < MinUID || p.GID > 60000 {
		return fmt.Errorf("uid and gid must be between %d and 60000", MinUID)
	}
	if len(p.AuthorizedKeys) > 100 {
		return errors.New("at most 100 keys")
	}
	for i, k := range p.AuthorizedKeys {
		if len(k) > 16<<10 || !keyForm.MatchString(k) {
			return fmt.Errorf("key %d is not an OpenSSH public key on one line", i+1)
		}
	}
	return nil
}

// GivesRoot implements RootGiver.
func (p ProvisionUserParams) GivesRoot() bool { return p.Sudo }

// ProvisionUserOutput describes the account.
type ProvisionUserOutput struct {
	Username string `json:"username"`
	UID      int    `json:"uid"`
	GID      int    `json:"gid"`
	Home     string `json:"home"`
	Created  bool   `json:"created"` // false: it existed as wanted
}
