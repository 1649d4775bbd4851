-- name: InsertNode :one
INSERT INTO nodes (id, status, hostname, host, port, sku_id, gpus_total, region_code, onboarding_mode, ssh_username, awaited_by, rack, pool, labels)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING *;

-- name: Node :one
SELECT sqlc.embed(n), c.last_contact_at, c.agent_memory, c.agent_started_at, COALESCE(v.version, 0)::bigint AS verifiers_wanted, COALESCE(h.version, '') AS channel_wants
FROM nodes n LEFT JOIN node_contacts c ON c.node_id = n.id LEFT JOIN verifier_sets v ON true LEFT JOIN agent_channels h ON h.channel = n.agent_channel
WHERE n.id = $1;

-- name: Many :many
SELECT sqlc.embed(n), c.last_contact_at, c.agent_memory, c.agent_started_at, COALESCE(v.version, 0)::bigint AS verifiers_wanted, COALESCE(h.version, '') AS channel_wants
FROM nodes n LEFT JOIN node_contacts c ON c.node_id = n.id LEFT JOIN verifier_sets v ON true LEFT JOIN agent_channels h ON h.channel = n.agent_channel
WHERE n.id = ANY(sqlc.arg(nodes)::uuid[]) ORDER BY n.id;

-- name: Former :many
-- The nodes that the machine of this node was before, as far as its name and
-- the knowledge of its onboarding tell.
(SELECT n.id, n.tainted_at, n.clean_at, n.root_at, n.root_ended_at, n.root_cause, n.root_risk FROM nodes n JOIN nodes m ON m.region_code = n.region_code AND m.hostname = n.hostname
 WHERE m.id = sqlc.arg(node_id) AND n.id <> m.id AND n.status = 'deleted' ORDER BY n.status_changed_at DESC LIMIT 1)
UNION ALL
(SELECT n.id, n.tainted_at, n.clean_at, n.root_at, n.root_ended_at, n.root_cause, n.root_risk FROM node_onboardings own
 JOIN node_onboardings o ON o.site_id = own.site_id AND o.node_id <> own.node_id
    AND (own.maas_system_id <> '' AND o.maas_system_id = own.maas_system_id OR own.ipmi_ip <> '' AND o.ipmi_ip = own.ipmi_ip
        OR own.pxe_mac <> '' AND o.pxe_mac = own.pxe_mac)
 JOIN nodes n ON n.id = o.node_id
 WHERE own.node_id = sqlc.arg(node_id) AND n.status = 'deleted' ORDER BY n.status_changed_at DESC LIMIT 1);

-- name: ShareNode :one
SELECT * FROM nodes WHERE id = $1 FOR SHARE;

-- name: LockNode :one
SELECT * FROM nodes WHERE id = $1 FOR NO KEY UPDATE;

-- name: ListNodes :many
-- The sort column is either a text or a time; the other one is then the same
-- for all rows, and ids decide among equals. If the order is that of ids alone,
-- floor lets the index skip the earlier pages. Contacts are joined only to sort
-- by them; for the nodes of one page they are looked up. Agents call all the time,
-- so contacts are sorted as they were at one moment, which all pages share: a
-- silence that ended after it still counts, and whoever called shortly before it
-- is equal to the others who did. Searches of the fleet's summary follow the same rules.
SELECT sqlc.embed(n), COALESCE((SELECT l.last_contact_at FROM node_contacts l WHERE l.node_id = n.id), 'epoch')::timestamptz AS last_contact_at,
    COALESCE((SELECT version FROM verifier_sets), 0)::bigint AS verifiers_wanted, COALESCE(h.version, '') AS channel_wants,
    t.as_of::timestamptz AS as_of, k.moment::timestamptz AS moment
