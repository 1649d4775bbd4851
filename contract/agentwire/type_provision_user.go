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
	Reserved: "rent the node, which makes the account: gpuaas allocation create --project PROJECT --node NODE",
	LetsIn:   true,
	Sound: []string{
		`{"allocation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","username":"alice","uid":20000,"gid":20000,` +
			`"authorized_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1t8Zq0 alice@example"],"sudo":true}`,
		`{"allocation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","username":"alice","uid":20000,"gid":20000,"authorized_keys":[],` +
			`"sudo":false,"handover":{"project":"p1","node":"c07u31","sku":"h200","gpus":8,"expires_at":"2026-11-17T00:00:00Z"}}`,
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
	// Handover is what the tenant reads about the node at login. Only agents that
	// report the fact FactHandover know the field; others refuse it.
	Handover *Handover `json:"handover,omitempty"`
}

// FactHandover is the fact by which an agent says that it takes a Handover.
const FactHandover = "agent.handover"

// Handover says what was handed over to a tenant.
type Handover struct {
	Project   string `json:"project"`
	Node      string `json:"node"`
	SKU       string `json:"sku"`
	GPUs      int    `json:"gpus"`
	ExpiresAt string `json:"expires_at,omitempty"` // RFC 3339; empty: never
}

// plainWord matches what a shell takes for one word, whatever it is quoted with.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9._:+-]{1,253}$`)

func (h Handover) validate() error {
	for name, word := range map[string]string{"project": h.Project, "node": h.Node, "sku": h.SKU} {
		if !plainWord.MatchString(word) {
			return fmt.Errorf("handover.%s is not a plain word", name)
		}
	}
	if _, err := time.Parse(time.RFC3339, h.ExpiresAt); h.ExpiresAt != "" && err != nil {
		return errors.New("handover.expires_at is not a time")
	}
	if h.GPUs < 0 || h.GPUs > 64 {
		return errors.New("handover.gpus must be between 0 and 64")
	}
	return nil
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
	if p.Handover != nil {
		if err := p.Handover.validate(); err != nil {
			return err
		}
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
	// LoginChecked says that the agent looked: the shell can be started, home and
	// keys belong to the account and are closed to others.
	LoginChecked bool `json:"login_checked,omitempty"`
}
