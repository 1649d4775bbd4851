package signer

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/signer/internal/signerdb"
)

// SignEnvelope signs a task with the active signer, in place. If it fails, the
// envelope must not be used; nothing else has happened.
//
// It reads which signer is active each time and remembers nothing: a revoked
// signer then signs nothing more in any replica, and reading one row costs
// little compared with the signature.
func (s *Service) SignEnvelope(ctx context.Context, e *agentwire.Envelope) error {
	active, err := s.active(ctx)
	if err != nil {
		return err
	}
	e.SignerVersion = active.ID
	message, err := e.SignedBytes()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "task_not_signable", "task %s has no form that could be signed", e.TaskID)
	}
	e.Signature, err = s.sign(ctx, active, message)
	return err
}

// SignPackage signs an agent package with the active signer.
func (s *Service) SignPackage(ctx context.Context, version, digest string) (
	signer string, signature []byte, err error,
) {
	active, err := s.active(ctx)
	if err != nil {
		return "", nil, err
	}
	signature, err = s.sign(ctx, active, agentwire.PackageSignedBytes(version, digest))
	return active.ID, signature, err
}

func (s *Service) active(ctx context.Context) (signerdb.ActiveKeyRow, error) {
	active, err := s.reads.ActiveKey(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return active, errMissing
	}
	if err != nil {
		return active, fmt.Errorf("read active signer: %w", err)
	}
	return active, nil
}

// sign also verifies the signature, so that no signature leaves which nodes
// would refuse.
func (s *Service) sign(ctx context.Context, key signerdb.ActiveKeyRow, message []byte) ([]byte, error) {
	signature, err := s.keys.Sign(ctx, key.KeyName, message)
	if err != nil {
		return nil, fmt.Errorf("sign with signer %s: %w", key.ID, err)
	}
	if !ed25519.Verify(key.PublicKey, message, signature) {
		return nil, fault.New(fault.Unavailable, "signer_key_mismatch",
			"the secrets engine holds another key under the name of signer %s", key.ID).
			WithRemedy("check that all replicas talk to the same secrets engine and that it was not reset; then rotate with " +
				"force")
	}
	return signature, nil
}
