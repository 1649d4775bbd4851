package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

func (s *Service) newToken(purpose Purpose, ttl time.Duration) Token {
	return Token{Plain: mint(), Purpose: purpose, ExpiresAt: s.now().Add(ttl).UTC().Truncate(time.Microsecond)}
}

// IssueToken makes a token for a node. Older unused tokens of the same purpose
// stop working. A ttl of 0 means the default.
func (s *Service) IssueToken(ctx context.Context, node id.Node, purpose Purpose, ttl time.Duration) (
	redact.Secret, time.Time, error,
) {
	if ttl == 0 {
		ttl = s.settings.BootstrapTTL
	}
	if ttl < MinTokenTTL || ttl > MaxTokenTTL {
		return redact.Secret{}, time.Time{}, badTTL(ttl)
	}
	token := s.newToken(purpose, ttl)
	err := s.issueToken(ctx, node, token)
	return token.Plain, token.ExpiresAt, err
}

func (s *Service) issueToken(ctx context.Context, node id.Node, token Token) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		if !n.Status.takesToken(token.Purpose) {
			return tokenUseless(n.Status, token.Purpose)
		}
		_, err = c.issue(ctx, n, token)
		return err
	})
}

// issue stores a token for a node that is locked or new.
func (c change) issue(ctx context.Context, n Node, token Token) (Node, error) {
	if err := c.RevokeUnusedTokens(ctx, nodedb.RevokeUnusedTokensParams{
		NodeID:  n.ID,
		Purpose: string(token.Purpose),
	}); err != nil {
		return Node{}, fmt.Errorf("revoke older tokens: %w", err)
	}
	err := c.InsertToken(ctx, nodedb.InsertTokenParams{
		TokenHash: digest(token.Plain), NodeID: n.ID, Purpose: string(token.Purpose), ExpiresAt: token.ExpiresAt,
		CreatedBy: auth.From(ctx).ID,
	})
	if err != nil {
		return Node{}, fmt.Errorf("insert token: %w", err)
	}
	row, err := c.SetDelivery(ctx, nodedb.SetDeliveryParams{
		ID: n.ID, LastDeliveryResult: "issued", LastDeliveryCorrelationID: telemetry.Correlation(ctx),
	})
	if err != nil {
		return Node{}, fmt.Errorf("note delivery of agent: %w", err)
	}
	n = nodeFrom(row)
	return n, c.audit(ctx, n, entry{
		action: "node.issue_token", metadata: map[string]any{"purpose": token.Purpose, "expires_at": token.ExpiresAt},
	})
}

// NoteDelivery writes down at a node what became of a delivery of its agent.
func NoteDelivery(ctx context.Context, tx pgx.Tx, node id.Node, result string) error {
	if err := nodedb.New(tx).NoteDelivery(ctx, nodedb.NoteDeliveryParams{
		ID: node, LastDeliveryResult: result, LastDeliveryCorrelationID: telemetry.Correlation(ctx),
	}); err != nil {
		return fmt.Errorf("note delivery of agent: %w", err)
	}
	return nil
}

// TokenGrant says what a token allows without consuming it. The downloads
// before enrolment need that.
func (s *Service) TokenGrant(ctx context.Context, token redact.Secret) (Grant, error) {
	row, err := s.token(ctx, token)
	if err != nil {
		return Grant{}, err
	}
	t, status := row.NodeToken, Status(row.Status)
	g := Grant{Node: t.NodeID, Purpose: Purpose(t.Purpose), ExpiresAt: t.ExpiresAt}
	switch {
	case t.RevokedAt != nil, t.ConsumedAt != nil:
		return Grant{}, tokenInvalid()
	case !s.now().Before(t.ExpiresAt):
		return Grant{}, tokenExpired()
	case !status.takesToken(g.Purpose):
		return Grant{}, nodeFenced(status)
	}
	return g, nil
}

func (s *Service) token(ctx context.Context, token redact.Secret) (nodedb.TokenRow, error) {
	if !wellFormed(token) {
		return nodedb.TokenRow{}, tokenInvalid()
	}
	row, err := s.reads.Token(ctx, digest(token))
	if errors.Is(err, pgx.ErrNoRows) {
		return row, tokenInvalid()
	}
	if err != nil {
		return row, fmt.Errorf("read token: %w", err)
	}
	return row, nil
}

// enrolment is what a machine says when it enrols.
type enrolment struct {
	token                   redact.Secret
	key, instance, hostname string
	build                   agentwire.Build
	inspection              inspection
	hardware                *agentwire.Hardware
	from                    string // source address
}

// BeginEnrolment consumes a token for a key that was made on the node, and
// binds the node to the machine it runs on. The same key may repeat the call,
// so a lost answer does no harm. Another key, or another machine than the node
// is known to be, is refused and raises an alarm; while the node is still
// joining, it also voids the node's identity. If the node had an agent before,
// the new one takes over and earlier tasks are void.
func (s *Service) BeginEnrolment(
	ctx context.Context, token redact.Secret, keyFingerprint, instance, hostname string, build agentwire.Build,
	caps agentwire.Capabilities,
	hardware *agentwire.Hardware,
) (Node, error) {
	if keyFingerprint == "" || instance == "" {
		return Node{}, fault.New(fault.Invalid, "enrolment_incomplete",
			"an enrolment needs the fingerprint of a key and of a machine")
	}
	known, err := s.token(ctx, token)
	if err != nil {
		return Node{}, err
	}
	seen, err := inspectionOf(caps)
	if err != nil {
		return Node{}, err
	}
	if err := checkSaid(build, seen); err != nil {
		return Node{}, err
	}
	e := enrolment{
		token: token, key: keyFingerprint, instance: instance, hostname: hostname, build: build, inspection: seen,
		hardware: hardware, from: telemetry.ClientAddr(ctx),
	}
	ctx = asAgent(ctx, known.NodeToken.NodeID)
	var n Node
	var refusal error
	err = s.inChange(ctx, func(ctx context.Context, c change) (err error) {
		n, refusal, err = s.admit(ctx, c, known.NodeToken.NodeID, e)
		return err
	})
	if err != nil {
		return Node{}, err
	}
	if refusal != nil {
		if n.joining() {
			s.tookBack(ctx, n.ID)
		}
		return Node{}, refusal
	}
	return n, nil
}

