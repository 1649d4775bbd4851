package terminal

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
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/terminal/internal/terminaldb"
)

const aggregate = "terminal_session"

// Mint issues the token of a session that is yet to be opened. admit may refuse it in
// the same transaction; nil: nobody does.
func (s *Service) Mint(ctx context.Context, w Wish, admit postgres.TxFunc) (Session, redact.Secret, error) {
	if err := s.settings.check(w); err != nil {
		return Session{}, redact.Secret{}, err
	}
	token, now, who := newToken(), s.clock(), auth.From(ctx)
	var made Session
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if admit != nil {
			if err := admit(ctx, tx); err != nil {
				return err
			}
		}
		n, err := node.Get(ctx, tx, w.Node)
		if err != nil {
			return err
		}
		if err := reachable(n); err != nil {
			return err
		}
		if err := n.Unheld(); err != nil { // an operation cleans the node or puts it aside
			return err
		}
		q := terminaldb.New(tx)
		if err := s.ration(ctx, q, who.ID, now); err != nil {
			return err
		}
		row, err := q.Insert(ctx, terminaldb.InsertParams{
			ID: id.New[id.TerminalSession](), NodeID: w.Node, Username: w.Username, TokenHash: digest(token),
			TokenExpiresAt: now.Add(s.settings.TokenLife), RequestedBy: who.ID, RequesterKind: string(who.Kind),
			RequesterName: who.Name,
			WindowColumns: int32(w.Columns), WindowRows: int32(w.Rows), //nolint:gosec // at most 1000, checked above
			CorrelationID: telemetry.Correlation(ctx), CreatedAt: now, RequesterToken: who.Token,
			OrgID: w.Tenant.Org, ProjectID: w.Tenant.Project, AllocationID: w.Allocation,
		})
		if err != nil {
			return fmt.Errorf("insert terminal session: %w", err)
		}
		made = fromRow(row)
		return record(ctx, tx, "terminal_session.issue_token", made, audit.Success, "")
	})
	return made, token, err
}

// reachable refuses nodes whose agent would not come for the session.
func reachable(n node.Node) error {
	switch n.Status { //nolint:exhaustive // elsewhere its agent does not listen, or opens nothing
	case node.Active, node.Quarantined:
		return nil
	case node.Offline:
		return fault.New(fault.Conflict, "node_offline", "the agent of node %s does not answer", n.Hostname).
			WithRemedy("wait until the node is active, or see why it is offline: gpuaas node show %s", n.Hostname)
	}
	return fault.New(fault.Conflict, "node_not_in_service", "node %s is %s: it opens no sessions", n.Hostname, n.Status).
		WithRemedy("sessions are for nodes that are active or quarantined")
}

// ration limits how often a caller may ask for tokens.
func (s *Service) ration(ctx context.Context, q *terminaldb.Queries, who string, now time.Time) error {
	if err := q.LockMinter(ctx, who); err != nil {
		return fmt.Errorf("count terminal tokens of %s: %w", who, err)
	}
	n, err := q.CountMinted(ctx, terminaldb.CountMintedParams{RequestedBy: who, Since: now.Add(-time.Minute)})
	if err != nil {
		return fmt.Errorf("count terminal tokens of %s: %w", who, err)
	}
	if n >= int64(s.settings.MintsPerMinute) {
		return fault.New(fault.RateLimited, "rate_limit_exceeded", "more than %d terminal tokens in a minute",
			s.settings.MintsPerMinute).
			WithRemedy("wait a minute; a session that is open needs no new token")
	}
	return nil
}

// Close ends a session on request, at once. The replica that holds it releases
// both ends, at the latest with its next beat. The agent is told as well, but
// its node need not be there.
func (s *Service) Close(ctx context.Context, session id.TerminalSession, reason string) (Session, error) {
	var now Session
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if now, err = lock(ctx, tx, session); err != nil {
			return err
		}
		if state, _ := Lifecycle.State(now.Status); state.Terminal {
			return nil
		}
		if err := record(ctx, tx, "terminal_session.close_on_request", now, audit.Success, reason); err != nil {
			return err
		}
		if now.Status != Issued {
			s.tellAgent(ctx, tx, now, reason)
		}
		now, err = s.revoke(ctx, tx, now)
		return err
	})
	if h := s.heldHere(session); err == nil && h != nil {
		h.end(ending{reason: now.CloseReason}) // other replicas find out with their next beat
	}
	return now, err
}