FROM nodes n LEFT JOIN agent_channels h ON h.channel = n.agent_channel LEFT JOIN node_contacts c ON c.node_id = n.id AND sqlc.arg(sort)::text = 'last_agent_contact_at'
CROSS JOIN LATERAL (SELECT COALESCE(sqlc.narg(as_of)::timestamptz, statement_timestamp() - make_interval(secs => sqlc.arg(settled_seconds)::float8)) AS as_of) t
CROSS JOIN LATERAL (SELECT CASE WHEN c.silent_until > t.as_of THEN c.silent_from ELSE COALESCE(c.last_contact_at, 'epoch') END AS heard) s
CROSS JOIN LATERAL (SELECT
    (CASE sqlc.arg(sort)::text WHEN 'hostname' THEN n.hostname WHEN 'status' THEN n.status WHEN 'sku' THEN n.sku_id
        WHEN 'region_code' THEN n.region_code ELSE '' END) COLLATE "C" AS words,
    CASE sqlc.arg(sort)::text WHEN 'status_changed_at' THEN n.status_changed_at WHEN 'created_at' THEN n.created_at
        WHEN 'last_agent_contact_at' THEN CASE WHEN s.heard > t.as_of - make_interval(secs => sqlc.arg(gap_seconds)::float8) THEN t.as_of ELSE s.heard END
        ELSE 'epoch' END AS moment,
    n.reported_agent_version IN ('', 'dev') OR n.reported_agent_commit IN ('unknown', '') AS unknown_build) k
CROSS JOIN LATERAL (SELECT CASE
    WHEN n.reported_agent_version = '' THEN 'unknown'
    WHEN n.certificate_not_after IS NULL OR n.certificate_not_after <= sqlc.arg(now)::timestamptz THEN 'certificate_only_repair_needed'
    WHEN k.unknown_build OR COALESCE(NULLIF(n.desired_agent_version, ''), h.version, '') NOT IN ('', n.reported_agent_version) THEN 'version_drift'
    WHEN n.verifier_version < (SELECT version FROM verifier_sets) THEN 'config_drift'
    ELSE 'in_sync' END AS drift) a
WHERE n.id > sqlc.arg(floor)::uuid
  AND (cardinality(sqlc.arg(statuses)::text[]) = 0 AND n.status <> 'deleted' OR n.status = ANY(sqlc.arg(statuses)::text[]))
  AND (sqlc.narg(sku_id)::text IS NULL OR n.sku_id = sqlc.narg(sku_id))
  AND (sqlc.narg(region_code)::text IS NULL OR n.region_code = sqlc.narg(region_code))
  AND (sqlc.narg(rack)::text IS NULL OR n.rack = sqlc.narg(rack))
  AND (sqlc.narg(pool)::text IS NULL OR n.pool = sqlc.narg(pool))
  AND (sqlc.narg(labels)::jsonb IS NULL OR n.labels @> sqlc.narg(labels)::jsonb)
  AND (sqlc.narg(hostname_prefix)::text IS NULL OR starts_with(n.hostname, sqlc.narg(hostname_prefix)))
  AND (sqlc.narg(schedulable)::boolean IS NULL OR n.schedulable = sqlc.narg(schedulable))
  AND (sqlc.narg(onboarding_mode)::text IS NULL OR n.onboarding_mode = sqlc.narg(onboarding_mode))
  AND (sqlc.narg(search)::text IS NULL OR strpos(n.hostname, sqlc.narg(search)) > 0 OR strpos(lower(n.host), sqlc.narg(search)) > 0
    OR starts_with(n.id::text, sqlc.narg(search))
    OR n.id IN (SELECT f.node_id FROM node_hardware f WHERE strpos(f.sought, ' ' || sqlc.narg(hardware)) > 0
      OR strpos(f.sought, sqlc.narg(hardware) || ' ') > 0 OR strpos(array_to_string(f.addresses, ' '), sqlc.narg(search)) > 0))
  AND (sqlc.narg(site_id)::uuid IS NULL OR n.id IN (SELECT m.node_id FROM node_maas_state m WHERE m.site_id = sqlc.narg(site_id)::uuid)
    OR n.id IN (SELECT o.node_id FROM node_onboardings o WHERE o.site_id = sqlc.narg(site_id)::uuid AND o.completed_at IS NULL
      AND NOT EXISTS (SELECT FROM node_maas_state m WHERE m.node_id = o.node_id)))
  AND (sqlc.narg(agent_version)::text IS NULL OR n.reported_agent_version = sqlc.narg(agent_version))
  AND (sqlc.narg(agent_channel)::text IS NULL OR n.agent_channel = sqlc.narg(agent_channel))
  AND (sqlc.narg(drift)::text IS NULL OR sqlc.narg(drift)::text = a.drift)
  AND (sqlc.narg(agent)::text IS NULL OR sqlc.narg(agent)::text = CASE
    WHEN node_is(n.status, 'out') THEN '' WHEN k.unknown_build THEN 'unknown_build' WHEN a.drift = 'in_sync' THEN 'current' ELSE 'drift' END)
  AND (sqlc.narg(held)::boolean IS NULL OR (n.hold_reason <> '' OR n.held_by <> '') = sqlc.narg(held))
  AND (sqlc.narg(tainted)::boolean IS NULL
    OR (n.tainted_at IS NOT NULL AND (n.clean_at IS NULL OR n.clean_at <= n.tainted_at)) = sqlc.narg(tainted))
  AND (NOT sqlc.arg(continued)::boolean OR CASE WHEN sqlc.arg(descending)::boolean
    THEN (k.words, k.moment, n.id) < (sqlc.arg(after_words)::text, sqlc.arg(after_moment)::timestamptz, sqlc.arg(after_id)::uuid)
    ELSE (k.words, k.moment, n.id) > (sqlc.arg(after_words)::text, sqlc.arg(after_moment)::timestamptz, sqlc.arg(after_id)::uuid) END)
