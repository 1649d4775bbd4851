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
		ID: r.ID, Node: r.NodeID, Seq: int(r.Seq), Kind: certificate.Kind(r.Kind), Decommission: r.DecommissionID, Hostname: r.Hostname,
		Mode: r.Mode, Digest: r.Digest, Previous: r.PreviousDigest, KeyID: r.KeyID, IssuedAt: r.IssuedAt,
	}
}

// ofEvidence is what was issued about an operation as far as it had come; nil
// when nothing was.
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

// end is the end of the chain of a node.
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

// Signed is a file as it was issued, byte by byte: the database keeps what it
// says, and it has one form only.
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

// OfDecommission is what was issued last about an operation: it stands for what
// was issued about it before. Nil when nothing was.
func (s *Service) OfDecommission(ctx context.Context, operation id.Decommission) (*Issued, error) {
	r, err := s.reads.OfDecommission(ctx, operation)
	return found(certificatedb.ListRow(r), err)
}

// position is where a listing continues: newest first.
type position struct {
	IssuedAt time.Time      `json:"a"`
	ID       id.Certificate `json:"i"`
}

// Filter narrows a listing; what is zero does not narrow.
type Filter struct {
	Node id.Node
	Kind certificate.Kind
}

// List reads what was issued, newest first.
func (s *Service) List(ctx context.Context, f Filter, page postgres.Slice[position]) ([]Issued, error) {
	p := certificatedb.ListParams{PageSize: page.Limit}
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

// OfNode reads what was issued about a node, newest first.
func (s *Service) OfNode(ctx context.Context, node id.Node, kind certificate.Kind, page postgres.Slice[position]) ([]Issued, error) {
	known, err := s.reads.NodeExists(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("look for node %s: %w", node, err)
	}
	if !known {
		return nil, fault.New(fault.NotFound, "node_not_found", "there is no node %s", node).WithRemedy("list them with: gpuaas node list")
	}
	return s.List(ctx, Filter{Node: node, Kind: kind}, page)
}
