package certificate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/certificate/internal/certificatedb"
)

func fromRow(r certificatedb.ListRow) Issued {
	return Issued{
		ID: r.ID, Node: r.NodeID, Seq: int(r.Seq), Kind: certificate.Kind(r.Kind), Decommission: r.DecommissionID,
		Hostname: r.Hostname, Mode: r.Mode, Outcome: r.Outcome,
		Digest: r.Digest, Previous: r.PreviousDigest, KeyID: r.KeyID, IssuedAt: r.IssuedAt,
	}
}

// ofEvidence returns the document that was issued about exactly this evidence
// of an operation. It returns nil if there is none.
func ofEvidence(ctx context.Context, q *certificatedb.Queries, d Draft) (*Issued, error) {
	r, err := q.OfEvidence(ctx, certificatedb.OfEvidenceParams{DecommissionID: d.Decommission, EvidenceSeq: d.EvidenceSeq})
	return found(certificatedb.ListRow(r), err)
}

func found(r certificatedb.ListRow, err error) (*Issued, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nothing was issued, and nothing is wrong
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate of decommission: %w", err)
	}
	issued := fromRow(r)
	return &issued, nil
}

// end returns the last document in the chain of a node.
func end(ctx context.Context, q *certificatedb.Queries, node id.Node) (link, error) {
	r, err := q.Last(ctx, node)
	if errors.Is(err, pgx.ErrNoRows) {
		return link{}, nil
	}
	if err != nil {
		return link{}, fmt.Errorf("read last certificate of node %s: %w", node, err)
	}
	return link{seq: int(r.Seq), digest: r.Digest, issuedAt: r.IssuedAt}, nil
}

// Signed returns a file byte by byte as it was issued: the database keeps its
// content, and the content has only one encoding.
func (s *Service) Signed(ctx context.Context, certificateID id.Certificate) ([]byte, error) {
	document, err := s.reads.Get(ctx, certificateID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, notFound(certificateID)
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate %s: %w", certificateID, err)
	}
	raw, err := agentwire.Canonical(document)
	if err != nil {
		return nil, fmt.Errorf("bring certificate %s into its form: %w", certificateID, err)
	}
	return raw, nil
}

// position is where the next page begins; the newest document comes first.
type position struct {
	IssuedAt time.Time      `json:"a"`
	ID       id.Certificate `json:"i"`
}

// Filter filters a listing. Zero fields filter nothing.
type Filter struct {
	Node    id.Node
	Kind    certificate.Kind
	Outcome string
}

// List reads issued documents, newest first.
func (s *Service) List(ctx context.Context, f Filter, page postgres.Slice[position]) ([]Issued, error) {
	p := certificatedb.ListParams{PageSize: page.Limit, Outcome: f.Outcome}
	if !f.Node.IsZero() {
		node := f.Node.String()
		p.Node = &node
	}
	if f.Kind != "" {
		kind := string(f.Kind)
		p.Kind = &kind
	}
	if page.After != (position{}) {
		before := page.After.ID.String()
		p.IssuedBefore, p.IDBefore = &page.After.IssuedAt, &before
	}
	rows, err := s.reads.List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list certificates: %w", err)
	}
	out := make([]Issued, len(rows))
	for i, r := range rows {
		out[i] = fromRow(r)
	}
	return out, nil
}

// OfNode reads the documents of a node, newest first.
func (s *Service) OfNode(ctx context.Context, f Filter, page postgres.Slice[position]) ([]Issued, error) {
	known, err := s.reads.NodeExists(ctx, f.Node)
	if err != nil {
		return nil, fmt.Errorf("look for node %s: %w", f.Node, err)
	}
	if !known {
		return nil, fault.New(fault.NotFound, "node_not_found", "there is no node %s",
			f.Node).WithRemedy("list them with: gpuaas node list")
	}
	return s.List(ctx, f, page)
}
