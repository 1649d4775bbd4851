-- +goose Up
-- Files that all replicas share, by the digest of their content. They are rows, so
-- that a backup of the database has them too. See docs/adr/0042-blobs-in-the-database.md.
CREATE TABLE blobs (
    digest     text PRIMARY KEY CHECK (digest ~ '^[0-9a-f]{64}$'),
    size       bigint NOT NULL CHECK (size > 0),
    content_id uuid NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN blobs.digest IS 'SHA-256 of the content, in hexadecimal digits.';

-- An upload that has not been completed. Its id is that of the content it brings.
CREATE TABLE blob_uploads (
    id         uuid PRIMARY KEY,
    purpose    text NOT NULL CHECK (length(purpose) BETWEEN 1 AND 500),
    digest     text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    size       bigint NOT NULL CHECK (size > 0),
    received   bigint NOT NULL DEFAULT 0 CHECK (received BETWEEN 0 AND size),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    touched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT blob_uploads_purpose UNIQUE (purpose, digest, size)
);
COMMENT ON COLUMN blob_uploads.purpose IS 'What the blob will be for, in the words of its owner.';
CREATE INDEX blob_uploads_touched ON blob_uploads (touched_at);

CREATE TABLE blob_chunks (
    content_id uuid NOT NULL,
    start      bigint NOT NULL CHECK (start >= 0),
    data       bytea NOT NULL CHECK (length(data) BETWEEN 1 AND 1048576),
    PRIMARY KEY (content_id, start)
);

-- Who needs a blob. One that nobody needs is removed.
CREATE TABLE blob_references (
    digest     text NOT NULL REFERENCES blobs,
    owner_kind text NOT NULL,
    owner_id   text NOT NULL,
    PRIMARY KEY (digest, owner_kind, owner_id)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON blobs, blob_uploads, blob_chunks, blob_references TO gpuaas_app;

-- A version of a program that machines of a site run at their first boot. A version
-- is never given again, also after it was deleted.
CREATE TABLE maas_site_bundles (
    id         uuid PRIMARY KEY,
    site_id    uuid NOT NULL REFERENCES maas_sites,
    name       text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    version    text NOT NULL CHECK (version ~ '^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$'),
    digest     text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    size       bigint NOT NULL CHECK (size > 0),
    added_by   text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at timestamptz,
    CONSTRAINT maas_site_bundles_version UNIQUE (site_id, name, version)
);
GRANT SELECT, INSERT, UPDATE ON maas_site_bundles TO gpuaas_app;

-- A profile names a bundle and what it must contain, and remembers the one before.
ALTER TABLE maas_site_profiles
    ADD COLUMN site_bootstrap_bundle_digest text NOT NULL DEFAULT '',
    ADD COLUMN previous_bundle_ref text NOT NULL DEFAULT '',
    ADD COLUMN previous_bundle_digest text NOT NULL DEFAULT '';
COMMENT ON COLUMN maas_site_profiles.site_bootstrap_bundle_digest IS 'SHA-256 that the bundle must have; it was pinned when the bundle was chosen.';
COMMENT ON COLUMN maas_site_profiles.previous_bundle_ref IS 'The bundle that was used before, to roll back to; empty: none.';
COMMENT ON COLUMN maas_site_profiles.previous_bundle_digest IS 'SHA-256 of the bundle that was used before.';

-- Bundles were files in a folder of workers. The sites of now get them once.
ALTER TABLE maas_sites ADD COLUMN bundles_imported boolean NOT NULL DEFAULT true;
UPDATE maas_sites SET bundles_imported = false;

-- +goose Down
SELECT 1; -- what profiles name stays
