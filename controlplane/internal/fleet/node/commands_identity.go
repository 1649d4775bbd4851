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

// RecordCertificate stores a certificate before it is handed out: the gateway
// refuses certificates that are not stored. askedWith is the serial of the
// certificate that it renews, or empty if a token was used. A renewed
// certificate is valid beside the old one, because the agent may not have
// received it yet. One that was obtained with a token replaces all others.
func (s *Service) RecordCertificate(ctx context.Context, node id.Node, cert Cert, askedWith string) error {
	return s.inChange(asAgent(ctx, node), func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		if err := c.mayHave(ctx, n, cert, askedWith); err != nil {
			return err
		}
		result, e := n.LastDeliveryResult, entry{
			kind: KindCertificateRenewed, cause: "the agent renewed its certificate",
			action: "node.renew_certificate",
		}
		if askedWith == "" {
			result = "enrolled"
			e = entry{
				kind: KindEnrolled, cause: "the agent was given a certificate", action: "node.enrol",
				tell: eventwire.NodeEnrolled,
			}
			if err := c.RevokeCertificates(ctx, nodedb.RevokeCertificatesParams{
				NodeID:        node,
				RevokedReason: "replaced by enrolment",
			}); err != nil {
				return fmt.Errorf("revoke older certificates: %w", err)
			}
		}
		err = c.InsertCertificate(ctx, nodedb.InsertCertificateParams{
			Serial: strings.ToLower(cert.Serial), NodeID: node, KeyFingerprint: cert.KeyFingerprint, NotAfter: cert.NotAfter,
		})
		if err != nil {
			return fmt.Errorf("insert certificate: %w", err)
		}
		row, err := c.SetCertificateEnd(ctx, nodedb.SetCertificateEndParams{
			ID: node, CertificateNotAfter: &cert.NotAfter,
			LastDeliveryResult: result,
		})
		if err != nil {
			return fmt.Errorf("note end of certificate: %w", err)
		}
		e.metadata = map[string]any{"serial": cert.Serial, "not_after": cert.NotAfter}
		return c.record(ctx, nodeFrom(row), e)
	})
}

// mayHave checks again now that the node is locked: somebody may have revoked
// the identity that asked, while the certificate was being made. A new identity
// that the node got meanwhile does not help the one that asked.
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

// RevokeIdentity revokes all certificates and tokens of a node and ends its
// sessions. It takes effect with the commit, because every call looks up the
// serial. The PKI is told afterwards; repeating the command tells it again.
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

// takeBack asks the PKI to revoke certificates. It counts a certificate that
// the PKI no longer knows as revoked, and goes on after a failure.
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

// Authorize admits the caller of the node-facing listener or says why not. The
// gateway asks it with every call; it costs one query if nothing is new.
func (s *Service) Authorize(ctx context.Context, p Presented) (Identity, error) {
	if p.Session == "" {
		return Identity{}, fault.New(fault.Invalid, "agent_session_missing",
			"an agent must name its session with every call").
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

// known finds the node that the presented certificate belongs to. It refuses a
// revoked certificate and a node that must not call.
func (s *Service) known(ctx context.Context, p Presented) (Identity, nodedb.PresentedRow, error) {
	asked := nodedb.PresentedParams{Serial: strings.ToLower(p.Serial), NodeID: p.Node}
	row, err := s.reads.Presented(ctx, asked)
	if errors.Is(err, pgx.ErrNoRows) {
		adopted, adoptErr := s.adoptLost(ctx, p)
		if adoptErr != nil {
			return Identity{}, row, adoptErr
		}
		if adopted {
			row, err = s.reads.Presented(ctx, asked)
		}
	}
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

// quietSeconds is how long the process that keeps a disputed identity must be
// silent before another one gets it: longer than a poll is held.
const quietSeconds = 120

// takeSession decides about a session that is not the present one. A new
// session displaces the present one, because agents restart. If a displaced
// session calls again, two processes are alive: the first keeps the identity
// and the later one is refused. Until that is settled, a new session has to
// wait until the present one is silent. Otherwise the refused process could get
// in by starting again.
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
		next := nodedb.SetSessionParams{
			NodeID: p.Node, SessionID: p.Session, PreviousSession: now.SessionID,
			RefusedSession: now.RefusedSession,
		}
		switch {
		case p.Session == now.SessionID:
			return nil
		case p.Session == now.RefusedSession, now.RefusedSession != "" && now.Heard:
			refusal = identityInUse("another process uses this identity and keeps it")
			return nil
		case p.Session == now.PreviousSession:
			next.PreviousSession, next.RefusedSession = "", now.SessionID
			if err := c.disputed(ctx, n, "session",
				"two agents use the identity of the node; the later one is refused"); err != nil {
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

// disputed holds a node that two machines or processes claim to be, and raises
// an alarm.
func (c change) disputed(ctx context.Context, n Node, what, cause string) error {
	held := []Node{n}
	if err := readHolds(ctx, c.Queries, held); err != nil {
		return err
	}
	if !held[0].holding(ForIdentity, "") {
		var err error
		if n, err = c.setHolds(ctx, held[0].with(Holding{Kind: ForIdentity, Reason: cause})); err != nil {
			return err
		}
	}
	return c.conflict(ctx, n, what, cause)
}

// conflict announces a conflict about an identity, at most once an hour,
// because the refused one goes on trying.
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
