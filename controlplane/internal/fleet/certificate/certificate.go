package certificate

import (
	"context"
	"errors"
	"strings"
	"time"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// KeyName is the name of the signing key in the secrets engine, and its id in
// signed documents. The key behind a name never changes: a new key gets a new
// name.
const KeyName = "gpuaas-certificates-1"

// Engine holds the private half of the key.
type Engine interface {
	CreateSigningKey(ctx context.Context, name string) (public []byte, err error)
	Sign(ctx context.Context, name string, message []byte) (signature []byte, err error)
}

// Draft is what a document shall state about an operation. The body holds
// everything except what Issue adds: format, kind, ids, number, predecessor,
// issuer and time.
type Draft struct {
	Kind         certificate.Kind
	Decommission id.Decommission
	Node         id.Node
	EvidenceSeq  int64 // number of the newest evidence in the body
	Body         certificate.Document
}

// Issued is a document as the database records it.
type Issued struct {
	ID           id.Certificate
	Node         id.Node
	Seq          int
	Kind         certificate.Kind
	Decommission id.Decommission
	Hostname     string
	Mode         string
	Outcome      string // clean, or with_gaps: it names downgrades or overrides
	Digest       string
	Previous     string // digest of the document before it; empty: it is the first
	KeyID        string
	IssuedAt     time.Time
}

// link is the last document in the chain of a node.
type link struct {
	seq      int
	digest   string
	issuedAt time.Time
}

// completed adds to a draft what issuing adds. Times within a chain always
// increase, whatever the clocks of replicas say.
func (d Draft) completed(certificateID id.Certificate, issuer string, last link, now time.Time) certificate.Document {
	b := d.Body
	b.Format, b.Kind, b.ID, b.Issuer = certificate.Format, d.Kind, certificateID.String(), issuer
	b.Node.ID, b.Operation.DecommissionID = d.Node.String(), d.Decommission.String()
	b.Seq, b.Previous = last.seq+1, certificate.Previous{Seq: last.seq, Digest: last.digest}
	b.IssuedAt = now.UTC().Truncate(time.Millisecond)
	if !b.IssuedAt.After(last.issuedAt) {
		b.IssuedAt = last.issuedAt.UTC().Add(time.Millisecond)
	}
	b.NotCovered = append([]certificate.Gap{}, b.NotCovered...)
	b.NoteShortfalls()
	return b
}

// CodeUnfounded is the code of a draft that claims something without evidence.
const CodeUnfounded = "certificate_unfounded"

// unfounded refuses a draft that claims something without evidence.
func unfounded(err error, d Draft) error {
	var bad certificate.FieldErrors
	if !errors.As(err, &bad) {
		return err
	}
	fields := make([]fault.Field, len(bad))
	for i, b := range bad {
		fields[i] = fault.Field{Path: strings.ReplaceAll(strings.TrimPrefix(b.Path, "/"), "/", "."), Message: b.Problem}
	}
	return fault.New(fault.Conflict, CodeUnfounded, "nothing can be issued about decommission %s: %s", d.Decommission,
		bad[0]).
		WithRemedy("look at the evidence of the operation; repeat the stage that should have brought it").WithFields(
		fields...)
}

func notFound(certificateID id.Certificate) error {
	return fault.New(fault.NotFound, "certificate_not_found", "there is no certificate or handover receipt %s",
		certificateID).
		WithRemedy("list them with: gpuaas certificate list")
}
