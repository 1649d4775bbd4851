-- Insert adds an allocation that was placed on a node.
-- name: Insert :one
INSERT INTO allocations (id, org_id, project_id, group_id, name, labels, capacity_shape, sku_id, sku_terms, price_minor,
    price_currency, gpus, region_code, node_id, hostname, wish, access, username, uid, ssh_keys, protected, expires_at, event_id,
    requested_by, requested_by_name, correlation_id, waiting_for)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27)
RETURNING *;

-- name: Get :one
SELECT * FROM allocations WHERE id = $1;

-- name: Lock :one
SELECT * FROM allocations WHERE id = $1 FOR NO KEY UPDATE;

-- name: OfGroup :many
SELECT * FROM allocations WHERE group_id = $1 ORDER BY id;

-- List gives allocations, newest first.
-- name: List :many
SELECT * FROM allocations
WHERE (sqlc.narg(project)::uuid IS NULL OR project_id = sqlc.narg(project))
  AND (sqlc.narg(node)::uuid IS NULL OR node_id = sqlc.narg(node))
  AND (sqlc.narg(requested_by)::text IS NULL OR requested_by = sqlc.narg(requested_by))
  AND (sqlc.arg(statuses)::text[] = '{}' OR status = ANY (sqlc.arg(statuses)::text[]))
  AND (sqlc.narg(before)::uuid IS NULL OR id < sqlc.narg(before))
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- Move changes the status. Times are those of the moment, not of the transaction, which may have waited.
-- name: Move :one
UPDATE allocations SET status = sqlc.arg(to_status)::text, version = version + 1, waiting_for = sqlc.arg(waiting_for),
    status_changed_at = clock_timestamp(), updated_at = clock_timestamp(),
    provisioning_started_at = CASE WHEN sqlc.arg(to_status)::text = 'provisioning' THEN clock_timestamp() ELSE provisioning_started_at END,
    active_at = CASE WHEN sqlc.arg(to_status)::text = 'active' THEN clock_timestamp() ELSE active_at END,
    released_at = CASE WHEN sqlc.arg(to_status)::text = 'released' THEN clock_timestamp() END,
    failed_at = CASE WHEN sqlc.arg(to_status)::text = 'failed' THEN clock_timestamp() END,
    release_failed_at = CASE WHEN sqlc.arg(to_status)::text = 'release_failed' THEN clock_timestamp() ELSE release_failed_at END,
    release_failed_reason = CASE WHEN sqlc.arg(to_status)::text IN ('releasing', 'released') THEN '' ELSE release_failed_reason END
WHERE id = sqlc.arg(id) RETURNING *;

-- name: SetWaiting :execrows
UPDATE allocations SET waiting_for = $2, updated_at = clock_timestamp() WHERE id = $1 AND waiting_for <> $2
    AND status IN ('requested', 'provisioning', 'releasing', 'release_failed');

-- name: SetFailure :exec
UPDATE allocations SET failure_code = $2, failure_reason = $3, failure_remedy = $4 WHERE id = $1;

-- The first request for the release decides when the tenant stopped paying, and says who ended it and why.
-- name: SetRelease :exec
UPDATE allocations SET
    release_cause = CASE WHEN release_requested_at IS NULL THEN sqlc.arg(cause)::text ELSE release_cause END,
    release_reason = CASE WHEN release_requested_at IS NULL THEN sqlc.arg(reason)::text ELSE release_reason END,
    release_requested_by = CASE WHEN release_requested_at IS NULL THEN sqlc.arg(requested_by)::text ELSE release_requested_by END,
    release_requested_at = COALESCE(release_requested_at, clock_timestamp()), protected = false
WHERE id = sqlc.arg(id);

-- The first complaint about a node stands.
-- name: SetComplaint :execrows
UPDATE allocations SET complaint = $2, updated_at = clock_timestamp() WHERE id = $1 AND complaint IS NULL;

-- Complaints counts what a tenant complains about: nodes that are held for it now, and complaints of the last 30 days.
-- name: Complaints :one
SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM node_holds h WHERE h.node_id = n.id AND h.kind = 'complaint' AND h.owner = a.id::text))::integer AS holding,
       count(*) FILTER (WHERE a.release_requested_at > clock_timestamp() - interval '30 days')::integer AS lately
