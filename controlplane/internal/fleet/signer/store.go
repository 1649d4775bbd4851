package signer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/signer/internal/signerdb"
)

func fromRow(r signerdb.SignerVersion) Signer {
	return Signer{
		ID: r.ID, Status: Status(r.Status), KeyName: r.KeyName, PublicKey: r.PublicKey, VerifierVersion: r.VerifierVersion,
		Version: r.Version, PublishedAt: r.PublishedAt, EffectiveAt: r.EffectiveAt, RetiresAt: r.RetiresAt,
		FinishedAt: r.FinishedAt,
	}
}

func fromRows(rows []signerdb.SignerVersion) []Signer {
	out := make([]Signer, len(rows))
	for i, r := range rows {
		out[i] = fromRow(r)
	}
	return out
}

func current(ctx context.Context, q *signerdb.Queries) (trio, error) {
	rows, err := q.Current(ctx)
	if err != nil {
		return trio{}, fmt.Errorf("read signers: %w", err)
	}
	return trioOf(fromRows(rows)), nil
}

func get(ctx context.Context, q *signerdb.Queries, signer string) (Signer, error) {
	r, err := q.Get(ctx, signer)
	if errors.Is(err, pgx.ErrNoRows) {
		return Signer{}, errNotFound(signer)
	}
	if err != nil {
		return Signer{}, fmt.Errorf("read signer %s: %w", signer, err)
	}
	return fromRow(r), nil
}

func verifiers(ctx context.Context, q *signerdb.Queries) (agentwire.VerifierSet, error) {
	rows, err := q.Verifiers(ctx)
	if err != nil {
		return agentwire.VerifierSet{}, fmt.Errorf("read verifier set: %w", err)
	}
	var set agentwire.VerifierSet
	for _, r := range rows {
		set.Version = r.SetVersion
		if Status(r.Status) == Revoked {
			set.Revoked = append(set.Revoked, r.ID)
			continue
		}
		set.Verifiers = append(set.Verifiers, agentwire.Verifier{ID: r.ID, PublicKey: r.PublicKey, State: r.Status})
	}
	if len(set.Verifiers) == 0 {
		return agentwire.VerifierSet{}, errMissing
	}
	return set, nil
}

// Verifiers returns the set that nodes shall use now.
func (s *Service) Verifiers(ctx context.Context) (agentwire.VerifierSet, error) {
	return verifiers(ctx, s.reads)
}

// Publication is a set of verifiers that is published to nodes. It owns the
// task that tells them.
type Publication struct{ Set agentwire.VerifierSet }

// Owns refuses the task unless nodes shall use exactly this set now.
func (p Publication) Owns(ctx context.Context, tx pgx.Tx, _ id.Node, typ string) error {
	now, err := verifiers(ctx, signerdb.New(tx))
	if err != nil {
		return err
	}
	same := now.Version == p.Set.Version && reflect.DeepEqual(now.Verifiers, p.Set.Verifiers) &&
		slices.Equal(now.Revoked, p.Set.Revoked)
	if typ != agentwire.TypeUpdateVerifiers || !same {
		return fault.New(fault.Conflict, "verifier_set_not_current",
			"verifier set %d, as it was given, is not the set that nodes are to use; the newest is %d", p.Set.Version,
			now.Version).
			WithRemedy("rotate the signer with: gpuaas signer rotate")
	}
	return nil
}

// position is where the next page begins; the newest signer comes first.
type position struct {
	PublishedAt time.Time `json:"p"`
	ID          string    `json:"i"`
}

// List reads signers, newest first, with what they wait for.
func (s *Service) List(ctx context.Context, page postgres.Slice[position]) ([]Listed, error) {
	p := signerdb.ListParams{PageSize: page.Limit}
	if page.After != (position{}) {
		p.PublishedBefore, p.IDBefore = &page.After.PublishedAt, &page.After.ID
	}
	rows, err := s.reads.List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list signers: %w", err)
	}
	now, err := current(ctx, s.reads)
	if err != nil {
		return nil, err
	}
	out := make([]Listed, len(rows))
	for i, r := range rows {
		out[i].Signer = fromRow(r)
		if out[i].Waiting, err = s.waiting(ctx, out[i].Signer, now); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// waiting says what a signer waits for. A staged signer waits until every node
// accepts it and the grace period of another has ended. For an active signer
// that was forced, it counts the nodes that do not know it yet.
func (s *Service) waiting(ctx context.Context, signer Signer, now trio) (Waiting, error) {
	var w Waiting
	if signer.Status != Staged && signer.Status != Active {
		return w, nil
	}
	var err error
	if w.NodesBehind, w.Sample, err = s.fleet.VerifiersBehind(ctx, signer.VerifierVersion); err != nil {
		return w, fmt.Errorf("look for nodes behind verifier set %d: %w", signer.VerifierVersion, err)
	}
	if signer.Status == Staged && !now.graceOver(s.now()) {
		w.GraceOf, w.GraceEnds = now.grace.ID, now.grace.RetiresAt
	}
	return w, nil
}
