package signer

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Keys holds the private halves.
type Keys interface {
	CreateSigningKey(ctx context.Context, name string) (public []byte, err error)
	Sign(ctx context.Context, name string, message []byte) (signature []byte, err error)
}

// Fleet knows how many nodes trust something outdated, and names some of them.
type Fleet interface {
	VerifiersBehind(ctx context.Context, version int64) (count int, sample []id.Node, err error)
	// BundleBehind counts the nodes, and those of them that do not verify the
	// listener with the bundle of this fingerprint.
	BundleBehind(ctx context.Context, fingerprint string) (nodes, behind int, sample []id.Node, err error)
}

// Distribute makes all nodes fetch what they shall trust, in the transaction
// that changed it. set is for old agents that believe it without a statement;
// the key makes sure that they are told once.
type Distribute func(ctx context.Context, tx pgx.Tx, set agentwire.VerifierSet, key string) error

// Signer is one version of the key that tasks are signed with.
type Signer struct {
	ID        string
	Status    Status
	KeyName   string
	PublicKey []byte
	// VerifierVersion is the first set of verifiers that the signer is part of.
	VerifierVersion int64
	Version         int64
	PublishedAt     time.Time
	EffectiveAt     *time.Time
	RetiresAt       *time.Time
	FinishedAt      *time.Time
}

// Waiting says what a signer waits for: nodes that do not accept it yet, or the
// end of another signer's grace period.
type Waiting struct {
	NodesBehind int
	Sample      []id.Node
	GraceOf     string
	GraceEnds   *time.Time
}

// Over reports whether there is nothing to wait for.
func (w Waiting) Over() bool { return w.NodesBehind == 0 && w.GraceOf == "" }

// Listed is a signer with what it waits for.
type Listed struct {
	Signer
	Waiting Waiting
}

// trio holds every signer that nodes accept: at most one of each status.
type trio struct{ staged, active, grace *Signer }

func trioOf(signers []Signer) trio {
	var t trio
	for i := range signers {
		switch s := &signers[i]; s.Status {
		case Staged:
			t.staged = s
		case Active:
			t.active = s
		case Grace:
			t.grace = s
		case Retired, Revoked:
		}
	}
	return t
}

// graceOver says whether the grace period has passed, or there is none.
func (t trio) graceOver(now time.Time) bool {
	return t.grace == nil || t.grace.RetiresAt != nil && !now.Before(*t.grace.RetiresAt)
}

var (
	errRotating = fault.New(fault.Conflict, "signer_rotation_running",
		"a rotation is under way: its new signer waits for nodes to accept it").
		WithRemedy("see what it waits for with: gpuaas signer list; force it with: gpuaas signer rotate --force")
	errNothingToRollBack = fault.New(fault.Conflict, "signer_no_rollback",
		"no signer is in its grace period: there is none to go back to").
		WithRemedy("replace the signer with: gpuaas signer rotate")
	errNoSuccessor = fault.New(fault.Conflict, "signer_no_successor",
		"this signer signs now, and no other one is accepted by all nodes").
		WithRemedy("rotate first and revoke it once it is in grace; if it must go at once, force it: nodes that know no " +
			"other signer than this one refuse tasks until they are recovered with a recovery token")
	errMissing = fault.New(fault.Unavailable, "signer_missing", "there is no active signer").
			WithRemedy("it is made when a process with role api or worker starts and reaches the secrets engine")
	errChanged = fault.New(fault.Unavailable, "signer_changed",
		"the signers were changed by somebody else in this moment").
		WithRemedy("repeat the request")
)

func errNotFound(signer string) error {
	return fault.New(fault.NotFound, "signer_not_found", "there is no signer %s", signer).
		WithRemedy("list them with: gpuaas signer list")
}
