-- name: InsertTenant :one
INSERT INTO organizations (id, slug, name) VALUES ($1, $2, $3) RETURNING *;

-- name: Tenant :one
SELECT * FROM organizations WHERE id = $1;

-- name: LockTenant :one
SELECT * FROM organizations WHERE id = $1 FOR NO KEY UPDATE;

-- name: UpdateTenant :one
UPDATE organizations SET name = $2, version = version + 1, updated_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- name: DisableTenant :one
UPDATE organizations SET disabled_at = clock_timestamp(), disabled_reason = sqlc.arg(reason), disabled_by = sqlc.arg(disabled_by),
    version = version + 1, updated_at = clock_timestamp() WHERE id = sqlc.arg(id) RETURNING *;

-- name: EnableTenant :one
UPDATE organizations SET disabled_at = NULL, disabled_reason = '', disabled_by = '', version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: ListTenants :many
SELECT * FROM organizations
WHERE id > sqlc.arg(after)::uuid AND (sqlc.arg(everything)::boolean OR id = ANY (sqlc.arg(ids)::uuid[]))
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: InsertProject :one
INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, $3, $4) RETURNING *;

-- name: Project :one
SELECT * FROM projects WHERE id = $1;

-- name: ProjectOrg :one
SELECT org_id FROM projects WHERE id = $1;

-- name: LockProject :one
SELECT * FROM projects WHERE id = $1 FOR NO KEY UPDATE;

-- name: UpdateProject :one
UPDATE projects SET name = $2, version = version + 1, updated_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- name: ListProjects :many
SELECT * FROM projects
WHERE org_id = $1 AND id > sqlc.arg(after)::uuid
  AND (sqlc.arg(everything)::boolean OR id = ANY (sqlc.arg(ids)::uuid[]))
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: ListTenantMembers :many
SELECT m.user_id, u.email, u.name, m.role, m.created_at
FROM tenant_memberships m JOIN users u ON u.id = m.user_id
WHERE m.org_id = $1 AND m.user_id > sqlc.arg(after)::uuid
ORDER BY m.user_id LIMIT sqlc.arg(page_size);

-- name: TenantMember :one
SELECT m.user_id, u.email, u.name, m.role, m.created_at
FROM tenant_memberships m JOIN users u ON u.id = m.user_id
WHERE m.org_id = $1 AND m.user_id = $2;

-- name: PutTenantMember :exec
INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, $3)
ON CONFLICT (org_id, user_id) DO UPDATE SET role = excluded.role;

-- name: DeleteTenantMember :exec
DELETE FROM tenant_memberships WHERE org_id = $1 AND user_id = $2;

-- name: CountOtherTenantAdmins :one
SELECT count(*) FROM tenant_memberships m JOIN users u ON u.id = m.user_id
WHERE m.org_id = $1 AND m.user_id <> $2 AND m.role = 'tenant_admin' AND NOT u.disabled;

-- name: ListProjectMembers :many
SELECT m.user_id, u.email, u.name, m.role, m.created_at
FROM project_memberships m JOIN users u ON u.id = m.user_id
WHERE m.project_id = $1 AND m.user_id > sqlc.arg(after)::uuid
ORDER BY m.user_id LIMIT sqlc.arg(page_size);

-- name: ProjectMember :one
SELECT m.user_id, u.email, u.name, m.role, m.created_at
FROM project_memberships m JOIN users u ON u.id = m.user_id
WHERE m.project_id = $1 AND m.user_id = $2;

-- name: PutProjectMember :exec
INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, $3)
ON CONFLICT (project_id, user_id) DO UPDATE SET role = excluded.role;

-- name: DeleteProjectMember :exec
DELETE FROM project_memberships WHERE project_id = $1 AND user_id = $2;

-- name: InsertUser :one
INSERT INTO users (id, email, name, oidc_issuer, oidc_subject, platform_role)
VALUES ($1, $2, $3, $4, $5, $6) RETURNING *;

-- name: User :one
SELECT * FROM users WHERE id = $1;

-- name: LockUser :one
SELECT * FROM users WHERE id = $1 FOR NO KEY UPDATE;

-- name: HoldUser :one
-- Keeps the user from being disabled until the transaction ends.
SELECT * FROM users WHERE id = $1 FOR SHARE;

-- name: LockUserByIdentity :one
SELECT * FROM users WHERE oidc_issuer = $1 AND oidc_subject = $2 FOR NO KEY UPDATE;

