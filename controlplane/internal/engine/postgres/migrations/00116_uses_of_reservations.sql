-- +goose Up
-- The two halves of the rule for what is reserved and not used, by themselves, so that whoever judges what is lacking asks the same
-- ones: which nodes a tenant uses at a moment, and which of them may be dealt to a reservation.
-- +goose StatementBegin
CREATE FUNCTION reserved_in_use(of_org uuid, of_sku text, at timestamptz) RETURNS TABLE (project_id uuid, region_code text, nodes bigint)
    LANGUAGE sql STABLE ROWS 4 AS $$
    SELECT a.project_id, a.region_code, count(*) FROM allocations a
    WHERE a.org_id = of_org AND a.sku_id = of_sku AND a.active_at <= at
        AND coalesce(a.released_at, a.failed_at, timestamptz 'infinity') > at
    GROUP BY 1, 2
$$;
CREATE FUNCTION reserved_fits(t reservation_terms, project uuid, region text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (t.project_id IS NULL OR t.project_id = project) AND t.region_code IN ('', region)
$$;

-- As before, of these two.
CREATE OR REPLACE FUNCTION reserved_unused(t reservation_terms, at timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    projects uuid[];
    regions text[];
    used bigint[];
    r reservation_terms;
    lacking bigint;
    got bigint;
BEGIN
    IF at < t.starts_at THEN
        RETURN 0;
    END IF;
    SELECT array_agg(u.project_id ORDER BY u.project_id, u.region_code), array_agg(u.region_code ORDER BY u.project_id, u.region_code),
        array_agg(u.nodes ORDER BY u.project_id, u.region_code) INTO projects, regions, used FROM reserved_in_use(t.org_id, t.sku_id, at) u;
    FOR r IN SELECT x.* FROM reservation_terms x WHERE x.org_id = t.org_id AND x.sku_id = t.sku_id AND x.starts_at <= at AND reservation_end(x) > at
        ORDER BY x.project_id IS NULL, x.region_code = '', x.starts_at, x.reservation_id
    LOOP
        lacking := r.nodes;
        FOR i IN 1..coalesce(cardinality(used), 0) LOOP
            IF reserved_fits(r, projects[i], regions[i]) THEN
                got := least(lacking, used[i]);
                lacking := lacking - got;
                used[i] := used[i] - got;
            END IF;
        END LOOP;
        IF r.reservation_id = t.reservation_id THEN
            RETURN lacking;
        END IF;
    END LOOP;
    RETURN 0;
END $$;
-- +goose StatementEnd