// tellAgent asks the node to end its side of a session. If the node cannot be
// asked, the session ends all the same.
func (s *Service) tellAgent(ctx context.Context, tx pgx.Tx, session Session, reason string) {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := s.tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: session.Node, Type: agentwire.TypeTerminalClose,
			Params:         agentwire.TerminalCloseParams{SessionID: session.ID.String()},
			IdempotencyKey: "terminal-close-" + session.ID.String(), Reason: reason,
		})
		return err
	})
	if err != nil {
		s.logger.WarnContext(ctx, "the node was not told to end a terminal session", "session", session.ID, "node",
			session.Node, "error", err)
	}
}

// EndAll ends all sessions of a node within the caller's transaction. Replicas
// that hold some release them with their next beat.
func (s *Service) EndAll(ctx context.Context, tx pgx.Tx, node id.Node) error {
	of := node.String()
	// In the order of the lifecycle: a session that moves meanwhile is met
	// later.
	for _, status := range []Status{Issued, Opening, Open} {
		in := string(status)
		for {
			rows, err := terminaldb.New(tx).List(ctx, terminaldb.ListParams{Node: &of, Status: &in, PageSize: sweepBatch})
			if err != nil {
				return fmt.Errorf("list terminal sessions of node %s: %w", node, err)
			}
			for _, row := range rows {
				now, err := lock(ctx, tx, row.ID)
				if err != nil {
					return err
				}
				if _, err := s.revoke(ctx, tx, now); err != nil {
					return err
				}
			}
			if len(rows) < sweepBatch {
				break
			}
		}
	}
	return nil
}

// revoke ends a session that is locked, unless it has ended.
func (s *Service) revoke(ctx context.Context, tx pgx.Tx, now Session) (Session, error) {
	switch state, _ := Lifecycle.State(now.Status); {
	case state.Terminal:
		return now, nil
	case now.Status == Issued:
		return s.finish(ctx, tx, now, Revoke, reasonRevoked, 0, 0)
	}
	in, out := now.BytesIn, now.BytesOut
	if h := s.heldHere(now.ID); h != nil {
		in, out = h.in.Load(), h.out.Load()
	}
	return s.finish(ctx, tx, now, End, agentwire.ClosedOnRequest, in, out)
}

// heldHere returns a session that this replica holds. It returns nil if it does
// not hold it.
func (s *Service) heldHere(session id.TerminalSession) *held {
	for _, h := range s.broker.standing() {
		if h.ID == session {
			return h
		}
	}
	return nil
}

// presented returns the session that a token would open. It refuses a session
// that was requested without an API token, because nothing could be rechecked.
func (s *Service) presented(ctx context.Context, session id.TerminalSession, token redact.Secret) (Session, error) {
	row, err := terminaldb.New(s.db).Presented(ctx,
		terminaldb.PresentedParams{ID: session, TokenHash: digest(token), Now: s.clock()})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.RequesterToken.IsZero() {
		return Session{}, errToken
	}
	if err != nil {
		return Session{}, fmt.Errorf("read terminal session %s: %w", session, err)
	}
	return fromRow(row), nil
}

// use consumes the token of a session and asks the node for its end. It calls
// held with the session before it commits, because the node may be quick.
func (s *Service) use(ctx context.Context, session id.TerminalSession, token redact.Secret, held func(Session)) (
	Session, id.NodeTask, error,
) {
	var now Session
	var task id.NodeTask
	status, err := Lifecycle.Next(Issued, Use)
	if err != nil {
		return now, task, err
	}
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := terminaldb.New(tx).Use(ctx, terminaldb.UseParams{
			Now: s.clock(), Status: string(status), Gateway: s.name, ID: session, TokenHash: digest(token),
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return errToken
		}
		if err != nil {
			return fmt.Errorf("use token of terminal session %s: %w", session, err)
		}
		now = fromRow(row)
		held(now)
		ctx = as(ctx, now)
		if err := record(ctx, tx, "terminal_session.connect", now, audit.Success, ""); err != nil {
			return err
		}
		t, err := s.tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: now.Node, Type: agentwire.TypeTerminalOpen, IdempotencyKey: "terminal-open-" + session.String(),
			Params: s.settings.params(session, Wish{
				Node: now.Node, Username: now.Username, Columns: now.Columns,
				Rows: now.Rows,
			}),
			Reason: "terminal session " + session.String(), Owner: opening(session),
		})
		task = t.ID
		return err
	})
	return now, task, err
}

// opening is the row that owns the task terminal.open of a session.
type opening id.TerminalSession