FROM allocations a JOIN nodes n ON n.id = a.node_id WHERE a.org_id = $1 AND a.complaint IS NOT NULL;

-- name: SetReleaseFailed :exec
UPDATE allocations SET release_failed_reason = $2 WHERE id = $1;

-- name: SetCleanup :exec
UPDATE allocations SET cleanup_id = $2, updated_at = clock_timestamp() WHERE id = $1;

-- name: SetTerms :one
UPDATE allocations SET expires_at = sqlc.narg(expires_at), protected = sqlc.arg(protected),
    expiry_set_at = CASE WHEN expires_at IS DISTINCT FROM sqlc.narg(expires_at) THEN clock_timestamp() ELSE expiry_set_at END,
    expiry_warned = CASE WHEN expires_at IS DISTINCT FROM sqlc.narg(expires_at) THEN 0 ELSE expiry_warned END, name = sqlc.arg(name),
    labels = sqlc.arg(labels), version = version + 1, updated_at = clock_timestamp()
WHERE id = sqlc.arg(id) RETURNING *;

-- name: SetAccount :one
UPDATE allocations SET uid = $2, username = $3, version = version + 1, updated_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- SetKeys changes the keys that shall open an allocation. Its node is behind until it says otherwise.
-- name: SetKeys :one
UPDATE allocations SET ssh_keys = $2, keys_revision = keys_revision + 1, keys_waiting_for = $3,
    keys_changing_since = COALESCE(keys_changing_since, clock_timestamp()), version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: SetKeysWaiting :exec
UPDATE allocations SET keys_waiting_for = $2, updated_at = clock_timestamp() WHERE id = $1 AND keys_waiting_for <> $2;

-- name: SetKeysChanged :one
UPDATE allocations SET keys_changing_since = NULL, keys_waiting_for = '', version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- LiveWithKeys are the allocations that open to a key, or to one that a person has now; without either all. Of those that
-- are being provisioned some may be about to become active with what is read here changed behind their back.
-- name: LiveWithKeys :many
SELECT a.id FROM allocations a
WHERE a.status IN ('provisioning', 'active') AND (sqlc.narg(after)::uuid IS NULL OR a.id > sqlc.narg(after))
  AND (COALESCE(sqlc.narg(ssh_key)::uuid, sqlc.narg(person)::uuid) IS NULL OR EXISTS (
    SELECT FROM jsonb_array_elements(a.ssh_keys) AS k (key)
    WHERE (k.key ->> 'ssh_key_id')::uuid = sqlc.narg(ssh_key)::uuid
       OR (k.key ->> 'ssh_key_id')::uuid IN (SELECT s.id FROM ssh_keys s WHERE s.user_id = sqlc.narg(person)::uuid)))
ORDER BY a.id LIMIT sqlc.arg(most);

-- name: SetPlace :one
UPDATE allocations SET node_id = $2, hostname = $3, uid = $4, username = $5, placements = placements + 1, version = version + 1,
    updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: Expired :many
SELECT id FROM allocations WHERE status = 'active' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 100;

-- name: Due :one
SELECT (expires_at IS NOT NULL AND expires_at <= clock_timestamp())::boolean FROM allocations WHERE id = $1;

-- Expiring are allocations that end soon and whose tenants were not yet told so: the latest of the marks that have
-- passed, in seconds before the end. A mark that had passed when the end was set does not count.
-- name: Expiring :many
SELECT e.id::text AS id, e.mark::bigint AS mark FROM (
    SELECT a.id, a.expires_at, a.expiry_warned, min(m.mark) AS mark
    FROM allocations a CROSS JOIN unnest(sqlc.arg(marks)::bigint[]) AS m (mark)
    WHERE a.status = 'active' AND a.expires_at > clock_timestamp()
      AND a.expires_at - m.mark * interval '1 second' <= clock_timestamp()
      AND a.expires_at - m.mark * interval '1 second' > COALESCE(a.expiry_set_at, a.created_at)
    GROUP BY a.id) AS e
WHERE e.expiry_warned = 0 OR e.mark < e.expiry_warned ORDER BY e.expires_at LIMIT 100;

