package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// RecordCertificate notes a certificate before it is handed out: one that was
// not noted is refused. askedWith is the serial of the certificate that it
// renews; empty: it was got by a token. A renewed one lives beside the one
// before it, because the agent may not have it yet; one that was got by a token
// replaces all.
func (s *Service) RecordCertificate(ctx context.Context, node id.Node, cert Cert, askedWith string) error {
	return s.inChange(asAgent(ctx, node), func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		if err := c.mayHave(ctx, n, cert, askedWith); err != nil {
			return err
		}
		result, e := n.LastDeliveryResult, entry{kind: KindCertificateRenewed, cause: "the agent renewed its certificate", action: "node.renew_certificate"}
		if askedWith == "" {
			result = "enrolled"
			e = entry{kind: KindEnrolled, cause: "the agent was given a certificate", action: "node.enrol", tell: eventwire.NodeEnrolled}
			if err := c.RevokeCertificates(ctx, nodedb.RevokeCertificatesParams{NodeID: node, RevokedReason: "replaced by enrolment"}); err != nil {
				return fmt.Errorf("revoke older certificates: %w", err)
			}
		}
		err = c.InsertCertificate(ctx, nodedb.InsertCertificateParams{
			Serial: strings.ToLower(cert.Serial), NodeID: node, KeyFingerprint: cert.KeyFingerprint, NotAfter: cert.NotAfter,
		})
		if err != nil {
			return fmt.Errorf("insert certificate: %w", err)
		}
		row, err := c.SetCertificateEnd(ctx, nodedb.SetCertificateEndParams{ID: node, CertificateNotAfter: &cert.NotAfter, LastDeliveryResult: result})
		if err != nil {
			return fmt.Errorf("note end of certificate: %w", err)
		}
		e.metadata = map[string]any{"serial": cert.Serial, "not_after": cert.NotAfter}
		return c.record(ctx, nodeFrom(row), e)
	})
}

// mayHave looks again, now that the node is locked: while the certificate was
// being made, somebody may have revoked the identity that it was asked with. That
// the node has got another one since does not help whoever asked.
func (c change) mayHave(ctx context.Context, n Node, cert Cert, askedWith string) error {
	if n.Status.fenced() || n.Status == BootstrapIssued {
		return nodeFenced(n.Status)
	}
	if askedWith != "" {
		lives, err := c.CertificateLives(ctx, nodedb.CertificateLivesParams{Serial: strings.ToLower(askedWith), NodeID: n.ID})
		if err != nil {
			return fmt.Errorf("read certificate: %w", err)
		}
		if !lives {
			return certificateRevoked()
		}
		return nil
	}
	good, err := c.TokenOfKey(ctx, nodedb.TokenOfKeyParams{NodeID: n.ID, ConsumedByKey: cert.KeyFingerprint})
	if err != nil {
		return fmt.Errorf("read token of key: %w", err)
	}
	if !good {
		return tokenInvalid()
	}
	return nil
}

// RevokeIdentity takes all certificates and tokens of a node back. It holds
// from its commit on, because serials are looked up with every call, and with it
// end the sessions that the node holds; the PKI is told afterwards, and told
// again when the command is repeated.
func (s *Service) RevokeIdentity(ctx context.Context, node id.Node, reason string) error {
	var serials []string
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		if _, err := c.lock(ctx, node); err != nil {
			return err
		}
		after, err := c.disown(ctx, node, reason)
		if err != nil {
			return err
		}
		if err := s.onRevoked(ctx, c.tx, node); err != nil {
			return fmt.Errorf("end what node %s holds: %w", node, err)
		}
		if serials, err = c.RevokedSerials(ctx, node); err != nil {
			return fmt.Errorf("list revoked certificates: %w", err)
		}
		return c.record(ctx, after, entry{
			kind: KindCertificateRevoked, cause: reason, action: "node.revoke_identity", tell: eventwire.NodeIdentityRevoked,
			metadata: map[string]any{"serials": serials},
		})
	})
	if err != nil {
		return err
	}
	return s.takeBack(ctx, serials)
}

