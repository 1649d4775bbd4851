-- +goose Up
-- The open maintenances whose tenants have the nodes that they are about, and whether each may be carried out now. Nothing
-- begins without the consent that was asked for. A tenant who said "now" has opened the window. One that ends the
-- allocation may begin at the time that the tenant was told, and one that the tenant keeps the node through within its window.
CREATE OR REPLACE VIEW maintenances_open_now AS
SELECT m.*, CASE
    WHEN m.status = 'under_way' THEN true
    WHEN m.status = 'declined' OR m.consent_asked AND m.status <> 'consented' THEN false
    WHEN m.begins_now THEN true
    WHEN m.kind = 'release' THEN m.due_at <= clock_timestamp()
    ELSE clock_timestamp() BETWEEN m.not_before AND m.due_at END AS may_begin
FROM maintenances m JOIN allocations a ON a.id = m.allocation_id AND a.node_id = m.node_id
WHERE m.ended_at IS NULL AND a.status IN ('requested', 'provisioning', 'active');
