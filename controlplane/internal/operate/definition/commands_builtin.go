package definition

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/operate/definition/internal/definitiondb"
)

// Differs says that a version of this name exists with another document than the one
// that is shipped. What is kept counts.
type Differs struct {
	Ref
	Kept, Shipped string // digests
}

// Install activates the versions that are shipped with the program and that are not
// there yet. What an administrator has deprecated or retired stays so. It answers
// what it installed, and which of the shipped ones exist with another document: an
// active version never changes, so these are left alone.
func (s *Service) Install(ctx context.Context) (installed []Ref, differ []Differs, err error) {
	all, err := BuiltIns()
	if err != nil {
		return nil, nil, err
	}
	ctx = auth.With(ctx, auth.System("operation-definitions"))
	for _, d := range all {
		made, other, err := s.install(ctx, d)
		if err != nil {
			return installed, differ, err
		}
		if made {
			installed = append(installed, d.Ref())
		}
		if other != nil {
			differ = append(differ, *other)
		}
	}
	return installed, differ, nil
}

func (s *Service) install(ctx context.Context, d Definition) (installed bool, other *Differs, err error) {
	document, err := d.Canonical()
	if err != nil {
		return false, nil, err
	}
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		installed, other = false, nil
		q := definitiondb.New(tx)
		// Replicas start together.
		if err := q.LockType(ctx, d.Type); err != nil {
			return fmt.Errorf("lock type of operation: %w", err)
		}
		kept, err := Get(ctx, tx, d.Ref())
		switch {
		case err == nil && kept.Digest != digest(document):
			other = &Differs{Ref: d.Ref(), Kept: kept.Digest, Shipped: digest(document)}
			return nil
		case err == nil:
			return nil
		case !isMissing(err):
			return err
		}
		installed = true
		_, err = insert(ctx, tx, d, BuiltIn, true)
		return err
	})
	return installed, other, err
}

func isMissing(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Kind == fault.NotFound
}
