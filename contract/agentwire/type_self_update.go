package agentwire

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// TypeSelfUpdate replaces the agent.
const TypeSelfUpdate = "node.self_update"

var _ = declare[SelfUpdateParams, SelfUpdateOutput](Spec{
	Type: TypeSelfUpdate, Title: "install another version of the agent, or go back",
	Destroys: "The agent is replaced and starts anew. A version that does not run is taken back by itself.",
	Class:    ClassExclusive, Window: 15 * time.Minute, Patience: time.Hour, Attempts: 3,
	// Agents of before tell of their unit after an update.
	Amends: []Entry{
		{Kind: EntryAgent, Name: "/opt/gpuaas/agent/"},
		{Kind: EntryAgent, Name: "/etc/systemd/system/gpuaas-node-agent.service"},
		{Kind: EntryUnit, Name: "/etc/systemd/system/gpuaas-node-agent.service"},
	},
	Sound: []string{
		`{"action":"rollback"}`,
		`{"action":"update","version":"1.2.3+b","digest":"sha256:` + strings.Repeat("a", 64) +
			`","size_bytes":1,"signer_version":"s","signature":"AA=="}`,
	},
})

var (
	versionOK  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// SelfUpdateParams says which package to install. The agent fetches it under
// its own identity; digest and signature say what it must be.
type SelfUpdateParams struct {
	Action        string `json:"action"` // update or rollback
	Version       string `json:"version,omitempty"`
	Digest        string `json:"digest,omitempty"`
	SizeBytes     int64  `json:"size_bytes,omitempty"`
	SignerVersion string `json:"signer_version,omitempty"`
	Signature     []byte `json:"signature,omitempty"`
}

// maxPackage limits what an agent downloads.
const maxPackage = 256 << 20

// Validate implements Params.
func (p SelfUpdateParams) Validate() error {
	switch p.Action {
	case "rollback":
		return nil
	case "update":
	default:
		return errors.New("action must be update or rollback")
	}
	if !versionOK.MatchString(p.Version) || !digestForm.MatchString(p.Digest) {
		return errors.New("an update needs a version and a digest sha256:…")
	}
	if p.SizeBytes < 1 || p.SizeBytes > maxPackage {
		return fmt.Errorf("size_bytes must be between 1 and %d", maxPackage)
	}
	if p.SignerVersion == "" || len(p.Signature) == 0 {
		return errors.New("an update needs the signature of its package")
	}
	return nil
}

// SelfUpdateOutput says which agent runs now.
type SelfUpdateOutput struct {
	From       string `json:"from"`
	To         string `json:"to"`
	RolledBack bool   `json:"rolled_back"`
	Reason     string `json:"reason,omitempty"`
}