ORDER BY CASE WHEN NOT sqlc.arg(descending)::boolean THEN k.words END, CASE WHEN NOT sqlc.arg(descending)::boolean THEN k.moment END,
    CASE WHEN NOT sqlc.arg(descending)::boolean THEN n.id END,
    CASE WHEN sqlc.arg(descending)::boolean THEN k.words END DESC, CASE WHEN sqlc.arg(descending)::boolean THEN k.moment END DESC,
    CASE WHEN sqlc.arg(descending)::boolean THEN n.id END DESC
LIMIT sqlc.arg(page_size);

-- name: SetStatus :one
UPDATE nodes SET status = $2, schedulable = $3, generation = $4, hold_reason = $5, held_unclean = $6, status_changed_at = clock_timestamp(),
    first_poll_at = CASE WHEN generation = $4 THEN first_poll_at END,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: SetFacts :one
UPDATE nodes SET host = $2, port = $3, ssh_username = $4, gpus_total = $5, schedulable = $6, hold_reason = $7, held_unclean = $11,
    agent_channel = $8, desired_agent_version = $9, desired_delivery_mode = $10, rack = $12, pool = $13, labels = $14,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: SetHolds :one
UPDATE nodes SET hold_reason = $2, held_by = $3, schedulable = $4, held_unclean = $5, version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: Holds :many
SELECT * FROM node_holds WHERE node_id = ANY(sqlc.arg(nodes)::uuid[]) ORDER BY node_id, held_at, id;

-- name: InsertHold :one
INSERT INTO node_holds (id, node_id, kind, owner, reason, held_by, held_by_name) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *;

-- name: DropHolds :exec
-- Takes away all but those that stay.
DELETE FROM node_holds WHERE node_id = $1 AND NOT (id = ANY(sqlc.arg(stay)::uuid[]));

-- name: SetTainted :one
UPDATE nodes SET tainted_at = clock_timestamp(), version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: SetRoot :one
-- The time of root access is never later than that of the access it came with.
UPDATE nodes SET root_at = GREATEST(root_at, LEAST(COALESCE(sqlc.narg(at)::timestamptz, tainted_at), tainted_at)), root_cause = sqlc.arg(cause)
WHERE id = $1 RETURNING *;

-- name: EndRoot :one
UPDATE nodes SET root_ended_at = clock_timestamp(), root_risk = sqlc.arg(risk), root_accepted_by = sqlc.arg(accepted_by) WHERE id = $1 RETURNING *;

-- name: SetInstalled :one
UPDATE nodes SET installed_at = status_changed_at, installed_by = sqlc.arg(installed_by), installed_generation = generation
WHERE id = $1 RETURNING *;

-- name: SetClean :one
-- A validation cannot have looked later than now, and an older one changes
-- nothing.
UPDATE nodes SET clean_at = GREATEST(clean_at, LEAST(sqlc.arg(at)::timestamptz, clock_timestamp())),
    version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: ForgetAgent :one
UPDATE nodes SET agent_instance = '', first_poll_at = NULL, awaited_by = $2
WHERE id = $1 RETURNING *;

