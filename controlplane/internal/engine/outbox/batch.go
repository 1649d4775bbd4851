package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
)

// relayBatch takes one partition, delivers the messages that are due in it and
// records the outcome, while it holds the partition. It reports whether it
// found one. An error means that the database or the destination cannot be
// reached.
//
// After a crash between delivery and commit the batch is pending again: the
// destination recognises the copies by their ids.
func (l *lane) relayBatch(ctx context.Context) (found bool, err error) {
	// A slow delivery must not cut the recording of its outcome short.
	ctx, cancel := context.WithTimeout(ctx, l.BatchBudget+30*time.Second)
	defer cancel()
	var done outcome
	err = l.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, done = false, outcome{}
		q := outboxdb.New(tx)
		partition, err := q.ClaimPartition(ctx, l.name)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("claim outbox partition: %w", err)
		}
		found = true
		l.wake() // other partitions may have work
		rows, err := q.DueEvents(ctx, outboxdb.DueEventsParams{
			Destination: l.name, Partition: partition, BatchSize: int32(l.BatchSize), //nolint:gosec // a few hundred
		})
		if err != nil {
			return fmt.Errorf("read due outbox events: %w", err)
		}
		done = l.deliver(ctx, messagesOf(rows))
		return l.record(ctx, q, done)
	})
	if err != nil {
		return found, err
	}
	l.metrics.count(ctx, done)
	if done.outage == nil && len(done.published) > 0 && l.away.Swap(false) {
		l.log.InfoContext(ctx, "outbox destination is back")
	}
	return found, done.outage
}

// outcome says what became of a batch. Messages in neither list stay as they
// are.
type outcome struct {
	published []Message
	refused   []refusal
	outage    error
}

type refusal struct {
	Message
	err error
}

// deliver sends a batch in waves, each with at most one message per aggregate.
// A message is sent only after the one before it was accepted. If that was
// refused, it is not sent at all.
func (l *lane) deliver(ctx context.Context, batch []Message) outcome {
	ctx, cancel := context.WithTimeout(ctx, l.BatchBudget)
	defer cancel()
	var done outcome
	held := map[aggregate]bool{}
	for _, wave := range waves(batch) {
		ready := wave[:0:0]
		for _, m := range wave {
			if !held[m.aggregate()] {
				ready = append(ready, m)
			}
		}
		if len(ready) == 0 {
			continue
		}
		for i, err := range l.deliverWave(ctx, ready) {
			m := ready[i]
			switch {
			case err == nil:
				done.published = append(done.published, m)
			case fault.KindOf(err) == fault.Unavailable, ctx.Err() != nil:
				done.outage = err
			default:
				held[m.aggregate()] = true
				done.refused = append(done.refused, refusal{m, err})
			}
		}
		if done.outage != nil {
			break
		}
	}
	return done
}

var tracer = otel.Tracer("gpuaas/outbox")

// deliverWave calls the deliverer within a span of the trace that each message
// came from.
func (l *lane) deliverWave(ctx context.Context, wave []Message) []error {
	spans := make([]trace.Span, len(wave))
	for i, m := range wave {
		_, spans[i] = tracer.Start(m.Context(ctx), "deliver "+m.Type, trace.WithSpanKind(trace.SpanKindProducer))
	}
	began := time.Now()
	errs := l.to.Deliver(ctx, wave)
	l.metrics.delivered(ctx, time.Since(began))
	if len(errs) != len(wave) {
		defect := fault.New(fault.Internal, "deliverer_defect", "the deliverer gave %d results for %d messages", len(errs),
			len(wave))
		errs = make([]error, len(wave))
		for i := range errs {
			errs[i] = defect
		}
	}
	for i, span := range spans {
		if errs[i] != nil {
			span.SetStatus(codes.Error, fault.CodeOf(errs[i]))
		}
		span.End()
	}
	return errs
}

func (l *lane) record(ctx context.Context, q *outboxdb.Queries, done outcome) error {
	if len(done.published) > 0 {
		to, err := Lifecycle.Next(Pending, Publish)
		if err != nil {
			return err
		}
		seqs := make([]int64, len(done.published))
		for i, m := range done.published {
			seqs[i] = m.Seq
		}
		if err := q.MarkPublished(ctx, outboxdb.MarkPublishedParams{Status: string(to), Seqs: seqs}); err != nil {
			return fmt.Errorf("mark outbox events published: %w", err)
		}
	}
	for _, r := range done.refused {
		if err := l.recordRefusal(ctx, q, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) recordRefusal(ctx context.Context, q *outboxdb.Queries, r refusal) error {
	to, delay := Pending, backOff(r.Attempt, l.RetryUnit, l.RetryCap)
	log := l.log.With("event_id", r.ID, "event_type", r.Type, "attempt", r.Attempt, "correlation_id", r.CorrelationID,
		"error", r.err)
	if r.Attempt >= l.MaxAttempts {
		var err error
		if to, err = Lifecycle.Next(Pending, GiveUp); err != nil {
			return err
		}
		delay = 0
		log.ErrorContext(ctx, "outbox event failed for good; an operator must requeue or discard it")
	} else {
		log.WarnContext(ctx, "outbox event refused; it will be repeated", "after", delay)
	}
	err := q.MarkAttempt(ctx, outboxdb.MarkAttemptParams{
		Status: string(to), LastError: shown(r.err), DelaySeconds: delay.Seconds(), Seq: r.Seq,
	})
	if err != nil {
		return fmt.Errorf("record refused outbox event: %w", err)
	}
	return nil
}

// shown is the part of an error that an operator may read: causes stay in the
// log.
func shown(err error) string {
	text := err.Error()
	if f, ok := fault.As(err); ok {
		text = f.Code + ": " + f.Message
	}
	const longest = 500
	text = text[:min(len(text), longest)]
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "") // drops what the database cannot store
}

type aggregate struct{ kind, id string }

func (m Message) aggregate() aggregate { return aggregate{m.AggregateKind, m.AggregateID} }

// waves splits a batch: wave n holds the nth message of each aggregate.
func waves(batch []Message) [][]Message {
	var out [][]Message
	seen := map[aggregate]int{}
	for _, m := range batch {
		n := seen[m.aggregate()]
		seen[m.aggregate()]++
		if n == len(out) {
			out = append(out, nil)
		}
		out[n] = append(out[n], m)
	}
	return out
}
