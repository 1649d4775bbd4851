-- name: Insert :one
INSERT INTO ledger_entries (id, org_id, currency, kind, reference, reason, allocation_id, meter, window_start, window_end,
    corrects_entry_id, made_by, correlation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING *;

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
FROM ledger_entries e LEFT JOIN ledger_entries c ON c.corrects_entry_id = e.id
WHERE e.org_id = sqlc.arg(org_id) AND (sqlc.arg(kind)::text = '' OR e.kind = sqlc.arg(kind))
  AND (sqlc.narg(before)::uuid IS NULL OR e.id < sqlc.narg(before))
ORDER BY e.id DESC LIMIT sqlc.arg(page_size);

-- name: Balance :one
SELECT coalesce(sum(balance_minor), 0)::bigint FROM ledger_balances WHERE org_id = $1 AND account = 'tenant';