-- name: SetWarned :one
UPDATE allocations SET expiry_warned = sqlc.arg(mark)::bigint
WHERE id = sqlc.arg(id) AND status = 'active' AND (expiry_warned = 0 OR expiry_warned > sqlc.arg(mark)::bigint)
  AND expires_at - sqlc.arg(mark)::bigint * interval '1 second' <= clock_timestamp()
RETURNING *;

-- name: EndClaims :execrows
UPDATE allocation_resource_claims SET ended_at = clock_timestamp(), ended_because = $3
WHERE allocation_id = $1 AND node_id = $2 AND ended_at IS NULL;

-- Tenant is the allocation that has a node.
-- name: Tenant :one
SELECT sqlc.embed(a) FROM allocation_resource_claims c JOIN allocations a ON a.id = c.allocation_id
WHERE c.node_id = $1 AND c.ended_at IS NULL AND c.claim_kind = 'node_exclusive';

-- HeldOn says whether an allocation had a node at a time, whoever has it now.
-- name: HeldOn :one
SELECT EXISTS (SELECT FROM allocation_resource_claims WHERE allocation_id = $1 AND node_id = $2);

-- name: NextUID :one
INSERT INTO allocation_uids (node_id, next_uid) VALUES ($1, 20001)
ON CONFLICT (node_id) DO UPDATE SET next_uid = CASE WHEN allocation_uids.next_uid >= 60000 THEN 20001 ELSE allocation_uids.next_uid + 1 END
RETURNING (next_uid - 1)::integer AS uid;

-- name: AddEvent :exec
INSERT INTO allocation_events (allocation_id, event, status, actor_kind, actor, message, details) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- CountEvents says how often something happened to an allocation.
-- name: CountEvents :one
SELECT count(*)::integer FROM allocation_events WHERE allocation_id = $1 AND event = $2;

-- name: Timeline :many
SELECT * FROM allocation_events WHERE allocation_id = $1 AND seq > sqlc.arg(after) ORDER BY seq LIMIT sqlc.arg(page_size);

-- Seen are the free nodes of a SKU and a pool. What becomes free after this look was not dealt to anybody.
-- name: Seen :many
SELECT n.id FROM nodes_to_let n
WHERE n.sku_id = sqlc.arg(sku) AND n.pool = sqlc.arg(pool) AND n.last_contact_at > sqlc.arg(heard_since);

-- Take claims free nodes for allocations that are yet to be recorded, one for each. Nodes that others have locked are
-- passed over; a node that turns out to have a claim comes back without an allocation. It must agree with TakeOne and with Census, which
-- says why a node is none. Where nodes are kept for others, only those are taken that were seen free before it was said which:
-- one that has become free since may be somebody else's. Nodes that were proven clean longest ago come first; one that was never cleaned was never let.
-- name: Take :many
WITH free AS (
    SELECT n.id, n.hostname, n.rack, n.region_code FROM nodes n
    WHERE n.status = 'active' AND n.schedulable AND n.allocation_id IS NULL
      AND n.sku_id = sqlc.arg(sku) AND (sqlc.arg(region)::text = '' OR n.region_code = sqlc.arg(region))
      AND n.pool = sqlc.arg(pool) AND n.labels @> sqlc.arg(labels)::jsonb AND n.capabilities @> sqlc.arg(capabilities)::jsonb
      AND n.hold_reason = '' AND n.held_by = ''
      AND (n.tainted_at IS NULL OR n.clean_at > n.tainted_at)
      AND (n.root_at IS NULL OR n.root_ended_at > n.root_at)
      AND EXISTS (SELECT FROM node_contacts c WHERE c.node_id = n.id AND c.last_contact_at > sqlc.arg(heard_since))
      AND NOT EXISTS (SELECT FROM reconciliation_findings f WHERE f.node_id = n.id AND f.status <> 'closed' AND f.severity = 'critical')
      AND (NOT sqlc.arg(root)::boolean OR EXISTS (SELECT FROM node_maas_state m WHERE m.node_id = n.id))
      AND (sqlc.narg(node)::uuid IS NULL OR n.id = sqlc.narg(node))
      AND NOT n.id = ANY (sqlc.arg(passed)::uuid[])
      AND (sqlc.narg(seen)::uuid[] IS NULL OR n.id = ANY (sqlc.narg(seen)::uuid[]))
      AND (sqlc.narg(racks)::text[] IS NULL OR n.rack = ANY (sqlc.narg(racks)::text[]))
      AND (sqlc.narg(other_racks)::text[] IS NULL OR NOT n.rack = ANY (sqlc.narg(other_racks)::text[]))
    ORDER BY n.clean_at NULLS FIRST, n.id
    LIMIT cardinality(sqlc.arg(allocations)::uuid[]) FOR NO KEY UPDATE OF n SKIP LOCKED),