-- name: LockUserByEmail :one
SELECT * FROM users WHERE lower(email) = lower(sqlc.arg(email)::text) FOR NO KEY UPDATE;

-- name: LockPlatformAdmins :many
-- Locks in one order, so that two administrators who demote each other wait for
-- each other.
SELECT id FROM users WHERE platform_role = 'platform_admin' AND NOT disabled ORDER BY id FOR NO KEY UPDATE;

-- name: UpdateUser :one
UPDATE users SET name = $2, platform_role = $3, disabled = $4, version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: LinkUser :one
UPDATE users SET name = $2, oidc_issuer = $3, oidc_subject = $4, version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: ListUsers :many
SELECT * FROM users
WHERE id > sqlc.arg(after)::uuid AND (sqlc.narg(email)::text IS NULL OR lower(email) = lower(sqlc.narg(email)))
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: InsertServiceAccount :one
INSERT INTO service_accounts (id, project_id, name, role) VALUES ($1, $2, $3, $4) RETURNING *;

-- name: ServiceAccount :one
SELECT * FROM service_accounts WHERE project_id = $1 AND id = $2 AND status <> 'deleted';

-- name: LockServiceAccount :one
SELECT * FROM service_accounts WHERE project_id = $1 AND id = $2 AND status <> 'deleted' FOR NO KEY UPDATE;

-- name: UpdateServiceAccount :one
UPDATE service_accounts SET role = $2, status = $3, version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: ListServiceAccounts :many
SELECT * FROM service_accounts
WHERE project_id = $1 AND status <> 'deleted' AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: InsertToken :one
INSERT INTO api_tokens (id, hash, kind, user_id, service_account_id, name, scopes, expires_at, created_at, made_from)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING *;

-- name: ListUserTokens :many
-- Lists valid tokens only.
SELECT * FROM api_tokens
WHERE user_id = $1 AND revoked_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: ListServiceAccountTokens :many
-- Lists valid tokens only.
SELECT * FROM api_tokens
WHERE service_account_id = $1 AND revoked_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: HoldToken :one
-- Keeps the token from being revoked until the transaction ends.
SELECT * FROM api_tokens WHERE id = $1 FOR SHARE;

-- name: TokenLine :one
-- The token and all tokens it was made from: how many there are, and whether
-- one of them belongs to a service account.
WITH RECURSIVE line AS (
    SELECT t.id, t.made_from, coalesce(t.service_account_id = sqlc.arg(service_account_id), false) AS own
    FROM api_tokens t WHERE t.id = sqlc.arg(id)
    UNION ALL
    SELECT m.id, m.made_from, coalesce(m.service_account_id = sqlc.arg(service_account_id), false)
    FROM api_tokens m JOIN line l ON m.id = l.made_from
)
SELECT count(*) AS length, coalesce(bool_or(own), false)::boolean AS of_account FROM line;

-- name: WorkingSession :one
SELECT id, user_id FROM api_tokens
WHERE hash = $1 AND kind = 'session' AND revoked_at IS NULL AND expires_at > sqlc.arg(now)::timestamptz;

-- name: RevokeToken :many
-- Also revokes all tokens that were made with it, directly or not, whoever owns
-- them.
WITH RECURSIVE ended AS (
    SELECT t.id FROM api_tokens t
    WHERE t.id = sqlc.arg(id) AND t.revoked_at IS NULL
      AND (t.user_id = sqlc.arg(user_id) OR t.service_account_id = sqlc.arg(service_account_id))
    UNION ALL
    SELECT m.id FROM api_tokens m JOIN ended e ON m.made_from = e.id
)
UPDATE api_tokens SET revoked_at = sqlc.arg(now)::timestamptz
WHERE api_tokens.id IN (SELECT ended.id FROM ended) AND revoked_at IS NULL
  AND (api_tokens.id = sqlc.arg(id) OR expires_at > sqlc.arg(now)) RETURNING *;

-- name: RevokeTokensOf :execrows
-- All tokens of a person or a service account, and all tokens that were made
-- with them.
WITH RECURSIVE ended AS (
    SELECT t.id FROM api_tokens t
    WHERE t.user_id = sqlc.arg(user_id) OR t.service_account_id = sqlc.arg(service_account_id)
    UNION
    SELECT m.id FROM api_tokens m JOIN ended e ON m.made_from = e.id
)
UPDATE api_tokens SET revoked_at = sqlc.arg(now)::timestamptz
WHERE api_tokens.id IN (SELECT ended.id FROM ended) AND revoked_at IS NULL;

