package terminal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/terminal/internal/terminaldb"
)

const (
	beatEvery = 15 * time.Second
	// lostAfter is how long a replica may be silent about its sessions.
	lostAfter  = 4 * beatEvery
	sweepBatch = 100
)

// Sweep ends sessions that nobody else will end: those whose token was never
// used, and those of replicas that are gone. Several replicas may sweep at the
// same time.
func (s *Service) Sweep(ctx context.Context) (changed int, err error) {
	for {
		n := 0
		err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			now := s.clock()
			rows, err := terminaldb.New(tx).Abandoned(ctx, terminaldb.AbandonedParams{
				Now: now, UnseenSince: now.Add(-lostAfter), BatchSize: sweepBatch,
			})
			if err != nil {
				return fmt.Errorf("find abandoned terminal sessions: %w", err)
			}
			n = len(rows)
			for _, row := range rows {
				if err := s.abandon(ctx, tx, fromRow(row)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return changed, err
		}
		changed += n
		if n < sweepBatch {
			return changed, nil
		}
	}
}

func (s *Service) abandon(ctx context.Context, tx pgx.Tx, session Session) error {
	event, reason := Lose, reasonGatewayLost
	if session.Status == Issued {
		event, reason = Expire, reasonExpired
	}
	_, err := s.finish(as(ctx, session), tx, session, event, reason, session.BytesIn, session.BytesOut)
	return err
}

// beat records which sessions this replica holds, in one statement. It ends the
// sessions that somebody else ended meanwhile, on request or because this
// replica was silent for too long.
func (s *Service) beat(ctx context.Context) error {
	held := s.broker.standing()
	if len(held) == 0 {
		return nil
	}
	p := terminaldb.BeatParams{Now: s.clock()}
	for _, h := range held {
		p.Ids = append(p.Ids, h.ID.String())
		p.BytesIn, p.BytesOut = append(p.BytesIn, h.in.Load()), append(p.BytesOut, h.out.Load())
	}
	alive, err := terminaldb.New(s.db).Beat(ctx, p)
	if err != nil {
		return fmt.Errorf("note terminal sessions of this replica: %w", err)
	}
	known := map[id.TerminalSession]bool{}
	for _, session := range alive {
		known[session] = true
	}
	for _, h := range held {
		if !known[h.ID] {
			h.end(ending{reason: s.endedElsewhere(ctx, h.ID)})
		}
	}
	return nil
}

// endedElsewhere says why a session that this replica holds is over.
func (s *Service) endedElsewhere(ctx context.Context, session id.TerminalSession) string {
	now, err := Get(ctx, s.db, session)
	if err != nil || now.CloseReason == "" {
		return reasonGatewayLost
	}
	return now.CloseReason
}