-- name: BindAgent :one
UPDATE nodes SET agent_instance = $2, generation = $3, reported_agent_version = $4, reported_agent_commit = $5,
    capabilities = $6, verifier_version = 0, trust_bundle = '', trust_refused = '', first_poll_at = NULL,
    hardware_said = $7,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: SetFirstPoll :one
UPDATE nodes SET first_poll_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- name: SetAwaited :one
UPDATE nodes SET awaited_by = $2, first_poll_at = NULL WHERE id = $1 RETURNING *;

-- name: SetHost :one
UPDATE nodes SET host = $2, version = version + 1, updated_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- name: SetReport :one
UPDATE nodes SET reported_agent_version = $2, reported_agent_commit = $3, verifier_version = $4, capabilities = $5, hardware_said = $6,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: SetInspection :exec
INSERT INTO node_inspections (node_id, found) VALUES ($1, $2)
ON CONFLICT (node_id) DO UPDATE SET found = excluded.found, inspected_at = excluded.inspected_at;

-- name: Inspection :one
SELECT found, inspected_at FROM node_inspections WHERE node_id = $1;

-- name: SetVerifiers :exec
UPDATE nodes SET verifier_version = $2, updated_at = clock_timestamp() WHERE id = $1 AND verifier_version <> $2;

-- name: SetTrust :one
UPDATE nodes SET trust_bundle = $2, trust_refused = $3, updated_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- name: SetDelivery :one
UPDATE nodes SET last_delivery_attempt_at = clock_timestamp(), last_delivery_result = $2, last_delivery_correlation_id = $3, identity_void = ''
WHERE id = $1 RETURNING *;

-- name: NoteDelivery :exec
UPDATE nodes SET last_delivery_attempt_at = clock_timestamp(), last_delivery_result = $2, last_delivery_correlation_id = $3
WHERE id = $1;

-- name: SetCertificateEnd :one
UPDATE nodes SET certificate_not_after = $2, last_delivery_result = $3 WHERE id = $1 RETURNING *;

-- name: VerifiersBehind :many
SELECT id, count(*) OVER () AS total FROM nodes
WHERE node_is(status, 'attended') AND agent_instance <> '' AND verifier_version < $1
ORDER BY id LIMIT $2;

-- name: BundleBehind :many
SELECT id, count(*) OVER () AS total FROM nodes
WHERE node_is(status, 'attended') AND agent_instance <> '' AND trust_bundle <> $1
ORDER BY id LIMIT $2;

-- name: Enrolled :one
SELECT count(*) FROM nodes
WHERE node_is(status, 'attended') AND agent_instance <> '';

-- name: InsertEvent :exec
INSERT INTO node_events (node_id, kind, event, from_status, to_status, cause, actor_kind, actor_id, correlation_id, snapshot)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: ListEvents :many
SELECT seq, node_id, occurred_at, kind, event, from_status, to_status, cause, actor_kind, actor_id, correlation_id FROM node_events
WHERE node_id = $1 AND (sqlc.narg(before)::bigint IS NULL OR seq < sqlc.narg(before))
  AND (sqlc.narg(until)::timestamptz IS NULL OR occurred_at <= sqlc.narg(until))
ORDER BY seq DESC LIMIT sqlc.arg(page_size);

-- name: SnapshotAt :one
SELECT s.snapshot, COALESCE((
    SELECT i.snapshot -> 'inspection' FROM node_events i
    WHERE i.node_id = $1 AND i.seq <= s.seq AND i.snapshot ? 'inspection' ORDER BY i.seq DESC LIMIT 1), 'null')::jsonb AS inspection
FROM node_events s
WHERE s.node_id = $1 AND s.occurred_at <= sqlc.arg(at)::timestamptz AND s.snapshot ? 'status'
ORDER BY s.seq DESC LIMIT 1;

-- name: ObservedUntil :one
SELECT snapshot FROM node_events
WHERE node_id = $1 AND kind = 'observed' AND (sqlc.narg(until)::timestamptz IS NULL OR occurred_at <= sqlc.narg(until))
ORDER BY seq DESC LIMIT 1;

-- name: RecentConflict :one
SELECT EXISTS (SELECT 1 FROM node_events WHERE node_id = $1 AND kind = 'identity_conflict' AND event = $2
    AND occurred_at > clock_timestamp() - interval '1 hour');