claimed AS (
    INSERT INTO allocation_resource_claims (id, allocation_id, claim_kind, node_id)
    SELECT gen_random_uuid(), (sqlc.arg(allocations)::uuid[])[row_number() OVER ()], 'node_exclusive', free.id FROM free
    ON CONFLICT (node_id) WHERE ended_at IS NULL AND claim_kind = 'node_exclusive' DO NOTHING
    RETURNING node_id, allocation_id)
SELECT free.id, free.hostname, free.rack, free.region_code, COALESCE(claimed.allocation_id::text, '')::text AS allocation
FROM free LEFT JOIN claimed ON claimed.node_id = free.id;

-- TakeOne is Take for one node of any region, labels and capabilities, which is what most ask for. With fewer questions,
-- and a limit that is no parameter, the database sees that one plan is good for all and keeps it: planning takes longer
-- than finding the node.
-- name: TakeOne :many
WITH free AS (
    SELECT n.id, n.hostname, n.rack, n.region_code FROM nodes n
    WHERE n.status = 'active' AND n.schedulable AND n.allocation_id IS NULL
      AND n.sku_id = sqlc.arg(sku) AND n.pool = sqlc.arg(pool)
      AND n.hold_reason = '' AND n.held_by = ''
      AND (n.tainted_at IS NULL OR n.clean_at > n.tainted_at)
      AND (n.root_at IS NULL OR n.root_ended_at > n.root_at)
      AND EXISTS (SELECT FROM node_contacts c WHERE c.node_id = n.id AND c.last_contact_at > sqlc.arg(heard_since))
      AND NOT EXISTS (SELECT FROM reconciliation_findings f WHERE f.node_id = n.id AND f.status <> 'closed' AND f.severity = 'critical')
      AND n.id <> ALL (sqlc.arg(passed)::uuid[]) AND n.rack <> ALL (sqlc.arg(other_racks)::text[])
    ORDER BY n.clean_at NULLS FIRST, n.id
    LIMIT 1 FOR NO KEY UPDATE OF n SKIP LOCKED),
claimed AS (
    INSERT INTO allocation_resource_claims (id, allocation_id, claim_kind, node_id)
    SELECT gen_random_uuid(), sqlc.arg(allocation)::uuid, 'node_exclusive', free.id FROM free
    ON CONFLICT (node_id) WHERE ended_at IS NULL AND claim_kind = 'node_exclusive' DO NOTHING
    RETURNING node_id, allocation_id)
SELECT free.id, free.hostname, free.rack, free.region_code, COALESCE(claimed.allocation_id::text, '')::text AS allocation
FROM free LEFT JOIN claimed ON claimed.node_id = free.id;

-- RacksOf are the racks that a project has nodes in.
-- name: RacksOf :many
SELECT DISTINCT n.rack FROM allocations a JOIN nodes n ON n.id = a.node_id AND n.allocation_id = a.id
WHERE a.project_id = $1 AND a.status IN ('requested', 'provisioning', 'active') AND n.rack <> '';

-- RoomyRacks are racks with enough free nodes, the fullest first.
-- name: RoomyRacks :many
SELECT n.rack FROM nodes n
WHERE n.status = 'active' AND n.schedulable AND n.allocation_id IS NULL AND n.rack <> ''
  AND n.sku_id = sqlc.arg(sku) AND (sqlc.arg(region)::text = '' OR n.region_code = sqlc.arg(region))
  AND n.pool = sqlc.arg(pool) AND n.labels @> sqlc.arg(labels)::jsonb AND n.capabilities @> sqlc.arg(capabilities)::jsonb
