-- +goose Up
CREATE TABLE organizations (
    id         uuid PRIMARY KEY,
    slug       text NOT NULL CONSTRAINT tenant_slug UNIQUE CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name       text NOT NULL,
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE projects (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL REFERENCES organizations,
    slug       text NOT NULL CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name       text NOT NULL,
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (org_id, slug)
);

-- A person. Known by e-mail when invited; by issuer and subject once signed in.
CREATE TABLE users (
    id            uuid PRIMARY KEY,
    email         text NOT NULL,
    name          text NOT NULL DEFAULT '',
    oidc_issuer   text,
    oidc_subject  text,
    platform_role text CHECK (platform_role IN ('platform_admin', 'auditor')),
    disabled      boolean NOT NULL DEFAULT false,
    version       bigint NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (oidc_issuer, oidc_subject),
    CHECK ((oidc_issuer IS NULL) = (oidc_subject IS NULL))
);
CREATE UNIQUE INDEX users_email ON users (lower(email));

CREATE TABLE tenant_memberships (
    org_id     uuid NOT NULL REFERENCES organizations,
    user_id    uuid NOT NULL REFERENCES users,
    role       text NOT NULL CHECK (role IN ('tenant_admin')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX tenant_memberships_user ON tenant_memberships (user_id);

CREATE TABLE project_memberships (
    project_id uuid NOT NULL REFERENCES projects,
    user_id    uuid NOT NULL REFERENCES users,
    role       text NOT NULL CHECK (role IN ('project_admin', 'project_member', 'project_viewer')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (project_id, user_id)
);
CREATE INDEX project_memberships_user ON project_memberships (user_id);

CREATE TABLE service_accounts (
    id         uuid PRIMARY KEY,
    project_id uuid NOT NULL REFERENCES projects,
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('project_admin', 'project_member', 'project_viewer')),
    status     service_account_status NOT NULL DEFAULT 'active',
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX service_accounts_name ON service_accounts (project_id, name) WHERE status <> 'deleted';

-- Bearer tokens of people, their sign-ins and service accounts. Only the
-- SHA-256 of the token is stored: the token itself is 256 random bits, so the
-- hash needs no salt and cannot be turned back.
CREATE TABLE api_tokens (
    id                 uuid PRIMARY KEY,
    hash               bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    kind               text NOT NULL CHECK (kind IN ('api', 'session')),
    user_id            uuid REFERENCES users,
    service_account_id uuid REFERENCES service_accounts,
    name               text NOT NULL,
    scopes             text[] NOT NULL DEFAULT '{}', -- empty: all that the owner may do
    expires_at         timestamptz NOT NULL,
    revoked_at         timestamptz,
    last_used_at       timestamptz,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((user_id IS NULL) <> (service_account_id IS NULL))
);
CREATE INDEX api_tokens_user ON api_tokens (user_id);
CREATE INDEX api_tokens_service_account ON api_tokens (service_account_id);

-- Sign-ins that were sent to the identity provider and have not come back yet.
CREATE TABLE oidc_logins (
    state_hash     bytea PRIMARY KEY CHECK (length(state_hash) = 32),
    nonce          text NOT NULL,
    redirect_uri   text NOT NULL,
    code_challenge text NOT NULL,
    expires_at     timestamptz NOT NULL
);
CREATE INDEX oidc_logins_expires ON oidc_logins (expires_at);

GRANT SELECT, INSERT, UPDATE ON organizations, projects, users, service_accounts, api_tokens TO gpuaas_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenant_memberships, project_memberships, oidc_logins TO gpuaas_app;