-- name: InsertToken :exec
INSERT INTO node_tokens (token_hash, node_id, purpose, expires_at, created_by) VALUES ($1, $2, $3, $4, $5);

-- name: RevokeUnusedTokens :exec
UPDATE node_tokens SET revoked_at = clock_timestamp()
WHERE node_id = $1 AND purpose = $2 AND consumed_at IS NULL AND revoked_at IS NULL;

-- name: RevokeTokens :exec
UPDATE node_tokens SET revoked_at = clock_timestamp() WHERE node_id = $1 AND revoked_at IS NULL;

-- name: RevokeToken :exec
UPDATE node_tokens SET revoked_at = clock_timestamp() WHERE token_hash = $1 AND revoked_at IS NULL;

-- name: VoidIdentity :one
UPDATE nodes SET identity_void = $2, first_poll_at = NULL, version = version + 1, updated_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- name: Hardware :one
SELECT * FROM node_hardware WHERE node_id = $1;

-- name: SetHardware :exec
INSERT INTO node_hardware (node_id, known, origin) VALUES ($1, $2, $3)
ON CONFLICT (node_id) DO UPDATE SET known = excluded.known, origin = excluded.origin, learned_at = excluded.learned_at;

-- name: ExpectAddress :exec
UPDATE node_hardware SET addresses = '{}', address_required = $2 WHERE node_id = $1;

-- name: SetAddresses :exec
UPDATE node_hardware SET addresses = $2 WHERE node_id = $1 AND addresses <> $2;

-- name: EnrolledFrom :exec
UPDATE node_hardware SET enrolled_from = $2 WHERE node_id = $1;

-- name: RefuseHardware :exec
-- A machine that says nothing leaves the claim that an operator may be reading; the
-- history of the node has it all the same.
UPDATE node_hardware SET refused = COALESCE(sqlc.narg(refused), refused),
    refused_why = CASE WHEN sqlc.narg(refused)::jsonb IS NULL AND refused IS NOT NULL THEN refused_why ELSE $2 END,
    refused_at = CASE WHEN sqlc.narg(refused)::jsonb IS NULL AND refused IS NOT NULL THEN refused_at ELSE clock_timestamp() END
WHERE node_id = $1;

-- name: AcceptHardware :exec
UPDATE node_hardware SET known = $2, origin = 'accepted', learned_at = clock_timestamp(), refused = NULL, refused_why = '', refused_at = NULL
WHERE node_id = $1;

-- name: ExtendToken :one
UPDATE node_tokens SET expires_at = greatest(expires_at, sqlc.arg(expires_at)) WHERE token_hash = (
    SELECT t.token_hash FROM node_tokens t
    WHERE t.node_id = $1 AND t.purpose = 'bootstrap' AND t.consumed_at IS NULL AND t.revoked_at IS NULL
    ORDER BY t.created_at DESC LIMIT 1)
RETURNING expires_at;

-- name: Token :one
SELECT sqlc.embed(t), n.status FROM node_tokens t JOIN nodes n ON n.id = t.node_id WHERE t.token_hash = $1;

-- name: LockToken :one
SELECT * FROM node_tokens WHERE token_hash = $1 FOR NO KEY UPDATE;

-- name: ConsumeToken :exec
UPDATE node_tokens SET consumed_at = clock_timestamp(), consumed_by_key = $2 WHERE token_hash = $1;

-- name: TokenOfKey :one
SELECT EXISTS (SELECT 1 FROM node_tokens WHERE node_id = $1 AND consumed_by_key = $2 AND revoked_at IS NULL);

-- name: InsertCertificate :exec
INSERT INTO node_certificates (serial, node_id, key_fingerprint, not_after) VALUES ($1, $2, $3, $4);

-- name: CertificateLives :one
SELECT EXISTS (SELECT 1 FROM node_certificates WHERE serial = $1 AND node_id = $2 AND revoked_at IS NULL);

-- name: RevokeCertificates :exec
UPDATE node_certificates SET revoked_at = clock_timestamp(), revoked_reason = $2 WHERE node_id = $1 AND revoked_at IS NULL;

