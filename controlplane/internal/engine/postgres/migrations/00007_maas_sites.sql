-- +goose Up
-- A MAAS region controller: the unit of credentials, network and policy.
-- Secrets are in the secrets engine, under paths made of ids; here are only
-- fingerprints of them.
CREATE TABLE maas_sites (
    id                           uuid PRIMARY KEY,
    name                         text NOT NULL CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    region_code                  text NOT NULL CHECK (region_code ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    api_base_url                 text NOT NULL CHECK (api_base_url ~ '^https?://[^/@?#]+/[^@?#]*$'),
    ca_certificate               text NOT NULL DEFAULT '',
    allowed_networks             text[] NOT NULL DEFAULT '{}',
    pxe_iface                    text NOT NULL CHECK (length(pxe_iface) BETWEEN 1 AND 15),
    pxe_vlan_vid                 integer NOT NULL CHECK (pxe_vlan_vid BETWEEN 0 AND 4094),
    node_pxe_iface               text NOT NULL CHECK (length(node_pxe_iface) BETWEEN 1 AND 15),
    deploy_user                  text NOT NULL DEFAULT 'hpcadmin' CHECK (deploy_user ~ '^[a-z_][a-z0-9_-]{0,31}$'),
    deploy_ssh_iface             text NOT NULL DEFAULT 'eno8303' CHECK (length(deploy_ssh_iface) BETWEEN 1 AND 15),
    upstream_dns_servers         text[] NOT NULL DEFAULT '{1.1.1.1,8.8.8.8}' CHECK (cardinality(upstream_dns_servers) BETWEEN 1 AND 8),
    max_parallel                 integer NOT NULL DEFAULT 20 CHECK (max_parallel BETWEEN 1 AND 1000),
    status                       text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
    fingerprint_salt             bytea NOT NULL CHECK (length(fingerprint_salt) = 16),
    credentials_version          bigint NOT NULL DEFAULT 0,
    api_token_fingerprint        text NOT NULL DEFAULT '',
    api_token_rotated_at         timestamptz,
    power_fingerprint            text NOT NULL DEFAULT '',
    power_rotated_at             timestamptz,
    deploy_password_fingerprint  text NOT NULL DEFAULT '',
    deploy_password_rotated_at   timestamptz,
    version                      bigint NOT NULL DEFAULT 1,
    created_at                   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at                   timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at                   timestamptz,
    CHECK ((api_token_fingerprint = '') = (api_token_rotated_at IS NULL)),
    CHECK ((power_fingerprint = '') = (power_rotated_at IS NULL)),
    CHECK ((deploy_password_fingerprint = '') = (deploy_password_rotated_at IS NULL))
);
CREATE UNIQUE INDEX maas_sites_name ON maas_sites (name) WHERE deleted_at IS NULL;
COMMENT ON COLUMN maas_sites.region_code IS 'The region of the product that the machines of this site belong to.';
COMMENT ON COLUMN maas_sites.api_base_url IS 'Address of the MAAS region, without /api/2.0.';
COMMENT ON COLUMN maas_sites.ca_certificate IS 'PEM of the CA that signed the certificate of MAAS; empty: the CAs of the machine.';
COMMENT ON COLUMN maas_sites.allowed_networks IS 'CIDRs that the address of MAAS must lie in; empty: any but link-local.';
COMMENT ON COLUMN maas_sites.pxe_iface IS 'Interface of the MAAS server on the PXE network.';
COMMENT ON COLUMN maas_sites.pxe_vlan_vid IS 'VLAN of the PXE network; 0: untagged.';
COMMENT ON COLUMN maas_sites.node_pxe_iface IS 'Interface of the nodes on the PXE network.';
COMMENT ON COLUMN maas_sites.deploy_user IS 'Account that deployed machines are reached by.';
COMMENT ON COLUMN maas_sites.deploy_ssh_iface IS 'Interface of the nodes that deployed machines are reached over.';
COMMENT ON COLUMN maas_sites.upstream_dns_servers IS 'DNS servers that MAAS must forward to.';
COMMENT ON COLUMN maas_sites.max_parallel IS 'Machines of the site in work at once, over all batches.';
COMMENT ON COLUMN maas_sites.status IS 'A disabled site refuses new work and lets running work finish.';
COMMENT ON COLUMN maas_sites.fingerprint_salt IS 'Keeps fingerprints of equal secrets of two sites apart.';
COMMENT ON COLUMN maas_sites.credentials_version IS 'Grows with every write of credentials; tells writes at the same time apart.';

-- A bundle of policy. Every site has the profile "default", which is meant when
-- a request names none.
CREATE TABLE maas_site_profiles (
    id                                        uuid PRIMARY KEY,
    site_id                                   uuid NOT NULL REFERENCES maas_sites,
    name                                      text NOT NULL CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    description                               text NOT NULL DEFAULT '',
    status                                    text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
    distro_series                             text NOT NULL DEFAULT 'ubuntu/noble' CHECK (distro_series ~ '^[!-~]{1,128}$'),
    architecture                              text NOT NULL DEFAULT 'amd64/generic' CHECK (architecture ~ '^[a-z0-9]+/[a-z0-9.+-]+$'),
    pxe_iface                                 text NOT NULL DEFAULT '' CHECK (length(pxe_iface) <= 15),
    pxe_vlan_vid                              integer NOT NULL DEFAULT -1 CHECK (pxe_vlan_vid BETWEEN -1 AND 4094),
    node_pxe_iface                            text NOT NULL DEFAULT '' CHECK (length(node_pxe_iface) <= 15),
    strict_pxe_preflight                      boolean NOT NULL DEFAULT true,
    enable_phase2_roce                        boolean NOT NULL DEFAULT true,
    require_hw_sync                           boolean NOT NULL DEFAULT true,
    hardware_sync_interval                    text NOT NULL DEFAULT '15m' CHECK (hardware_sync_interval ~ '^[0-9]{1,6}[a-z]+$'),
    release_fallback_no_erase                 boolean NOT NULL DEFAULT true,
    enable_deploy_retry_on_datasource_failure boolean NOT NULL DEFAULT true,
    max_deploy_retry_attempts                 integer NOT NULL DEFAULT 1 CHECK (max_deploy_retry_attempts BETWEEN 0 AND 10),
    auto_claim_single_new_machine             boolean NOT NULL DEFAULT false,
    batch_max_parallel                        integer NOT NULL DEFAULT 10 CHECK (batch_max_parallel BETWEEN 1 AND 1000),
    site_bootstrap_bundle_ref                 text NOT NULL DEFAULT '' CHECK (length(site_bootstrap_bundle_ref) <= 500),
    enrollment_token_ttl_seconds              integer NOT NULL DEFAULT 7200 CHECK (enrollment_token_ttl_seconds BETWEEN 300 AND 604800),
    discovery_timeout_seconds                 integer NOT NULL DEFAULT 1800 CHECK (discovery_timeout_seconds BETWEEN 60 AND 86400),
    commission_timeout_seconds                integer NOT NULL DEFAULT 3600 CHECK (commission_timeout_seconds BETWEEN 60 AND 86400),
    deploy_timeout_seconds                    integer NOT NULL DEFAULT 5400 CHECK (deploy_timeout_seconds BETWEEN 60 AND 86400),
    hw_sync_seed_timeout_seconds              integer NOT NULL DEFAULT 900 CHECK (hw_sync_seed_timeout_seconds BETWEEN 60 AND 86400),
    hw_sync_health_timeout_seconds            integer NOT NULL DEFAULT 3600 CHECK (hw_sync_health_timeout_seconds BETWEEN 60 AND 86400),
    enrollment_timeout_seconds                integer NOT NULL DEFAULT 1800 CHECK (enrollment_timeout_seconds BETWEEN 60 AND 86400),
    release_timeout_seconds                   integer NOT NULL DEFAULT 14400 CHECK (release_timeout_seconds BETWEEN 60 AND 604800),
    version                                   bigint NOT NULL DEFAULT 1,
    created_at                                timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at                                timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at                                timestamptz
);
CREATE UNIQUE INDEX maas_site_profiles_name ON maas_site_profiles (site_id, name) WHERE deleted_at IS NULL;
COMMENT ON COLUMN maas_site_profiles.distro_series IS 'Image to deploy: system/series, or the name of an uploaded image.';
COMMENT ON COLUMN maas_site_profiles.architecture IS 'Architecture of the machines, as MAAS names it.';
COMMENT ON COLUMN maas_site_profiles.pxe_iface IS 'Interface of the MAAS server on the PXE network; empty: that of the site.';
COMMENT ON COLUMN maas_site_profiles.pxe_vlan_vid IS 'VLAN of the PXE network; -1: that of the site, 0: untagged.';
COMMENT ON COLUMN maas_site_profiles.node_pxe_iface IS 'Interface of the nodes on the PXE network; empty: that of the site.';
COMMENT ON COLUMN maas_site_profiles.strict_pxe_preflight IS 'Refuse to begin when the PXE network of the site is not as described.';
COMMENT ON COLUMN maas_site_profiles.enable_phase2_roce IS 'Give the RoCE interfaces the addresses of the assignments.';
COMMENT ON COLUMN maas_site_profiles.require_hw_sync IS 'A node is active only while its hardware sync is healthy.';
COMMENT ON COLUMN maas_site_profiles.hardware_sync_interval IS 'How often deployed machines report their hardware to MAAS, such as 15m.';
COMMENT ON COLUMN maas_site_profiles.release_fallback_no_erase IS 'Release without erasing when releasing with erasing fails.';
COMMENT ON COLUMN maas_site_profiles.enable_deploy_retry_on_datasource_failure IS 'Deploy again when cloud-init found no datasource.';
COMMENT ON COLUMN maas_site_profiles.max_deploy_retry_attempts IS 'How many times to deploy again at most.';
COMMENT ON COLUMN maas_site_profiles.auto_claim_single_new_machine IS 'Claim the only New machine when nothing stronger identifies it.';
COMMENT ON COLUMN maas_site_profiles.batch_max_parallel IS 'Machines of one batch in work at once.';
COMMENT ON COLUMN maas_site_profiles.site_bootstrap_bundle_ref IS 'Versioned bundle of the site that runs at first boot, before the bootstrap of the node; empty: none.';
COMMENT ON COLUMN maas_site_profiles.enrollment_token_ttl_seconds IS 'Life of the token that an agent enrolls with.';
COMMENT ON COLUMN maas_site_profiles.discovery_timeout_seconds IS 'How long to wait for a machine to appear in MAAS.';
COMMENT ON COLUMN maas_site_profiles.commission_timeout_seconds IS 'How long commissioning may take.';
COMMENT ON COLUMN maas_site_profiles.deploy_timeout_seconds IS 'How long one deployment may take.';
COMMENT ON COLUMN maas_site_profiles.hw_sync_seed_timeout_seconds IS 'How long setting up hardware sync on the machine may take.';
COMMENT ON COLUMN maas_site_profiles.hw_sync_health_timeout_seconds IS 'How long to wait for hardware sync to become healthy.';
COMMENT ON COLUMN maas_site_profiles.enrollment_timeout_seconds IS 'How long to wait for the agent to enroll.';
COMMENT ON COLUMN maas_site_profiles.release_timeout_seconds IS 'How long releasing may take, erasing included.';

-- BMC credentials of machines that do not have those of the site.
CREATE TABLE maas_power_credential_overrides (
    id             uuid PRIMARY KEY,
    site_id        uuid NOT NULL REFERENCES maas_sites,
    selector_type  text NOT NULL CHECK (selector_type IN ('hostname', 'ipmi_ip', 'pxe_mac')),
    selector_value text NOT NULL CHECK (length(selector_value) BETWEEN 1 AND 253 AND selector_value = lower(selector_value)),
    status         text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
    fingerprint    text NOT NULL,
    rotated_at     timestamptz NOT NULL,
    version        bigint NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT maas_power_override_selector UNIQUE (site_id, selector_type, selector_value)
);

-- Addresses of the RoCE interfaces, which MAAS does not know.
CREATE TABLE maas_roce_assignments (
    id         uuid PRIMARY KEY,
    site_id    uuid NOT NULL REFERENCES maas_sites,
    hostname   text NOT NULL CHECK (length(hostname) BETWEEN 1 AND 253 AND hostname = lower(hostname)),
    interface  text NOT NULL CHECK (length(interface) BETWEEN 1 AND 15),
    ipv4_cidr  text NOT NULL CHECK (family(ipv4_cidr::inet) = 4 AND position('/' IN ipv4_cidr) > 0),
    mtu        integer NOT NULL DEFAULT 0 CHECK (mtu = 0 OR mtu BETWEEN 1280 AND 9216),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT maas_roce_interface UNIQUE (site_id, hostname, interface)
);
CREATE INDEX maas_roce_address ON maas_roce_assignments (site_id, (split_part(ipv4_cidr, '/', 1)));
COMMENT ON COLUMN maas_roce_assignments.mtu IS 'MTU of the interface; 0: what the operating system chooses.';

GRANT SELECT, INSERT, UPDATE ON maas_sites, maas_site_profiles TO gpuaas_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON maas_power_credential_overrides, maas_roce_assignments TO gpuaas_app;
