package agentrelease

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"

	"gpuaas/controlplane/internal/engine/postgres"
)

// Config is what a service is made of.
type Config struct {
	DB           *postgres.DB
	Keys         []ed25519.PublicKey // those whose releases are believed
	ControlPlane string              // the version of this program
}

// Service holds the commands and queries of the package.
type Service struct {
	db           *postgres.DB
	keys         []ed25519.PublicKey
	controlPlane string
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	return &Service{db: cfg.DB, keys: cfg.Keys, controlPlane: cfg.ControlPlane}
}

// ParseKeys reads the public halves of release keys, in base64.
func ParseKeys(texts []string) ([]ed25519.PublicKey, error) {
	keys := make([]ed25519.PublicKey, len(texts))
	for i, text := range texts {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%.80q is no public key of Ed25519 in base64", text)
		}
		keys[i] = key
	}
	return keys, nil
}