-- name: RevokedSerials :many
SELECT serial FROM node_certificates WHERE node_id = $1 AND revoked_at IS NOT NULL AND not_after > clock_timestamp() ORDER BY serial;

-- name: Presented :one
SELECT n.status, n.generation, n.onboarding_mode, n.verifier_version, n.trust_bundle, n.trust_refused, n.agent_instance,
    (n.first_poll_at IS NOT NULL)::boolean AS polled, (x.revoked_at IS NOT NULL)::boolean AS revoked,
    COALESCE(c.session_id, '')::text AS session_id, COALESCE(c.previous_session, '')::text AS previous_session,
    COALESCE(c.refused_session, '')::text AS refused_session
FROM node_certificates x JOIN nodes n ON n.id = x.node_id LEFT JOIN node_contacts c ON c.node_id = n.id
WHERE x.serial = $1 AND x.node_id = $2;

-- name: LockContact :one
SELECT session_id, previous_session, refused_session,
    (last_contact_at > clock_timestamp() - make_interval(secs => sqlc.arg(quiet_seconds)::float8))::boolean AS heard
FROM node_contacts WHERE node_id = $1 FOR NO KEY UPDATE;

-- name: InsertContact :exec
INSERT INTO node_contacts (node_id, last_contact_at, silent_from, silent_until)
VALUES ($1, clock_timestamp(), 'epoch', clock_timestamp()) ON CONFLICT (node_id) DO NOTHING;

-- name: SetSession :exec
UPDATE node_contacts SET session_id = $2, previous_session = $3, refused_session = $4 WHERE node_id = $1;

-- name: ForgetConflict :exec
UPDATE node_contacts SET previous_session = '', refused_session = '' WHERE node_id = $1;

-- name: DeleteContact :exec
DELETE FROM node_contacts WHERE node_id = $1;

-- name: ForgetSessions :exec
UPDATE node_contacts SET session_id = '', previous_session = '', refused_session = '' WHERE node_id = $1;

-- name: Flush :exec
WITH heard AS (
    UPDATE node_contacts c SET
        last_contact_at = h.at, agent_memory = NULLIF(h.memory, 0),
        agent_started_at = CASE WHEN h.uptime > 0 THEN h.at - make_interval(secs => h.uptime) END,
        recovering_since = CASE WHEN h.at - c.last_contact_at > make_interval(secs => sqlc.arg(gap_seconds)::float8)
            THEN h.at ELSE c.recovering_since END,
        silent_from = CASE WHEN h.at - c.last_contact_at > make_interval(secs => sqlc.arg(gap_seconds)::float8)
            THEN c.last_contact_at ELSE c.silent_from END,
        silent_until = CASE WHEN h.at - c.last_contact_at > make_interval(secs => sqlc.arg(gap_seconds)::float8)
            THEN h.at ELSE c.silent_until END
    FROM (SELECT u.node_id, u.memory, u.uptime, clock_timestamp() - make_interval(secs => u.age) AS at
          FROM (SELECT unnest(sqlc.arg(nodes)::uuid[]) AS node_id, unnest(sqlc.arg(ages)::float8[]) AS age,
              unnest(sqlc.arg(memories)::bigint[]) AS memory, unnest(sqlc.arg(uptimes)::float8[]) AS uptime) u) h
    WHERE c.node_id = h.node_id AND c.last_contact_at < h.at
)
INSERT INTO node_listening (listening_since, last_flush_at)
SELECT clock_timestamp(), clock_timestamp() WHERE sqlc.arg(listening)::boolean
ON CONFLICT (one_row) DO UPDATE SET last_flush_at = excluded.last_flush_at, listening_since =
    CASE WHEN excluded.last_flush_at - node_listening.last_flush_at > make_interval(secs => sqlc.arg(deaf_seconds)::float8)
        THEN excluded.listening_since ELSE node_listening.listening_since END;

-- name: TrySweep :one
SELECT pg_try_advisory_xact_lock(hashtext('gpuaas node sweep'));

