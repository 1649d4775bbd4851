package certificate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/certificate"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/certificate/internal/certificatedb"
)

// Config is what the package needs to work.
type Config struct {
	DB     *postgres.DB
	Engine Engine
	Issuer string           // name of the deployment
	Clock  func() time.Time // nil: the clock of this machine
	Logger *slog.Logger     // nil: nothing is logged
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db     *postgres.DB
	reads  *certificatedb.Queries
	engine Engine
	issuer string
	now    func() time.Time
	logger *slog.Logger

	mu      sync.Mutex
	publics map[string]certificate.Key // by id; a key never changes
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, reads: certificatedb.New(cfg.DB), engine: cfg.Engine, issuer: cfg.Issuer, now: cfg.Clock,
		logger:  cfg.Logger,
		publics: map[string]certificate.Key{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// key returns the public half of a key. The first call creates the key.
func (s *Service) key(ctx context.Context, keyID string) (certificate.Key, error) {
	s.mu.Lock()
	k, known := s.publics[keyID]
	s.mu.Unlock()
	if known {
		return k, nil
	}
	public, err := s.engine.CreateSigningKey(ctx, keyID)
	if err != nil {
		return k, fmt.Errorf("make or read key %s: %w", keyID, err)
	}
	k = certificate.Key{KeyID: keyID, Algorithm: certificate.Algorithm, PublicKey: public}
	s.mu.Lock()
	s.publics[keyID] = k
	s.mu.Unlock()
	return k, nil
}

// Keys returns all public keys that sign or ever signed.
func (s *Service) Keys(ctx context.Context) ([]certificate.Key, error) {
	ids, err := s.reads.KeyIDs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list keys of certificates: %w", err)
	}
	if !slices.Contains(ids, KeyName) {
		ids = append(ids, KeyName)
	}
	out := make([]certificate.Key, len(ids))
	for i, keyID := range ids {
		if out[i], err = s.key(ctx, keyID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// attempts limits how often another document may join the chain while this one
// is being signed. Operations on one node run one after the other, so even once
// is rare.
const attempts = 5

// Issue signs what a draft states and records it as the next document of the
// node. The same evidence of an operation gets one document: if it exists,
// Issue returns it. If the operation has gone on since, it gets another one,
// which replaces the former. The engine signs before the transaction begins, so
// that no transaction waits for it.
func (s *Service) Issue(ctx context.Context, d Draft) (Issued, error) {
	for range attempts {
		before, err := ofEvidence(ctx, s.reads, d)
		if err != nil {
			return Issued{}, err
		}
		if before != nil {
			return *before, nil
		}
		last, err := end(ctx, s.reads, d.Node)
		if err != nil {
			return Issued{}, err
		}
		signed, err := s.sign(ctx, d, last)
		if err != nil {
			return Issued{}, err
		}
		if issued, err := s.add(ctx, d, last, signed); err != nil || issued != nil {
			if err != nil {
				return Issued{}, err
			}
			return *issued, nil
		}
	}
	return Issued{}, fault.New(fault.Unavailable, "certificate_chain_busy", "other documents of node %s are being issued",
		d.Node).WithRemedy("repeat it")
}

// sign makes the file. It verifies the engine's signature before anybody sees
// the file.
func (s *Service) sign(ctx context.Context, d Draft, last link) (*certificate.Signed, error) {
	key, err := s.key(ctx, KeyName)
	if err != nil {
		return nil, err
	}
	unsigned, err := certificate.Prepare(d.completed(id.New[id.Certificate](), s.issuer, last, s.now()), key.KeyID)
	if err != nil {
		return nil, unfounded(err, d)
	}
	signature, err := s.engine.Sign(ctx, KeyName, unsigned.Message())
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	signed, err := unsigned.Seal(signature)
	if err != nil {
		return nil, fmt.Errorf("seal certificate: %w", err)
	}
	if _, err := certificate.Verify(signed.Bytes(), []certificate.Key{key}); err != nil {
		s.mu.Lock()
		delete(s.publics, KeyName)
		s.mu.Unlock()
		return nil, fault.Wrap(err, fault.Unavailable, "certificate_key_changed",
			"what the secrets engine signed cannot be verified with the public half of key %s", KeyName).
			WithRemedy("see whether the key was replaced in the secrets engine; it must never be")
	}
	return signed, nil
}

// add records a file as the next document of its node. It returns nil if
// another document has joined the chain meanwhile.
func (s *Service) add(ctx context.Context, d Draft, last link, signed *certificate.Signed) (*Issued, error) {
	issued, err := issuedAs(d, signed)
	if err != nil {
		return nil, err
	}
	out := &issued
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := certificatedb.New(tx)
		if err := q.LockChain(ctx, d.Node.String()); err != nil {
			return fmt.Errorf("lock chain of node %s: %w", d.Node, err)
		}
		before, err := ofEvidence(ctx, q, d)
		if err != nil || before != nil {
			out = before
			return err
		}
		now, err := end(ctx, q, d.Node)
		if err != nil {
			return err
		}
		if now.seq != last.seq || now.digest != last.digest {
			out = nil
			return nil
		}
		out = &issued
		return insert(ctx, tx, issued, d.EvidenceSeq, signed.Bytes())
	})
	if err != nil {
		return nil, err
	}
	if out == &issued {
		s.logger.InfoContext(ctx, "certificate issued", "certificate_id", issued.ID, "node_id", issued.Node, "kind",
			issued.Kind, "seq", issued.Seq)
	}
	return out, nil
}

func issuedAs(d Draft, signed *certificate.Signed) (Issued, error) {
	doc := signed.Document
	certificateID, err := id.Parse[id.Certificate](doc.ID)
	if err != nil {
		return Issued{}, fmt.Errorf("read id of certificate: %w", err)
	}
	return Issued{
		ID: certificateID, Node: d.Node, Seq: doc.Seq, Kind: doc.Kind, Decommission: d.Decommission,
		Hostname: doc.Node.Hostname,
		Mode:     doc.Operation.Mode, Digest: signed.Digest(), Previous: doc.Previous.Digest, KeyID: signed.Signature.KeyID,
		IssuedAt: doc.IssuedAt,
	}, nil
}

func insert(ctx context.Context, tx pgx.Tx, i Issued, evidence int64, file []byte) error {
	err := certificatedb.New(tx).Insert(ctx, certificatedb.InsertParams{
		ID: i.ID, NodeID: i.Node, Seq: int32(i.Seq), Kind: string(i.Kind), DecommissionID: i.Decommission, Document: file, //nolint:gosec // counts documents of a node
		Digest: i.Digest, PreviousDigest: i.Previous, KeyID: i.KeyID, IssuedAt: i.IssuedAt, EvidenceSeq: evidence,
	})
	if err != nil {
		return fmt.Errorf("insert certificate %s: %w", i.ID, err)
	}
	err = audit.Record(ctx, tx, audit.Entry{
		Action: "certificate.issue", TargetKind: "certificate", TargetID: i.ID.String(), Result: audit.Success,
		Reason: "evidence of " + i.Mode,
		Metadata: map[string]any{
			"node_id": i.Node, "decommission_id": i.Decommission, "kind": i.Kind, "seq": i.Seq,
			"digest": i.Digest, "key_id": i.KeyID,
		},
	})
	if err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.NodeCertificateIssued, AggregateKind: "node", AggregateID: i.Node.String(),
		Payload: eventwire.Certificate{
			CertificateID: i.ID.String(), NodeID: i.Node.String(), DecommissionID: i.Decommission.String(), Kind: string(i.Kind),
			Seq: i.Seq, Digest: i.Digest,
		},
	})
}
