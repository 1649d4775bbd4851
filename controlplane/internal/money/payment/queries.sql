-- name: Told :one
-- Whether the event, or what it tells of, is booked.
SELECT EXISTS (SELECT FROM payment_events WHERE provider = sqlc.arg(provider)
    AND (event_id = sqlc.arg(event_id) OR kind = sqlc.arg(kind) AND object_id = sqlc.arg(object_id)));

-- name: LockPayment :exec
-- Events of one payment are booked one after the other.
SELECT pg_advisory_xact_lock(hashtextextended(sqlc.arg(payment)::text, 92));

-- name: Paid :one
-- What came by a payment, and what of it went back.
SELECT p.org_id, p.currency, p.amount_minor, ledger_entry_reversed(p.entry_id)::boolean AS reversed, coalesce((SELECT sum(r.amount_minor) FROM payment_events r
    WHERE r.provider = p.provider AND r.payment_id = p.object_id AND r.kind = 'refund'), 0)::bigint AS refunded_minor
FROM payment_events p WHERE p.provider = $1 AND p.kind = 'payment' AND p.object_id = $2;

-- name: Add :exec
INSERT INTO payment_events (provider, event_id, kind, object_id, payment_id, org_id, currency, amount_minor, entry_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: List :many
-- The newest first.
SELECT * FROM payment_events WHERE org_id = sqlc.arg(org_id) AND (sqlc.narg(before)::uuid IS NULL OR entry_id < sqlc.narg(before))
ORDER BY entry_id DESC LIMIT sqlc.arg(page_size);