-- name: Lost :many
SELECT n.id, c.last_contact_at FROM node_contacts c JOIN nodes n ON n.id = c.node_id
WHERE n.status = 'active'
  AND c.last_contact_at < statement_timestamp() - make_interval(secs => sqlc.arg(offline_seconds)::float8)
  AND n.status_changed_at < statement_timestamp() - make_interval(secs => sqlc.arg(offline_seconds)::float8)
  AND EXISTS (SELECT 1 FROM node_listening l
      WHERE l.listening_since < statement_timestamp() - make_interval(secs => sqlc.arg(offline_seconds)::float8)
        AND l.last_flush_at > statement_timestamp() - make_interval(secs => sqlc.arg(deaf_seconds)::float8))
ORDER BY n.id LIMIT sqlc.arg(batch) FOR NO KEY UPDATE OF n SKIP LOCKED;

-- name: Returned :many
SELECT n.id FROM nodes n JOIN node_contacts c ON c.node_id = n.id
WHERE n.status = 'offline'
  AND c.last_contact_at > statement_timestamp() - make_interval(secs => sqlc.arg(offline_seconds)::float8)
  AND c.last_contact_at > n.status_changed_at
  AND GREATEST(c.recovering_since, n.status_changed_at) <= statement_timestamp() - (
      SELECT CASE WHEN count(*) <= 1 THEN interval '0' ELSE least(interval '30 seconds' * power(2, count(*) - 1), interval '10 minutes') END
      FROM node_events e WHERE e.node_id = n.id AND e.event = 'lose_contact' AND e.occurred_at > statement_timestamp() - interval '1 hour')
ORDER BY n.id LIMIT sqlc.arg(batch) FOR NO KEY UPDATE OF n SKIP LOCKED;

-- name: CountByStatus :many
SELECT status, count(*) AS nodes FROM nodes WHERE status <> 'deleted' GROUP BY status;

-- name: OpenBaseline :exec
-- An installation that enrols again before it was taken over by another keeps
-- what there is of it.
INSERT INTO node_baselines (node_id, generation) VALUES ($1, $2) ON CONFLICT (node_id, generation) DO NOTHING;

-- name: NewestBaseline :one
SELECT * FROM node_baselines WHERE node_id = $1 ORDER BY generation DESC LIMIT 1 FOR UPDATE;

-- name: EarlierBaseline :one
-- Of this installation, by this node or by one that the machine was before.
SELECT EXISTS (SELECT FROM node_baselines WHERE NOT (node_id = @node_id AND generation = @generation) AND installation = @installation AND content IS NOT NULL);

-- name: SetBaseline :exec
UPDATE node_baselines SET installation = $3, content = $4, digest = $5, signature = $6, certificate_serial = $7, taken_at = $8, kept_at = clock_timestamp()
WHERE node_id = $1 AND generation = $2;

-- name: BaselineOf :one
-- The newest of an installation. One that cannot be told from others counts only
-- while no other has enrolled.
SELECT b.* FROM node_baselines b
WHERE b.node_id = $1 AND b.installation = $2 AND b.content IS NOT NULL
  AND (b.installation <> '' OR NOT EXISTS (SELECT FROM node_baselines l WHERE l.node_id = b.node_id AND l.generation > b.generation))
ORDER BY b.generation DESC LIMIT 1;

-- name: PresentBaseline :one
-- Of the installation that enrolled last; none where its baseline has not come.
SELECT b.installation FROM node_baselines b
WHERE b.node_id = $1 AND b.content IS NOT NULL
  AND NOT EXISTS (SELECT FROM node_baselines l WHERE l.node_id = b.node_id AND l.generation > b.generation);

-- name: Amendments :many
SELECT entries FROM node_baseline_amendments WHERE node_id = $1 AND generation = $2 ORDER BY amended_at, task_id;

-- name: InsertAmendment :exec
-- To the newest baseline that has come; there may be none to amend.
INSERT INTO node_baseline_amendments (task_id, node_id, generation, task_type, entries, signature, certificate_serial)
SELECT @task_id, b.node_id, b.generation, @task_type, @entries, @signature, @certificate_serial
FROM node_baselines b WHERE b.node_id = @node_id AND b.content IS NOT NULL ORDER BY b.generation DESC LIMIT 1
ON CONFLICT (task_id) DO NOTHING;

-- name: InsertRestore :execrows
INSERT INTO restores (taken_at, restored_at) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: LostInRestore :one
-- Engines date certificates back a little, and clocks differ.
SELECT EXISTS (SELECT FROM restores
    WHERE sqlc.arg(issued_at)::timestamptz BETWEEN taken_at - interval '5 minutes' AND restored_at);