// takeBack tells the PKI of revoked certificates. One that it does not know any
// more needs no taking back, and one that fails does not spare the others.
func (s *Service) takeBack(ctx context.Context, serials []string) error {
	var left []string
	var failures []error
	for _, serial := range serials {
		if err := s.pki.RevokeCertificate(ctx, serial); err != nil && fault.KindOf(err) != fault.NotFound {
			left, failures = append(left, serial), append(failures, err)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fault.Wrap(errors.Join(failures...), fault.Unavailable, "node_revocation_incomplete",
		"the identity is refused from now on, but the secrets engine has not taken %d of %d certificates back: %s",
		len(left), len(serials), strings.Join(left, ", ")).
		WithRemedy("repeat the command when the secrets engine answers")
}

func (c change) disown(ctx context.Context, node id.Node, reason string) (Node, error) {
	if err := c.RevokeCertificates(ctx, nodedb.RevokeCertificatesParams{NodeID: node, RevokedReason: reason}); err != nil {
		return Node{}, fmt.Errorf("revoke certificates: %w", err)
	}
	if err := c.RevokeTokens(ctx, node); err != nil {
		return Node{}, fmt.Errorf("revoke tokens: %w", err)
	}
	row, err := c.SetCertificateEnd(ctx, nodedb.SetCertificateEndParams{ID: node, LastDeliveryResult: "revoked"})
	if err != nil {
		return Node{}, fmt.Errorf("note end of certificate: %w", err)
	}
	return nodeFrom(row), nil
}

// Authorize lets the caller of the node-facing listener in or says why not.
// It is asked with every call, and costs one query when nothing is new.
func (s *Service) Authorize(ctx context.Context, p Presented) (Identity, error) {
	if p.Session == "" {
		return Identity{}, fault.New(fault.Invalid, "agent_session_missing", "an agent must name its session with every call").
			WithRemedy("install a newer agent")
	}
	who, row, err := s.known(ctx, p)
	if err != nil {
		return Identity{}, err
	}
	switch {
	case row.AgentInstance != p.Instance:
		return Identity{}, s.refuseInstance(ctx, p)
	case row.SessionID == p.Session:
		return who, nil
	}
	if err := s.takeSession(asAgent(ctx, p.Node), p); err != nil {
		return Identity{}, err
	}
	return who, nil
}

// known finds whose certificate was presented, and refuses one that is revoked
// or belongs to a node that must not call.
func (s *Service) known(ctx context.Context, p Presented) (Identity, nodedb.PresentedRow, error) {
	row, err := s.reads.Presented(ctx, nodedb.PresentedParams{Serial: strings.ToLower(p.Serial), NodeID: p.Node})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Revoked {
		return Identity{}, row, certificateRevoked()
	}
	if err != nil {
		return Identity{}, row, fmt.Errorf("read identity of node: %w", err)
	}
	who := Identity{
		Node: p.Node, Status: Status(row.Status), Generation: row.Generation,
		OnboardingMode: Mode(row.OnboardingMode), VerifierVersion: row.VerifierVersion, Polled: row.Polled,
		TrustBundle: row.TrustBundle, TrustRefused: row.TrustRefused,
	}
	if who.Status.fenced() {
		return Identity{}, row, nodeFenced(who.Status)
	}
	return who, row, nil
}

func (s *Service) refuseInstance(ctx context.Context, p Presented) error {
	err := s.inChange(asAgent(ctx, p.Node), func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, p.Node)
		if err != nil {
			return err
		}
		return c.conflict(ctx, n, "instance:"+shortened(p.Instance), "another machine uses the certificate of the node")
	})
	if err != nil {
		return err
	}
	return identityInUse("another machine has this identity: this one did not enrol as the node")
}

// quietSeconds is how long the process that keeps a disputed identity must be silent
// before another gets it: longer than a poll is held.
const quietSeconds = 120

// takeSession decides about a session that is not the present one. A new one
// displaces it: the agent was started again. When the displaced one comes
// back, two are alive: the first keeps the identity, the later is refused.
// While that is not settled, a new one has to wait until the present one is
// silent, or else the refused one would get in by starting again.
func (s *Service) takeSession(ctx context.Context, p Presented) error {
	var refusal error
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		refusal = nil
		n, err := c.lock(ctx, p.Node)
		if err != nil {
			return err
		}
		if err := c.InsertContact(ctx, p.Node); err != nil {
			return fmt.Errorf("insert contact: %w", err)
		}
		now, err := c.LockContact(ctx, nodedb.LockContactParams{NodeID: p.Node, QuietSeconds: quietSeconds})
		if err != nil {
			return fmt.Errorf("lock contact: %w", err)
		}
		next := nodedb.SetSessionParams{NodeID: p.Node, SessionID: p.Session, PreviousSession: now.SessionID, RefusedSession: now.RefusedSession}
		switch {
		case p.Session == now.SessionID:
			return nil
		case p.Session == now.RefusedSession, now.RefusedSession != "" && now.Heard:
			refusal = identityInUse("another process uses this identity and keeps it")
			return nil
		case p.Session == now.PreviousSession:
			next.PreviousSession, next.RefusedSession = "", now.SessionID
			if err := c.disputed(ctx, n, "session", "two agents use the identity of the node; the later one is refused"); err != nil {
				return err
			}
		}
		if err := c.SetSession(ctx, next); err != nil {
			return fmt.Errorf("note session: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return refusal
}

// disputed holds a node that two claim to be, and tells somebody.
func (c change) disputed(ctx context.Context, n Node, what, cause string) error {
	if n.HoldReason == "" {
		n.HoldReason = cause
		var err error
		if n, err = c.setHolds(ctx, n); err != nil {
			return err
		}
	}
	return c.conflict(ctx, n, what, cause)
}

// conflict tells of a conflict about an identity, once an hour at most: the
// one who is refused goes on trying.
func (c change) conflict(ctx context.Context, n Node, what, cause string) error {
	told, err := c.RecentConflict(ctx, nodedb.RecentConflictParams{NodeID: n.ID, Event: what})
	if err != nil {
		return fmt.Errorf("read history of node: %w", err)
	}
	if told {
		return nil
	}
	return c.record(ctx, n, entry{
		kind: KindIdentityConflict, event: what, cause: cause, action: "node.identity_conflict", result: audit.Denied,
		tell: eventwire.NodeIdentityConflict,
	})
}
