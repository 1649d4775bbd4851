package artifact

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/artifact/internal/artifactdb"
)

// Trust adds a key of the platform, or of a tenant. Artifacts are not verified again by
// it: that happens when somebody asks.
func (s *Service) Trust(ctx context.Context, org id.Org, w KeyWish) (Key, error) {
	k, err := w.check(time.Now().UTC())
	if err != nil {
		return Key{}, err
	}
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := artifactdb.New(tx)
		if err := q.LockOwner(ctx, "keys "+org.String()); err != nil {
			return fmt.Errorf("lock keys: %w", err)
		}
		n, err := q.CountKeys(ctx, org)
		if err != nil {
			return fmt.Errorf("count keys: %w", err)
		}
		if n >= maxKeys {
			return fault.New(fault.Conflict, "artifact_keys_too_many", "%d keys are trusted already, which is the most", n).
				WithRemedy("withdraw one that nobody uses: gpuaas artifact key withdraw KEY")
		}
		row, err := q.InsertKey(ctx, artifactdb.InsertKeyParams{
			ID: id.New[id.ArtifactKey](), OrgID: org, Name: k.Name, Pem: k.PEM, Fingerprint: k.Fingerprint,
			Algorithm: k.Algorithm, Repositories: k.Repositories, NotBefore: k.NotBefore, NotAfter: k.NotAfter,
			CreatedBy: auth.From(ctx).ID,
		})
		if postgres.Violates(err, "artifact_keys_once") {
			return fault.New(fault.Conflict, "artifact_key_exists", "the key %.16s is trusted already", k.Fingerprint).
				WithRemedy("withdraw it first, to trust it otherwise: gpuaas artifact key withdraw KEY")
		}
		if err != nil {
			return fmt.Errorf("write key: %w", err)
		}
		k = keyFrom(row)
		return recordKey(ctx, tx, "artifact_key.trust", "trusted", k)
	})
	return k, err
}

// Withdraw ends the trust in a key for good. What was verified by it does not count as
// signed any more, at once.
func (s *Service) Withdraw(ctx context.Context, org id.Org, of id.ArtifactKey, reason string) (Key, error) {
	var k Key
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockStanding(ctx, tx, org); err != nil {
			return err
		}
		q := artifactdb.New(tx)
		row, err := q.LockKey(ctx, artifactdb.LockKeyParams{ID: of, OrgID: org})
		if errors.Is(err, pgx.ErrNoRows) {
			return missingKey()
		}
		if err != nil {
			return fmt.Errorf("lock key: %w", err)
		}
		if row.WithdrawnAt != nil {
			return fault.New(fault.Conflict, "artifact_key_withdrawn", "the key was withdrawn already: %s",
				row.WithdrawnBecause).
				WithRemedy("there is nothing to do")
		}
		row, err = q.WithdrawKey(ctx, artifactdb.WithdrawKeyParams{
			ID: of, WithdrawnBy: auth.From(ctx).ID, WithdrawnBecause: reason,
		})
		if err != nil {
			return fmt.Errorf("withdraw key: %w", err)
		}
		k = keyFrom(row)
		return recordKey(ctx, tx, "artifact_key.withdraw", "withdrawn", k)
	})
	return k, err
}

func recordKey(ctx context.Context, tx pgx.Tx, action, change string, k Key) error {
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "artifact_key", TargetID: k.ID.String(), Org: k.Org, Result: audit.Success,
		Reason: k.Because,
		Metadata: map[string]any{
			"name": k.Name, "fingerprint": k.Fingerprint, "repositories": k.Repositories, "not_after": k.NotAfter,
		},
	}); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.ArtifactKeyChanged, AggregateKind: "artifact_key", AggregateID: k.ID.String(), Org: k.Org,
		Payload: eventwire.ArtifactKey{
			KeyID: k.ID.String(), Name: k.Name, Fingerprint: k.Fingerprint, Change: change,
		},
	})
}
