package artifact

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/artifact/internal/artifactdb"
)

// SecretsPrefix is where the secrets of sources are kept in the secrets engine.
const SecretsPrefix = "artifact-sources/"

const keySecret = "secret"

// secretOf is where the secret of a source is kept. Each version has its own, so that what
// a row says and what it is read with are never of two versions.
func secretOf(s Source) string { return fmt.Sprintf("%s%s/%d", SecretsPrefix, s.ID, s.Version) }

// AddSource adds a source of the platform, or of a tenant. Its secret goes to the secrets
// engine and is never shown.
func (s *Service) AddSource(ctx context.Context, org id.Org, w SourceWish) (made Source, _ error) {
	if err := w.check(); err != nil {
		return Source{}, err
	}
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := artifactdb.New(tx)
		if err := q.LockOwner(ctx, "sources "+org.String()); err != nil {
			return fmt.Errorf("lock artifact sources: %w", err)
		}
		n, err := q.CountSources(ctx, org)
		if err != nil {
			return fmt.Errorf("count artifact sources: %w", err)
		}
		if n >= maxSources {
			return fault.New(fault.Conflict, "artifact_sources_too_many", "there are %d artifact sources already, which is "+
				"the most", n).WithRemedy("delete one that nobody uses: gpuaas artifact source delete SOURCE")
		}
		row, err := q.InsertSource(ctx, artifactdb.InsertSourceParams{
			ID: id.New[id.ArtifactSource](), OrgID: org, Name: w.Name, Kind: string(w.Kind), Reach: w.Reach, Login: w.Login,
			Region: w.Region, Shared: w.Shared, HasSecret: !w.Secret.IsZero(), CreatedBy: auth.From(ctx).ID,
		})
		if postgres.Violates(err, "artifact_sources_once") {
			return fault.New(fault.Conflict, "artifact_source_exists", "there is an artifact source for %s already", w.Reach).
				WithRemedy("replace its secret: gpuaas artifact source rotate SOURCE; or delete it first")
		}
		if err != nil {
			return fmt.Errorf("write artifact source: %w", err)
		}
		made = sourceFrom(row)
		if err := recordSource(ctx, tx, "artifact_source.add", made); err != nil {
			return err
		}
		// Last, so that nothing is left in the secrets engine of a source that was refused.
		return s.keep(ctx, made, w.Secret)
	})
	return made, err
}

func (s *Service) keep(ctx context.Context, of Source, secret redact.Secret) error {
	if secret.IsZero() {
		return nil
	}
	return s.secrets.Put(ctx, secretOf(of), map[string]redact.Secret{keySecret: secret})
}

// RotateSource replaces the login of a source. What was given to nodes before ends by itself,
// an hour later at most.
func (s *Service) RotateSource(
	ctx context.Context, org id.Org, of id.ArtifactSource, login string, secret redact.Secret,
) (after Source, _ error) {
	before, err := s.changeSource(ctx, org, of, func(ctx context.Context, tx pgx.Tx, before Source) error {
		w := SourceWish{before.Name, before.Kind, before.Reach, login, secret, before.Region, before.Shared}
		if err := w.check(); err != nil {
			return err
		}
		row, err := artifactdb.New(tx).RotateSource(ctx, artifactdb.RotateSourceParams{
			ID: of, Login: login, HasSecret: !secret.IsZero(), UpdatedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("write artifact source: %w", err)
		}
		after = sourceFrom(row)
		if err := recordSource(ctx, tx, "artifact_source.rotate", after); err != nil {
			return err
		}
		return s.keep(ctx, after, secret)
	})
	if err != nil {
		return Source{}, err
	}
	return after, s.forget(ctx, before)
}

// forget deletes a secret that no row names any more.
func (s *Service) forget(ctx context.Context, of Source) error {
	if !of.HasSecret {
		return nil
	}
	if err := s.secrets.Delete(ctx, secretOf(of)); err != nil {
		return fault.Wrap(err, fault.Unavailable, "artifact_secret_left", "it is done, but the secret of before is still in "+
			"the secrets engine, at %s", secretOf(of)).
			WithRemedy("nothing reads it any more; delete it in the secrets engine, and end it where it was issued")
	}
	return nil
}

// DeleteSource deletes a source with its secret. What is registered there stays, and is
// fetched only if everybody may.
func (s *Service) DeleteSource(ctx context.Context, org id.Org, of id.ArtifactSource) error {
	before, err := s.changeSource(ctx, org, of, func(ctx context.Context, tx pgx.Tx, before Source) error {
		if err := artifactdb.New(tx).DeleteSource(ctx, of); err != nil {
			return fmt.Errorf("delete artifact source: %w", err)
		}
		return recordSource(ctx, tx, "artifact_source.delete", before)
	})
	if err != nil {
		return err
	}
	return s.forget(ctx, before)
}

func (s *Service) changeSource(ctx context.Context, org id.Org, of id.ArtifactSource,
	do func(context.Context, pgx.Tx, Source) error,
) (before Source, _ error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := artifactdb.New(tx).LockSource(ctx, artifactdb.LockSourceParams{ID: of, OrgID: org})
		if errors.Is(err, pgx.ErrNoRows) {
			return missingSource()
		}
		if err != nil {
			return fmt.Errorf("lock artifact source: %w", err)
		}
		before = sourceFrom(row)
		return do(ctx, tx, before)
	})
	return before, err
}

func recordSource(ctx context.Context, tx pgx.Tx, action string, s Source) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "artifact_source", TargetID: s.ID.String(), Org: s.Org, Result: audit.Success,
		Metadata: map[string]any{
			"name": s.Name, "kind": s.Kind, "reach": s.Reach, "login": s.Login, "shared": s.Shared,
			"has_secret": s.HasSecret, "version": s.Version,
		},
	})
}
