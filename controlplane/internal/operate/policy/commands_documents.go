package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/operate/policy/internal/policydb"
	"gpuaas/controlplane/internal/operate/policy/internal/rego"
)

// compiled keeps the document that was asked last, ready to be asked again.
type compiled struct {
	mu     sync.Mutex
	digest string
	policy *rego.Policy
}

// AddDocument keeps a document as the next version. It counts for nothing until it is
// activated. One that is the same as the newest is not kept again.
func (s *Service) AddDocument(ctx context.Context, d Document) (DocumentVersion, error) {
	for i, e := range d.Examples {
		d.Examples[i] = e.complete()
	}
	if _, err := d.compile(); err != nil {
		return DocumentVersion{}, err
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return DocumentVersion{}, fmt.Errorf("encode policy document: %w", err)
	}
	var made DocumentVersion
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := policydb.New(tx)
		if err := q.LockDocuments(ctx); err != nil {
			return fmt.Errorf("lock policy documents: %w", err)
		}
		newest, err := q.NewestDocument(ctx)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("read newest policy document: %w", err)
		}
		if err == nil && newest.Digest == digestOf(raw) {
			made, err = document(ctx, tx, newest.Version)
			return err
		}
		row, err := q.InsertDocument(ctx, policydb.InsertDocumentParams{
			Version: newest.Version + 1, Title: d.Title, Document: string(raw), Digest: digestOf(raw),
			CreatedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("insert policy document: %w", err)
		}
		if made, err = documentFrom(row); err != nil {
			return err
		}
		return recordDocument(ctx, tx, "operation_policy_document.add", made.Name(), made.Digest, "")
	})
	return made, err
}

// Try asks a document about its examples, and keeps nothing.
func (s *Service) Try(ctx context.Context, d Document) ([]Trial, error) {
	for i, e := range d.Examples {
		d.Examples[i] = e.complete()
	}
	p, err := d.compile()
	if err != nil {
		return nil, err
	}
	return d.try(ctx, p, s.evaluationTime)
}

// ActivateDocument has a version count from now on, if it passes its examples.
func (s *Service) ActivateDocument(ctx context.Context, name, reason string) (DocumentVersion, error) {
	v, err := s.Document(ctx, name)
	if err != nil {
		return v, err
	}
	trials, err := s.Try(ctx, v.Document)
	if err != nil {
		return v, err
	}
	if err := failed(v, trials); err != nil {
		return v, err
	}
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.activate(ctx, tx, &v.Number, reason); err != nil {
			return err
		}
		if v, err = document(ctx, tx, v.Number); err != nil {
			return err
		}
		return recordDocument(ctx, tx, "operation_policy_document.activate", v.Name(), v.Digest, reason)
	})
	return v, err
}

// failed refuses a document that says something else of an example than it must.
func failed(v DocumentVersion, trials []Trial) error {
	var fields []fault.Field
	for _, t := range trials {
		if !t.Passed {
			fields = append(fields, fault.Field{Path: "examples." + t.Name, Message: t.Message})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "operation_policy_examples_failed",
		"policy document %s is not activated: %d of its %d examples fail: %s: %s", v.Name(), len(fields), len(trials),
		strings.TrimPrefix(fields[0].Path, "examples."), fields[0].Message).WithFields(fields...).
		WithRemedy("fix the policy or the example, and apply the document again: it becomes the next version")
}

// DeactivateDocument has no document count any more.
func (s *Service) DeactivateDocument(ctx context.Context, reason string) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := policydb.New(tx).LockDocuments(ctx); err != nil {
			return fmt.Errorf("lock policy documents: %w", err)
		}
		now, err := active(ctx, tx)
		if err != nil {
			return err
		}
		if now == nil {
			return fault.New(fault.Conflict, "operation_policy_document_inactive", "no policy document is active").
				WithRemedy("see which there are: gpuaas operation policy document list")
		}
		if err := s.activate(ctx, tx, nil, reason); err != nil {
			return err
		}
		return recordDocument(ctx, tx, "operation_policy_document.deactivate", documentName(now.Version), now.Digest, reason)
	})
}

func (s *Service) activate(ctx context.Context, tx pgx.Tx, number *int64, reason string) error {
	q := policydb.New(tx)
	if err := q.LockDocuments(ctx); err != nil {
		return fmt.Errorf("lock policy documents: %w", err)
	}
	if err := q.InsertActivation(ctx, policydb.InsertActivationParams{
		Version: number, Reason: reason, CreatedBy: auth.From(ctx).ID,
	}); err != nil {
		return fmt.Errorf("note which policy document counts: %w", err)
	}
	return nil
}

func recordDocument(ctx context.Context, tx pgx.Tx, action, name, digest, reason string) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "operation_policy_document", TargetID: name, Result: audit.Success, Reason: reason,
		Metadata: map[string]any{"digest": digest},
	})
}

// Decide implements Decider: it asks the document that counts, as the transaction sees
// it. Every replica therefore asks the same one.
func (s *Service) Decide(ctx context.Context, tx pgx.Tx, r Request, e Effective) (Verdict, error) {
	now, err := active(ctx, tx)
	if err != nil || now == nil {
		return Verdict{}, err
	}
	p, err := s.ready(ctx, tx, *now)
	if err != nil {
		return Verdict{}, err
	}
	v, err := decide(ctx, p, r, e, s.evaluationTime)
	v.Document, v.Digest = documentName(now.Version), now.Digest
	count(ctx, v, err)
	return v, err
}

// ready gives the document that counts, compiled.
func (s *Service) ready(ctx context.Context, tx pgx.Tx, of Activation) (*rego.Policy, error) {
	s.last.mu.Lock()
	defer s.last.mu.Unlock()
	if s.last.digest == of.Digest {
		return s.last.policy, nil
	}
	v, err := document(ctx, tx, of.Version)
	if err != nil {
		return nil, err
	}
	p, err := v.compile()
	if err != nil {
		return nil, err
	}
	s.last.digest, s.last.policy = of.Digest, p
	return p, nil
}