GROUP BY n.rack HAVING count(*) >= sqlc.arg(least)::bigint ORDER BY count(*), n.rack LIMIT 8;

-- Choices lists what tenants can ask nodes for: regions, public labels, and facts of the machines by which they may choose.
-- What a node says of itself is shown only if it is a short plain word: another tenant may have had root on it.
-- name: Choices :many
SELECT DISTINCT n.sku_id AS sku, n.region_code AS region, coalesce(c.kind, '')::text AS kind, coalesce(c.key, '')::text AS key,
    coalesce(c.value, '')::text AS value
FROM nodes n
JOIN skus s ON s.id = n.sku_id
LEFT JOIN LATERAL (
    SELECT 'label' AS kind, l.key, l.value FROM jsonb_each_text(n.labels) AS l (key, value) WHERE starts_with(l.key, sqlc.arg(public)::text)
    UNION ALL
    SELECT 'capability', f.key, f.value FROM jsonb_each_text(n.capabilities) AS f (key, value)
    WHERE f.key = ANY (sqlc.arg(facts)::text[]) AND f.value ~ '^[A-Za-z0-9._ -]{1,40}$' AND f.value <> 'none') AS c ON true
WHERE s.status = 'active' AND n.pool = '' AND n.status = 'active'
ORDER BY 1, 2, 3, 4, 5
LIMIT 2000;

-- Census says of every node of a SKU why it cannot be let now. The first reason counts. It must agree with
-- Take. What other tables say is looked up once, and only if a node gets as far as that question.
-- name: Census :many
SELECT why::text AS reason, count(*)::integer AS nodes FROM (
    SELECT CASE
        WHEN sqlc.arg(region)::text <> '' AND n.region_code <> sqlc.arg(region) THEN 'other_region'
        WHEN n.pool <> sqlc.arg(pool)::text THEN 'other_pool'
        WHEN sqlc.arg(labels)::jsonb <> '{}' AND NOT n.labels @> sqlc.arg(labels)::jsonb THEN 'labels_missing'
        WHEN sqlc.arg(capabilities)::jsonb <> '{}' AND NOT n.capabilities @> sqlc.arg(capabilities)::jsonb THEN 'capabilities_missing'
        WHEN sqlc.arg(root)::boolean AND n.id NOT IN (SELECT m.node_id FROM node_maas_state m) THEN 'not_reinstallable'
        WHEN n.allocation_id IN (SELECT a.id FROM allocations a WHERE a.status IN ('requested', 'provisioning', 'active')) THEN 'rented'
        WHEN n.status IN ('bootstrap_issued', 'enrolling') THEN 'joining'
        WHEN n.status = 'quarantined' THEN 'quarantined'
        WHEN n.status = 'offline' THEN 'offline'
        WHEN n.status <> 'active' THEN 'leaving'
        WHEN n.allocation_id IS NOT NULL OR n.held_by <> '' OR (n.tainted_at IS NULL OR n.clean_at > n.tainted_at) IS NOT TRUE
            OR (n.root_at IS NULL OR n.root_ended_at > n.root_at) IS NOT TRUE THEN 'being_cleaned'
        WHEN n.hold_reason <> '' OR NOT n.schedulable THEN 'on_hold'
        WHEN n.id NOT IN (SELECT c.node_id FROM node_contacts c WHERE c.last_contact_at > sqlc.arg(heard_since)) THEN 'silent'
        WHEN n.id IN (SELECT f.node_id FROM reconciliation_findings f WHERE f.status <> 'closed' AND f.severity = 'critical'
            AND f.node_id IS NOT NULL) THEN 'drifted'
        WHEN n.id = ANY (sqlc.arg(reserved)::uuid[]) THEN 'reserved'
        WHEN n.id = ANY (sqlc.arg(kept)::uuid[]) THEN 'kept_for_waiting'
        ELSE 'free' END AS why
    FROM nodes n
    WHERE n.sku_id = sqlc.arg(sku) AND n.status <> 'deleted') AS counted
GROUP BY why;