// admit decides about an enrolment. A refusal is not an error: the transaction
// commits and keeps the record of it.
func (s *Service) admit(ctx context.Context, c change, node id.Node, e enrolment) (n Node, refusal, err error) {
	if n, err = c.lock(ctx, node); err != nil {
		return n, nil, err
	}
	t, err := c.LockToken(ctx, digest(e.token))
	if err != nil {
		return n, nil, fmt.Errorf("lock token: %w", err)
	}
	if refusal = s.refuseEnrolment(n, t, e.key); refusal != nil {
		return n, refusal, s.noteForeignKey(ctx, c, n, t, e.key)
	}
	m, err := machineFrom(c.Hardware(ctx, node))
	if err != nil {
		return n, nil, err
	}
	refusal, why := m.refuses(e.hardware, e.from)
	if refusal != nil && why == "" {
		return n, refusal, nil // the machine may try again later
	}
	if refusal != nil {
		return n, refusal, s.refuseMachine(ctx, c, n, claim{token: t, said: e.hardware, from: e.from}, why)
	}
	if t.ConsumedAt == nil {
		if n, err = c.enrol(ctx, n, m, e); err == nil {
			err = c.openBaseline(ctx, n, Purpose(t.Purpose))
		}
		if err == nil {
			err = c.openHostKeys(ctx, n, Purpose(t.Purpose))
		}
	}
	return n, nil, err
}

func (s *Service) refuseEnrolment(n Node, t nodedb.NodeToken, key string) error {
	switch {
	case t.RevokedAt != nil, t.ConsumedAt != nil && t.ConsumedByKey != key:
		return tokenInvalid()
	case !s.now().Before(t.ExpiresAt):
		return tokenExpired()
	case !n.Status.takesToken(Purpose(t.Purpose)):
		return nodeFenced(n.Status)
	}
	return nil
}

// noteForeignKey raises an alarm when a consumed token is presented with
// another key: it was stolen, or somebody pasted it into two machines. Nobody
// can tell which machine is the node. If the node is still joining, its
// identity is voided; if it is in the fleet, it is held while the token is
// within its life.
func (s *Service) noteForeignKey(ctx context.Context, c change, n Node, t nodedb.NodeToken, key string) error {
	if t.ConsumedAt == nil || t.ConsumedByKey == key {
		return nil
	}
	const cause = "a token that was used already was presented with another key"
	what := "token:" + shortened(key)
	switch {
	case t.RevokedAt != nil:
	case n.joining():
		return s.void(ctx, c, n, what, cause)
	case s.now().Before(t.ExpiresAt) && !n.Status.fenced():
		return c.disputed(ctx, n, what, cause)
	}
	return c.conflict(ctx, n, what, cause)
}

func (c change) enrol(ctx context.Context, n Node, m Machine, e enrolment) (Node, error) {
	if err := c.ConsumeToken(ctx, nodedb.ConsumeTokenParams{
		TokenHash:     digest(e.token),
		ConsumedByKey: e.key,
	}); err != nil {
		return Node{}, fmt.Errorf("consume token: %w", err)
	}
	generation, cause := n.Generation, fmt.Sprintf("a machine that calls itself %.63q began to enrol", e.hostname)
	if n.AgentInstance != "" {
		generation++
		cause = fmt.Sprintf("a machine that calls itself %.63q began to take the identity over", e.hostname)
	}
	if m.strange(n, e.from) {
		cause += fmt.Sprintf(", from %s, which is not an address that it is known by", e.from)
	}
	if err := c.learn(ctx, n.ID, m, e.hardware, FromEnrolment); err != nil {
		return Node{}, err
	}
	if err := c.EnrolledFrom(ctx, nodedb.EnrolledFromParams{NodeID: n.ID, EnrolledFrom: e.from}); err != nil {
		return Node{}, fmt.Errorf("note where node enrolled from: %w", err)
	}
	if err := c.ForgetSessions(ctx, n.ID); err != nil {
		return Node{}, fmt.Errorf("forget sessions: %w", err)
	}
	row, err := c.BindAgent(ctx, nodedb.BindAgentParams{
		ID: n.ID, AgentInstance: e.instance, Generation: generation, ReportedAgentVersion: e.build.Version,
		ReportedAgentCommit: e.build.Commit, Capabilities: e.inspection.facts, HardwareSaid: e.hardware != nil,
	})
	if err != nil {
		return Node{}, fmt.Errorf("bind node to machine: %w", err)
	}
	bound, err := c.inspected(ctx, nodeFrom(row), e.inspection)
	if err != nil {
		return Node{}, err
	}
	if bound.Status == BootstrapIssued {
		return c.move(ctx, bound, StartEnrolment, cause)
	}
	return bound, c.record(ctx, bound, entry{
		kind: KindUpdated, cause: cause, action: "node.begin_enrolment", tell: eventwire.NodeUpdated,
		metadata: map[string]any{"generation": generation},
	})
}

// asAgent makes the agent of a node the actor of what follows.
func asAgent(ctx context.Context, node id.Node) context.Context {
	return auth.With(ctx, auth.Node(node))
}

func shortened(fingerprint string) string { return fingerprint[:min(len(fingerprint), 16)] }
