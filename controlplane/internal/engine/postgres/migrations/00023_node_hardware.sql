-- +goose Up
-- Which machine a node is, as far as that is known. Whoever enrols as the node
-- must not contradict it.
CREATE TABLE node_hardware (
    node_id          uuid PRIMARY KEY REFERENCES nodes,
    known            jsonb NOT NULL DEFAULT '{}',
    origin           text NOT NULL CHECK (origin IN ('maas', 'enrolment', 'report', 'accepted')),
    learned_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    addresses        text[] NOT NULL DEFAULT '{}',
    address_required boolean NOT NULL DEFAULT false,
    enrolled_from    text NOT NULL DEFAULT '',
    refused          jsonb,
    refused_why      text NOT NULL DEFAULT '',
    refused_at       timestamptz
);
COMMENT ON COLUMN node_hardware.known IS 'System UUID, serials and MAC addresses; what is not known is left out.';
COMMENT ON COLUMN node_hardware.origin IS 'Who said so: MAAS, the machine itself when it first enrolled or first reported, or an operator who accepted it.';
COMMENT ON COLUMN node_hardware.addresses IS 'Addresses that MAAS gave the machine; none: not known.';
COMMENT ON COLUMN node_hardware.address_required IS 'Whoever enrols from another address is refused, because the profile says so.';
COMMENT ON COLUMN node_hardware.refused IS 'What the machine said that was refused last; an operator may accept it.';

ALTER TABLE nodes ADD COLUMN identity_void text NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN hardware_said boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN nodes.identity_void IS 'Why the identity was voided while the node was being enrolled; empty: it was not, or a new token was issued since.';
COMMENT ON COLUMN nodes.hardware_said IS 'The agent says which machine it runs on; one of an earlier release does not.';

ALTER TABLE maas_site_profiles ADD COLUMN require_enrollment_address boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN maas_site_profiles.require_enrollment_address IS 'Refuse an agent that enrols from another address than MAAS gave its machine.';

GRANT SELECT, INSERT, UPDATE ON node_hardware TO gpuaas_app;
