package definition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/operate/definition/internal/definitiondb"
)

func from(r definitiondb.OperationDefinitionVersion) (Version, error) {
	v := Version{
		Status: Status(r.Status), Digest: r.Digest, Document: json.RawMessage(r.Document), Origin: Origin(r.Origin),
		Revision: r.Revision, StatusReason: r.StatusReason, CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy,
		UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy, ActivatedAt: r.ActivatedAt,
	}
	if err := json.Unmarshal(v.Document, &v.Definition); err != nil {
		return Version{}, fmt.Errorf("read definition %s@%s: %w", r.Type, r.Version, err)
	}
	return v, nil
}

func read(name Ref, row definitiondb.OperationDefinitionVersion, err error) (Version, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Version{}, notFound(name)
	}
	if err != nil {
		return Version{}, fmt.Errorf("read definition %s: %w", name, err)
	}
	return from(row)
}

func notFound(name Ref) error {
	return fault.New(fault.NotFound, "not_found", "there is no operation definition %s", name).
		WithRemedy("write TYPE@VERSION; see which there are: gpuaas operation definition list")
}

// Get reads one version through a pool or a transaction, whatever its state.
func Get(ctx context.Context, db definitiondb.DBTX, name Ref) (Version, error) {
	row, err := definitiondb.New(db).GetVersion(ctx, definitiondb.GetVersionParams{Type: name.Type, Version: name.Version})
	return read(name, row, err)
}

// ForRun reads a version for a command that makes a run of it, and refuses one that
// cannot be run. Without a version it takes the newest that can be run. Until the
// transaction ends nobody can retire it.
func ForRun(ctx context.Context, tx pgx.Tx, name Ref) (Version, error) {
	q := definitiondb.New(tx)
	if name.Version == "" {
		newest, err := q.Newest(ctx, name.Type)
		if errors.Is(err, pgx.ErrNoRows) {
			return Version{}, fault.New(fault.NotFound, "not_found", "there is no operation %s that can be run", name.Type).
				WithRemedy("see which there are: gpuaas operation definition list")
		}
		if err != nil {
			return Version{}, fmt.Errorf("read newest version of %s: %w", name.Type, err)
		}
		name.Version = newest.Version
	}
	row, err := q.ShareVersion(ctx, definitiondb.ShareVersionParams{Type: name.Type, Version: name.Version})
	found, err := read(name, row, err)
	if err != nil {
		return Version{}, err
	}
	if !found.Status.Runs() {
		return Version{}, fault.New(fault.Conflict, "operation_definition_not_runnable", "%s is %s and cannot be run", name,
			found.Status).WithRemedy("choose a version that is active: gpuaas operation definition list --type %s", name.Type)
	}
	return found, nil
}