// Owns refuses the task unless the session is being opened on this node.
func (o opening) Owns(ctx context.Context, tx pgx.Tx, node id.Node, typ string) error {
	now, err := lock(ctx, tx, id.TerminalSession(o))
	if err != nil {
		return err
	}
	if typ != agentwire.TypeTerminalOpen || now.Node != node || now.Status != Opening {
		return fault.New(fault.Conflict, "terminal_session_not_opening",
			"session %s is not being opened on node %s: it is %s", now.ID, node, now.Status).
			WithRemedy("ask for another session with: gpuaas terminal NODE")
	}
	return nil
}

// as acts under the name of whoever asked for the session.
func as(ctx context.Context, session Session) context.Context {
	return auth.With(telemetry.WithCorrelation(ctx, session.Correlation), session.requester())
}

// refused audits an attempt on a session that exists.
func (s *Service) refused(ctx context.Context, session id.TerminalSession, action, why string) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now, err := lock(ctx, tx, session)
		if fault.KindOf(err) == fault.NotFound {
			return nil // the listener counts guesses; they are not stored
		}
		if err != nil {
			return err
		}
		return record(ctx, tx, action, now, audit.Denied, why)
	})
	if err != nil {
		s.logger.ErrorContext(ctx, "refused attempt could not be audited", "session", session, "error", err)
	}
}

// attached records that user and shell are connected.
func (s *Service) attached(ctx context.Context, session id.TerminalSession) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now, err := lock(ctx, tx, session)
		if err != nil {
			return err
		}
		next, err := Lifecycle.Next(now.Status, Attach)
		if err != nil {
			return err
		}
		row, err := terminaldb.New(tx).Opened(ctx, terminaldb.OpenedParams{ID: session, Status: string(next), Now: s.clock()})
		if err != nil {
			return fmt.Errorf("move terminal session %s to %s: %w", session, next, err)
		}
		now = fromRow(row)
		if err := node.Entered(ctx, tx, now.Node, fmt.Sprintf("terminal session %s lets %s in", now.ID,
			now.Username)); err != nil {
			return err
		}
		if err := record(ctx, tx, "terminal_session.open", now, audit.Success, ""); err != nil {
			return err
		}
		return announce(ctx, tx, eventwire.TerminalSessionOpened, now)
	})
}

// ended records that a session of this replica is over.
func (s *Service) ended(ctx context.Context, session id.TerminalSession, reason string, in, out int64) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now, err := lock(ctx, tx, session)
		if err != nil {
			return err
		}
		if state, _ := Lifecycle.State(now.Status); state.Terminal {
			return nil // ended on request, or by another replica's sweep
		}
		_, err = s.finish(ctx, tx, now, End, reason, in, out)
		return err
	})
}

// finish is the only function that ends a session.
func (s *Service) finish(ctx context.Context, tx pgx.Tx, was Session, event Event, reason string, in, out int64) (
	Session, error,
) {
	next, err := Lifecycle.Next(was.Status, event)
	if err != nil {
		return was, err
	}
	row, err := terminaldb.New(tx).Ended(ctx, terminaldb.EndedParams{
		ID: was.ID, Status: string(next), Now: s.clock(), CloseReason: reason, BytesIn: in, BytesOut: out,
	})
	if err != nil {
		return was, fmt.Errorf("move terminal session %s to %s: %w", was.ID, next, err)
	}
	now := fromRow(row)
	if was.Status == Issued {
		return now, nil // nobody was connected
	}
	result := audit.Success
	if next == Failed {
		result = audit.Failure
	}
	if err := record(ctx, tx, "terminal_session.close", now, result, reason); err != nil {
		return now, err
	}
	if was.Status != Open {
		return now, nil
	}
	return now, announce(ctx, tx, eventwire.TerminalSessionClosed, now)
}

func record(ctx context.Context, tx pgx.Tx, action string, t Session, result audit.Result, reason string) error {
	metadata := map[string]any{"node_id": t.Node.String(), "username": t.Username, "status": t.Status}
	if t.ClosedAt != nil {
		metadata["bytes_in"], metadata["bytes_out"] = t.BytesIn, t.BytesOut
	}
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: aggregate, TargetID: t.ID.String(), Result: result, Reason: reason, Metadata: metadata,
	})
}

func announce(ctx context.Context, tx pgx.Tx, event eventwire.Type, t Session) error {
	return outbox.Append(ctx, tx, outbox.Event{
		Type: event, AggregateKind: aggregate, AggregateID: t.ID.String(),
		Payload: eventwire.TerminalSession{
			SessionID: t.ID.String(), NodeID: t.Node.String(), Username: t.Username, RequestedBy: t.RequestedBy,
			Reason: t.CloseReason,
		},
	})
}