-- name: HasLivingCertificate :one
SELECT EXISTS (SELECT FROM node_certificates WHERE node_id = $1 AND revoked_at IS NULL);

-- name: CountPrunableCertificates :one
SELECT count(*) FROM node_certificates_prunable p WHERE p.not_after < sqlc.arg(before)::timestamptz
  AND (SELECT count(*) FROM (SELECT FROM node_certificates n WHERE n.node_id = p.node_id AND n.issued_at > p.issued_at
    LIMIT sqlc.arg(keep)::int) newer) >= sqlc.arg(keep)::int;

-- name: PruneCertificates :execrows
DELETE FROM node_certificates WHERE serial IN (
    SELECT p.serial FROM node_certificates_prunable p WHERE p.not_after < sqlc.arg(before)::timestamptz
      AND (SELECT count(*) FROM (SELECT FROM node_certificates n WHERE n.node_id = p.node_id AND n.issued_at > p.issued_at
        LIMIT sqlc.arg(keep)::int) newer) >= sqlc.arg(keep)::int
    ORDER BY p.not_after LIMIT sqlc.arg(batch)::int);

-- name: CountPrunableRenewals :one
SELECT count(*) FROM node_events e WHERE e.kind = 'certificate_renewed' AND e.occurred_at < sqlc.arg(before)::timestamptz
  AND (SELECT count(*) FROM (SELECT FROM node_events n WHERE n.node_id = e.node_id AND n.kind = 'certificate_renewed' AND n.seq > e.seq
    LIMIT sqlc.arg(keep)::int) newer) >= sqlc.arg(keep)::int;

-- name: PruneRenewals :execrows
DELETE FROM node_events WHERE seq IN (
    SELECT e.seq FROM node_events e WHERE e.kind = 'certificate_renewed' AND e.occurred_at < sqlc.arg(before)::timestamptz
      AND (SELECT count(*) FROM (SELECT FROM node_events n WHERE n.node_id = e.node_id AND n.kind = 'certificate_renewed' AND n.seq > e.seq
        LIMIT sqlc.arg(keep)::int) newer) >= sqlc.arg(keep)::int
    LIMIT sqlc.arg(batch)::int);

-- name: OpenHostKeys :exec
-- An installation that enrols again before it was taken over by another keeps
-- what there is of it.
INSERT INTO node_host_keys (node_id, generation) VALUES ($1, $2) ON CONFLICT (node_id, generation) DO NOTHING;

-- name: OpenHostKeysOfBefore :one
-- Of an installation that enrolled before host keys were kept. Who has access to
-- it now had it when it began to be known.
INSERT INTO node_host_keys (node_id, generation, opened_at) SELECT n.id, n.generation, coalesce(n.tainted_at, clock_timestamp())
FROM nodes n WHERE n.id = $1 RETURNING *;

-- name: NewestHostKeys :one
SELECT * FROM node_host_keys WHERE node_id = $1 ORDER BY generation DESC LIMIT 1;

-- name: BelieveHostKeys :one
UPDATE node_host_keys SET keys = @keys, reported = @keys, known_at = clock_timestamp(), changed_at = NULL
WHERE node_id = @node_id AND generation = @generation RETURNING *;

-- name: DoubtHostKeys :one
UPDATE node_host_keys SET reported = @reported, changed_at = CASE WHEN @others::boolean THEN coalesce(changed_at, clock_timestamp()) END
WHERE node_id = @node_id AND generation = @generation RETURNING *;

-- name: BelieveWhatIsReported :exec
-- The newest installation was proven clean as it is.
UPDATE node_host_keys h SET keys = reported, known_at = clock_timestamp(), changed_at = NULL
WHERE h.node_id = $1 AND h.changed_at IS NOT NULL
  AND NOT EXISTS (SELECT FROM node_host_keys l WHERE l.node_id = h.node_id AND l.generation > h.generation);

-- name: HostKeysOf :many
-- Of the newest installations of nodes.
SELECT DISTINCT ON (node_id) * FROM node_host_keys WHERE node_id = ANY (@node_ids::uuid[]) ORDER BY node_id, generation DESC;
