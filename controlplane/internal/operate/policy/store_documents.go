package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/policy/internal/policydb"
)

func documentFrom(r policydb.OperationPolicyDocument) (DocumentVersion, error) {
	v := DocumentVersion{Number: r.Version, Digest: r.Digest, CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy}
	if err := json.Unmarshal([]byte(r.Document), &v.Document); err != nil {
		return v, fmt.Errorf("decode policy document %s: %w", v.Name(), err)
	}
	return v, nil
}

// active reads which document counts; nil: none does.
func active(ctx context.Context, db policydb.DBTX) (*Activation, error) {
	row, err := policydb.New(db).ActiveDocument(ctx)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Version == 0 {
		return nil, nil //nolint:nilnil // none
	}
	if err != nil {
		return nil, fmt.Errorf("read which policy document counts: %w", err)
	}
	return &Activation{
		Version: row.Version, Title: row.Title, Digest: row.Digest, Reason: row.Reason, At: row.CreatedAt, By: row.CreatedBy,
	}, nil
}

// document reads a version.
func document(ctx context.Context, db policydb.DBTX, number int64) (DocumentVersion, error) {
	row, err := policydb.New(db).GetDocument(ctx, number)
	if errors.Is(err, pgx.ErrNoRows) {
		return DocumentVersion{}, noDocument(documentName(number))
	}
	if err != nil {
		return DocumentVersion{}, fmt.Errorf("read policy document %s: %w", documentName(number), err)
	}
	v, err := documentFrom(row)
	if err != nil {
		return v, err
	}
	now, err := active(ctx, db)
	if now != nil && now.Version == number {
		v.Active = now
	}
	return v, err
}

func noDocument(name string) error {
	return fault.New(fault.NotFound, "not_found", "there is no policy document %s", name).
		WithRemedy("see which there are: gpuaas operation policy document list")
}

// Document reads a version by its name.
func (s *Service) Document(ctx context.Context, name string) (DocumentVersion, error) {
	number := documentNumber(name)
	if number == 0 {
		return DocumentVersion{}, noDocument(name)
	}
	return document(ctx, s.db, number)
}

// documentPosition is where the next page begins.
type documentPosition struct {
	Version int64 `json:"v"`
}

// Documents lists the versions, newest first.
func (s *Service) Documents(ctx context.Context, page postgres.Slice[documentPosition]) ([]DocumentVersion, error) {
	p := policydb.ListDocumentsParams{PageSize: page.Limit}
	if page.After.Version > 0 {
		p.Before = &page.After.Version
	}
	rows, err := policydb.New(s.db).ListDocuments(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list policy documents: %w", err)
	}
	now, err := active(ctx, s.db)
	if err != nil {
		return nil, err
	}
	out := make([]DocumentVersion, len(rows))
	for i, row := range rows {
		if out[i], err = documentFrom(row); err != nil {
			return nil, err
		}
		if now != nil && now.Version == row.Version {
			out[i].Active = now
		}
	}
	return out, nil
}