-- Held counts what a tenant or one of its projects holds, until it is proven clean. A node whose cleaning stopped by our
-- fault does not count; one that its tenant has root on does, since the tenant may be what stopped it.
-- name: Held :one
SELECT COALESCE(sum(a.gpus), 0)::integer AS gpus, count(*)::integer AS nodes
FROM allocations a JOIN allocation_resource_claims c ON c.allocation_id = a.id AND c.ended_at IS NULL
    JOIN nodes n ON n.id = c.node_id
WHERE a.org_id = $1
  AND (a.status <> 'release_failed' AND (a.status <> 'failed' OR a.release_failed_reason = '')
    OR n.root_at IS NOT NULL AND (n.root_ended_at > n.root_at) IS NOT TRUE)
  AND (sqlc.narg(project)::uuid IS NULL OR a.project_id = sqlc.narg(project))
  AND (sqlc.arg(sku)::text = '' OR a.sku_id = sqlc.arg(sku));

-- Awaited counts what a tenant or one of its projects waits for.
-- name: Awaited :one
SELECT COALESCE(sum(r.nodes * s.gpus_total), 0)::integer AS gpus, COALESCE(sum(r.nodes), 0)::integer AS nodes
FROM allocation_requests r JOIN skus s ON s.id = r.sku_id
WHERE r.org_id = $1 AND r.status = 'waiting'
  AND (sqlc.narg(project)::uuid IS NULL OR r.project_id = sqlc.narg(project))
  AND (sqlc.arg(sku)::text = '' OR r.sku_id = sqlc.arg(sku));

-- name: OrgOf :one
SELECT p.org_id, o.slug, (o.disabled_at IS NOT NULL)::boolean AS disabled FROM projects p JOIN organizations o ON o.id = p.org_id WHERE p.id = $1;

-- GiveClaim gives a claim that was made for a new placement to the allocation that is placed again.
-- name: GiveClaim :exec
UPDATE allocation_resource_claims SET allocation_id = $1 WHERE node_id = $2 AND ended_at IS NULL;

-- Receipts are the papers of an allocation: the newest one about its node from before it was placed there, and those of
-- the operation that cleaned up after it. Papers with words of operators are not for tenants: those that were issued with
-- neutral words are shown, and earlier ones that nobody but the release had a hand in.
-- name: Receipts :many
SELECT CASE WHEN c.decommission_id = a.cleanup_id THEN 'release' ELSE 'handover' END AS moment, c.id::text AS certificate_id,
       c.kind, c.digest, c.issued_at,
       CASE WHEN c.document #> '{document,downgrades}' = '[]' AND c.document #> '{document,overrides}' = '[]' THEN 'clean' ELSE 'with_gaps' END AS outcome