-- name: AccountHome :one
SELECT p.id AS project_id, p.org_id FROM service_accounts a JOIN projects p ON p.id = a.project_id WHERE a.id = $1;

-- name: UserRoles :many
SELECT m.org_id, m.role FROM tenant_memberships m WHERE m.user_id = $1
UNION ALL
SELECT p.org_id, m.role FROM project_memberships m JOIN projects p ON p.id = m.project_id WHERE m.user_id = $1;

-- name: WaysIn :many
-- Tokens with which somebody can administer the platform; the one that ends
-- last comes first.
SELECT t.* FROM api_tokens t JOIN users u ON u.id = t.user_id
WHERE u.platform_role = 'platform_admin' AND NOT u.disabled AND t.scopes = '{}'
  AND t.revoked_at IS NULL AND t.expires_at > sqlc.arg(now)::timestamptz
ORDER BY t.expires_at DESC, t.id;

-- name: CountLinkedAdmins :one
-- Administrators who have signed in through an identity provider.
SELECT count(*) FROM users WHERE platform_role = 'platform_admin' AND NOT disabled AND oidc_issuer = sqlc.arg(issuer)::text;

-- name: NoteEndTold :execrows
UPDATE api_tokens SET end_told_at = sqlc.arg(now)::timestamptz
WHERE id = $1 AND (end_told_at IS NULL OR end_told_at <= sqlc.arg(before)::timestamptz);

-- name: TokenOwner :one
-- All that a request needs to know about its caller, in one round trip.
SELECT t.id, t.hash, t.scopes, t.expires_at, t.revoked_at, t.last_used_at, t.user_id, t.service_account_id,
       u.email AS user_email, u.name AS user_name, u.platform_role, u.disabled AS user_disabled,
       a.name AS account_name, a.role AS account_role, a.status AS account_status, a.project_id, p.org_id,
       coalesce((SELECT jsonb_agg(jsonb_build_object('org', m.org_id, 'role', m.role))
                 FROM tenant_memberships m WHERE m.user_id = t.user_id), '[]')::jsonb AS tenant_roles,
       coalesce((SELECT jsonb_agg(jsonb_build_object('project', m.project_id, 'org', mp.org_id, 'role', m.role))
                 FROM project_memberships m JOIN projects mp ON mp.id = m.project_id
                 WHERE m.user_id = t.user_id), '[]')::jsonb AS project_roles,
       (t.made_from IS NOT NULL AND token_line_ended(t.made_from, sqlc.arg(now)::timestamptz))::boolean AS line_ended
FROM api_tokens t
LEFT JOIN users u ON u.id = t.user_id
LEFT JOIN service_accounts a ON a.id = t.service_account_id
LEFT JOIN projects p ON p.id = a.project_id
WHERE t.hash = sqlc.arg(hash);

-- name: RolesOf :one
-- The roles that a user or a service account holds now, on the platform, in a tenant and in a project.
SELECT COALESCE(max(u.platform_role), '')::text AS platform, COALESCE(max(t.role), '')::text AS tenant,
       COALESCE(max(m.role), max(a.role), '')::text AS project
FROM (SELECT sqlc.arg(who)::uuid AS id) AS who
LEFT JOIN users u ON u.id = who.id AND NOT u.disabled
LEFT JOIN tenant_memberships t ON t.user_id = u.id AND t.org_id = sqlc.arg(org_id)
LEFT JOIN project_memberships m ON m.user_id = u.id AND m.project_id = sqlc.arg(project_id)
LEFT JOIN service_accounts a ON a.id = who.id AND a.status = 'active' AND a.project_id = sqlc.arg(project_id);

-- name: TokenHash :one
SELECT hash FROM api_tokens WHERE id = $1;

-- name: TouchToken :exec
UPDATE api_tokens SET last_used_at = sqlc.arg(now)::timestamptz
WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= sqlc.arg(before)::timestamptz);

-- name: InsertLogin :exec
INSERT INTO oidc_logins (state_hash, nonce, redirect_uri, code_challenge, expires_at) VALUES ($1, $2, $3, $4, $5);

-- name: TakeLogin :one
-- Deleting the row uses the state, so it works once.
DELETE FROM oidc_logins WHERE state_hash = $1 RETURNING *;

-- name: DeleteExpiredLogins :exec
DELETE FROM oidc_logins WHERE expires_at < sqlc.arg(now)::timestamptz;

-- name: LockBootstrap :exec
-- Only one replica at a time checks whether the first administrator exists.
SELECT pg_advisory_xact_lock(hashtext('gpuaas identity bootstrap'));
