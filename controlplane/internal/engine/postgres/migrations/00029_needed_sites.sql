-- +goose Up
-- Sites and profiles could be deleted while nodes and jobs needed them, which
-- then could not be cleaned, installed or reconciled. They come back disabled.
-- A name that was given again since is told apart by the beginning of the id.
UPDATE maas_sites s SET deleted_at = NULL, status = 'disabled', version = version + 1, updated_at = clock_timestamp(),
    name = CASE WHEN EXISTS (SELECT FROM maas_sites o WHERE o.id <> s.id AND o.name = s.name)
        THEN left(s.name, 54) || '-' || right(s.id::text, 8) ELSE s.name END
WHERE s.deleted_at IS NOT NULL
  AND (EXISTS (SELECT FROM node_maas_state b JOIN nodes n ON n.id = b.node_id WHERE b.site_id = s.id AND n.status <> 'deleted')
    OR EXISTS (SELECT FROM node_onboardings o WHERE o.site_id = s.id AND o.completed_at IS NULL)
    OR EXISTS (SELECT FROM node_decommissions d WHERE d.site_id = s.id AND d.completed_at IS NULL));

UPDATE maas_site_profiles p SET deleted_at = NULL, status = 'disabled', version = version + 1, updated_at = clock_timestamp(),
    name = CASE WHEN EXISTS (SELECT FROM maas_site_profiles o WHERE o.site_id = p.site_id AND o.id <> p.id AND o.name = p.name)
        THEN left(p.name, 54) || '-' || right(p.id::text, 8) ELSE p.name END
WHERE p.deleted_at IS NOT NULL
  AND (EXISTS (SELECT FROM node_maas_state b JOIN nodes n ON n.id = b.node_id WHERE b.profile_id = p.id AND n.status <> 'deleted')
    OR EXISTS (SELECT FROM node_onboardings o WHERE o.profile_id = p.id AND o.completed_at IS NULL)
    OR EXISTS (SELECT FROM node_decommissions d WHERE d.profile_id = p.id AND d.completed_at IS NULL));

-- +goose Down
SELECT 1; -- what nodes need stays
