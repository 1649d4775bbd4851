package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"gpuaas/controlplane/internal/base/redact"
)

// KeyPair is a key of a machine, or of somebody who logs in to one.
type KeyPair struct {
	Private redact.Secret // in OpenSSH's form
	Public  string        // as in a line of known_hosts or authorized_keys
}

// NewKeyPair makes a new key.
func NewKeyPair() (KeyPair, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("make SSH key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return KeyPair{}, fmt.Errorf("write SSH key: %w", err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		return KeyPair{}, fmt.Errorf("write public SSH key: %w", err)
	}
	return KeyPair{
		Private: redact.New(string(pem.EncodeToMemory(block))),
		Public:  strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))),
	}, nil
}