FROM allocations a JOIN decommission_certificates c ON c.node_id = a.node_id
WHERE a.id = $1 AND (c.decommission_id = a.cleanup_id
    OR c.id = (SELECT b.id FROM decommission_certificates b WHERE b.node_id = a.node_id AND b.issued_at <= COALESCE((
                   SELECT max(k.created_at) FROM allocation_resource_claims k WHERE k.allocation_id = a.id AND k.node_id = a.node_id), a.created_at)
               ORDER BY b.issued_at DESC LIMIT 1))
  AND (c.document #>> '{document,operation,requested_by}' = 'the control plane'
    OR c.document #>> '{document,operation,reason}' = 'a tenant has left' AND c.document #> '{document,overrides}' = '[]'
        AND jsonb_array_length(c.document #> '{document,operation,actors}') = 1)
ORDER BY c.issued_at;

-- LockSKU lets requests for a SKU run side by side, unless somebody waits for it or has reserved some of it: then they go one after the other, so
-- that nobody overtakes. What there is to be kept is read after it.
-- name: LockSKU :one
SELECT one_by_one, (CASE WHEN one_by_one THEN pg_advisory_xact_lock(hashtext('gpuaas placement ' || sqlc.arg(sku)::text))
    ELSE pg_advisory_xact_lock_shared(hashtext('gpuaas placement ' || sqlc.arg(sku)::text)) END)::text AS locked
FROM (SELECT (EXISTS (SELECT FROM allocation_requests r WHERE r.status = 'waiting' AND r.sku_id = sqlc.arg(sku))
    OR EXISTS (SELECT FROM reservations v WHERE v.sku_id = sqlc.arg(sku) AND v.cancelled_at IS NULL
        AND v.ends_at > statement_timestamp() AND v.starts_at <= statement_timestamp()))::boolean AS one_by_one) AS t;

-- Queued says whether somebody waits for a SKU, or has reserved some of it. Asked under the lock that requests share, it
-- sees what began before the lock was had.
-- name: Queued :one
SELECT (EXISTS (SELECT FROM allocation_requests r WHERE r.status = 'waiting' AND r.sku_id = sqlc.arg(sku))
    OR EXISTS (SELECT FROM reservations v WHERE v.sku_id = sqlc.arg(sku) AND v.cancelled_at IS NULL
        AND v.ends_at > statement_timestamp() AND v.starts_at <= statement_timestamp()))::boolean AS queued;

-- Ahead are those who wait for a SKU before a request, in their order; of a request that does not wait, all.
-- name: Ahead :many
SELECT q.org_id, q.nodes, q.ask FROM allocation_queue q
WHERE q.sku_id = sqlc.arg(sku) AND (sqlc.narg(request)::uuid IS NULL
    OR q.position < (SELECT m.position FROM allocation_queue m WHERE m.id = sqlc.narg(request)))
ORDER BY q.position LIMIT 1000;

-- NodesToLet are free nodes for somebody else than the one who asks: those come first that are lost to that one anyway,
-- and then those that are of no use to it.
-- name: NodesToLet :many
SELECT n.id FROM nodes_to_let n
WHERE n.sku_id = sqlc.arg(sku) AND (sqlc.arg(region)::text = '' OR n.region_code = sqlc.arg(region))
  AND n.pool = sqlc.arg(pool) AND n.labels @> sqlc.arg(labels)::jsonb AND n.capabilities @> sqlc.arg(capabilities)::jsonb
  AND n.last_contact_at > sqlc.arg(heard_since) AND NOT n.id = ANY (sqlc.arg(passed)::uuid[])
  AND (NOT sqlc.arg(root)::boolean OR EXISTS (SELECT FROM node_maas_state m WHERE m.node_id = n.id))
ORDER BY n.id = ANY (sqlc.arg(lost)::uuid[]) DESC, ((sqlc.arg(other_region)::text = '' OR n.region_code = sqlc.arg(other_region)) AND n.pool = sqlc.arg(other_pool)::text
    AND n.labels @> sqlc.arg(other_labels)::jsonb AND n.capabilities @> sqlc.arg(other_capabilities)::jsonb
    AND (sqlc.narg(other_node)::uuid IS NULL OR n.id = sqlc.narg(other_node))), n.clean_at DESC NULLS LAST, n.id
LIMIT sqlc.arg(most);

-- name: InsertRequest :one
INSERT INTO allocation_requests (id, org_id, project_id, sku_id, nodes, ask, requested_by, requested_by_name, requester_kind,
    correlation_id, wait_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp() + sqlc.arg(wait_seconds)::bigint * interval '1 second')
RETURNING *;

-- name: LockWaiting :exec
SELECT pg_advisory_xact_lock(hashtextextended('allocation requests ' || sqlc.arg(project)::text, 0));

-- name: CountWaiting :one
SELECT count(*)::integer FROM allocation_requests WHERE project_id = $1 AND status = 'waiting';

-- name: GetRequest :one
SELECT sqlc.embed(r), COALESCE((SELECT q.position FROM allocation_queue q WHERE q.id = r.id), 0)::integer AS position
FROM allocation_requests r WHERE r.id = $1;

-- TakeRequest locks a request that waits, unless another replica is at work on it.
-- name: TakeRequest :one
SELECT * FROM allocation_requests WHERE id = $1 AND status = 'waiting' AND wait_until > clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED;

-- name: LockRequest :one
SELECT * FROM allocation_requests WHERE id = $1 FOR NO KEY UPDATE;

-- name: EndRequest :one
UPDATE allocation_requests SET status = sqlc.arg(to_status)::text, allocation_ids = sqlc.arg(allocation_ids)::uuid[], code = sqlc.arg(code),
    reason = sqlc.arg(reason), remedy = sqlc.arg(remedy), ended_by = sqlc.arg(ended_by), ended_at = clock_timestamp(), version = version + 1
WHERE id = sqlc.arg(id) RETURNING *;

-- name: ListRequests :many
SELECT sqlc.embed(r), COALESCE(q.position, 0)::integer AS position
FROM allocation_requests r LEFT JOIN allocation_queue q ON q.id = r.id
WHERE (sqlc.narg(project)::uuid IS NULL OR r.project_id = sqlc.narg(project))
  AND (sqlc.arg(statuses)::text[] = '{}' OR r.status = ANY (sqlc.arg(statuses)::text[]))
  AND (sqlc.narg(before)::uuid IS NULL OR r.id < sqlc.narg(before))
ORDER BY r.id DESC LIMIT sqlc.arg(page_size);

-- name: AwaitedSKUs :many
SELECT DISTINCT sku_id FROM allocation_requests WHERE status = 'waiting' ORDER BY sku_id;

-- name: Queue :many
SELECT q.id::text AS id, q.org_id, q.ask FROM allocation_queue q WHERE q.sku_id = $1 ORDER BY q.position LIMIT 1000;

-- name: OverdueRequests :many
SELECT id FROM allocation_requests WHERE status = 'waiting' AND wait_until <= clock_timestamp() ORDER BY wait_until LIMIT 100;

-- BeginRepair begins a time in which the node of an allocation is repaired, unless one has begun.
-- name: BeginRepair :execrows
INSERT INTO allocation_repairs (id, allocation_id, node_id, maintenance_id, reason, began_by) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (allocation_id) WHERE ended_at IS NULL DO NOTHING;

-- A clock that was set back must not keep a tenant from releasing a node that is repaired.
-- name: EndRepair :many
UPDATE allocation_repairs SET ended_at = greatest(clock_timestamp(), began_at), ended_by = $2, ended_because = $3
WHERE allocation_id = $1 AND ended_at IS NULL RETURNING *;

-- name: OpenRepair :one
SELECT * FROM allocation_repairs WHERE allocation_id = $1 AND ended_at IS NULL;

-- name: Repairs :many
SELECT * FROM allocation_repairs WHERE allocation_id = $1 AND (sqlc.narg(after)::uuid IS NULL OR id > sqlc.narg(after))
ORDER BY id LIMIT sqlc.arg(page_size);

-- RepairsUnderWay are those of some allocations that have not ended.
-- name: RepairsUnderWay :many
SELECT * FROM allocation_repairs WHERE allocation_id = ANY (sqlc.arg(allocation_ids)::uuid[]) AND ended_at IS NULL;

-- Announced are the open maintenances of some allocations.
-- name: Announced :many
SELECT id::text AS id, allocation_id, status::text AS status, kind, consent_asked, not_before, due_at, reason, may_begin::boolean AS may_begin
FROM maintenances_open_now WHERE allocation_id = ANY (sqlc.arg(allocation_ids)::uuid[]);

-- MadeWayFor is the maintenance that a tenant was told to leave a node for.
-- name: MadeWayFor :one
SELECT id FROM maintenances WHERE allocation_id = $1 AND node_id = $2 AND kind = 'release' AND ended_at IS NULL;

-- name: MaintenanceUnderWay :one
SELECT id FROM maintenances WHERE allocation_id = $1 AND status = 'under_way';

-- Neglected says for how many seconds the oldest of what somebody has to end has waited: a repair since it began, a
-- maintenance since the time that was announced, an allocation since its cleaning stopped; 0: there is none.
-- name: Neglected :one
SELECT COALESCE((SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(r.began_at)) FROM allocation_repairs r WHERE r.ended_at IS NULL), 0)::float8 AS repair,
    COALESCE((SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(m.due_at)) FROM maintenances m
        WHERE m.ended_at IS NULL AND m.due_at < clock_timestamp()), 0)::float8 AS maintenance,
    COALESCE((SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(a.release_failed_at)) FROM allocations a
        WHERE a.status = 'release_failed'), 0)::float8 AS release_failed;
