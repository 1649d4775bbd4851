-- name: Insert :one
INSERT INTO ledger_entries (id, org_id, currency, kind, reference, reason, allocation_id, meter, window_start, window_end,
    corrects_entry_id, made_by, correlation_id, reservation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING *;

-- name: Post :exec
INSERT INTO ledger_postings (entry_id, account, org_id, currency, amount_minor) VALUES ($1, $2, $3, $4, $5);

-- name: Get :one
SELECT * FROM ledger_entries WHERE id = $1 AND org_id = $2;

-- name: ByReference :one
SELECT id FROM ledger_entries WHERE org_id = $1 AND kind = 'credit' AND reference = $2;

-- name: Postings :many
SELECT * FROM ledger_postings WHERE entry_id = ANY (sqlc.arg(entries)::uuid[]) ORDER BY entry_id, account;

-- name: List :many
-- The newest first.
SELECT sqlc.embed(e), c.id AS corrected_by
FROM ledger_entries e LEFT JOIN ledger_entries c ON c.corrects_entry_id = e.id AND ledger_entry_reversed(e.id)
WHERE e.org_id = sqlc.arg(org_id) AND (sqlc.arg(kind)::text = '' OR e.kind = sqlc.arg(kind))
  AND (sqlc.narg(before)::uuid IS NULL OR e.id < sqlc.narg(before))
ORDER BY e.id DESC LIMIT sqlc.arg(page_size);

-- name: Root :one
-- What a correction goes back to in the end, and how many corrections lie between.
WITH RECURSIVE up AS (
    SELECT e.id, e.corrects_entry_id, 0 AS n FROM ledger_entries e WHERE e.id = sqlc.arg(id)
    UNION ALL
    SELECT e.id, e.corrects_entry_id, up.n + 1 FROM up JOIN ledger_entries e ON e.id = up.corrects_entry_id
)
SELECT sqlc.embed(e), up.n::integer AS corrections FROM up JOIN ledger_entries e ON e.id = up.id WHERE up.corrects_entry_id IS NULL;

-- name: LockMeter :exec
-- Whoever charges or gives back waits until the correction is booked.
SELECT 1 FROM usage_meters WHERE allocation_id = $1 AND meter = $2 FOR UPDATE;

-- name: Standing :many
-- Entries of a kind about a time of an allocation: those that stand, or those that were taken back.
SELECT e.id FROM ledger_entries e
WHERE e.allocation_id = sqlc.arg(allocation_id) AND e.meter = sqlc.arg(meter) AND e.kind = sqlc.arg(kind)
  AND e.window_start < sqlc.arg(until)::timestamptz AND e.window_end > sqlc.arg(since)::timestamptz
  AND ledger_entry_reversed(e.id) = sqlc.arg(reversed)::boolean
ORDER BY e.window_start LIMIT 5;

-- name: Balance :one
SELECT coalesce(sum(balance_minor), 0)::bigint FROM ledger_balances WHERE org_id = $1 AND account = 'tenant';
