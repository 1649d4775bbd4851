-- +goose Up
-- What is reserved and not used, as a meter of its own. A reservation without terms costs nothing, for ever: those of before have
-- none, and neither have those that a release of before makes. Nothing here is seen by what joins usage_meters.
ALTER TABLE sku_prices DROP CONSTRAINT sku_prices_meter_check, ADD CONSTRAINT sku_prices_meter_check CHECK (meter IN ('held', 'reserved'));
COMMENT ON COLUMN sku_prices.meter IS 'held: a node that somebody rents; reserved: a node that is reserved, and not used.';

-- As before, but that a list which somebody follows is of what is held.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sku_price_begins_later() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    of sku_prices%ROWTYPE;
BEGIN
    IF TG_OP = 'INSERT' THEN of := NEW; ELSE of := OLD; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('price of ' || of.sku_id, 0));
    IF TG_OP = 'DELETE' AND of.valid_from <= clock_timestamp() THEN
        RAISE EXCEPTION 'a price that has begun stays' USING ERRCODE = 'check_violation', CONSTRAINT = 'sku_prices_begun_stay';
    END IF;
    IF TG_OP = 'INSERT' AND of.valid_from < transaction_timestamp() THEN
        RAISE EXCEPTION 'a price cannot begin in the past' USING ERRCODE = 'check_violation', CONSTRAINT = 'sku_prices_not_in_the_past';
    END IF;
    IF of.meter = 'held' AND EXISTS (SELECT FROM allocation_terms t JOIN usage_meters m ON m.allocation_id = t.allocation_id
        WHERE t.pricing = 'follows_list' AND t.sku_id = of.sku_id AND t.currency = of.currency AND m.charged_until > of.valid_from) THEN
        RAISE EXCEPTION 'time after the beginning of the price was charged already' USING ERRCODE = 'check_violation',
            CONSTRAINT = CASE TG_OP WHEN 'INSERT' THEN 'sku_prices_not_in_the_past' ELSE 'sku_prices_begun_stay' END;
    END IF;
    RETURN of;
END $$;
-- +goose StatementEnd

-- What was agreed for a reservation that is charged, when it was made. All that its cost depends on is in it, or in rows that
-- never change once their time is over.
CREATE TABLE reservation_terms (
    reservation_id uuid PRIMARY KEY REFERENCES reservations,
    org_id         uuid NOT NULL REFERENCES organizations,
    project_id     uuid REFERENCES projects,
    sku_id         text NOT NULL REFERENCES skus,
    region_code    text NOT NULL,
    nodes          integer NOT NULL CHECK (nodes BETWEEN 1 AND 10000),
    starts_at      timestamptz NOT NULL,
    ends_at        timestamptz NOT NULL,
    currency       text NOT NULL,
    price_id       uuid NOT NULL REFERENCES sku_prices,
    price_minor    bigint NOT NULL CHECK (price_minor BETWEEN 0 AND 1000000000000),
    paid_share     integer NOT NULL CHECK (paid_share BETWEEN 0 AND 10000),
    units          integer NOT NULL CHECK (units BETWEEN 1 AND 1024),
    frozen_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- One currency per tenant: that of its account.
    FOREIGN KEY (org_id, currency) REFERENCES billing_accounts (org_id, currency),
    CHECK (ends_at > starts_at AND isfinite(starts_at) AND isfinite(ends_at))
);
CREATE INDEX reservation_terms_of_tenant ON reservation_terms (org_id, sku_id);
COMMENT ON COLUMN reservation_terms.project_id IS 'NULL: all projects of the tenant may use it.';
COMMENT ON COLUMN reservation_terms.units IS 'GPUs of a node; one for a machine without.';
CREATE TRIGGER reservation_terms_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON reservation_terms
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON reservation_terms TO gpuaas_app;

-- When a reservation ends: as agreed, or when it was cancelled, if that came first.
-- +goose StatementBegin
CREATE FUNCTION reservation_end(t reservation_terms) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(t.starts_at, least(t.ends_at, r.cancelled_at)) FROM reservations r WHERE r.id = t.reservation_id
$$;
-- +goose StatementEnd

-- Of what is charged only the cancellation can be written, once, and terms are those of their reservation.
-- +goose StatementBegin
CREATE FUNCTION reservation_stays() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF ((NEW.org_id, NEW.project_id, NEW.sku_id, NEW.nodes, NEW.region_code, NEW.starts_at, NEW.ends_at)
            IS DISTINCT FROM (OLD.org_id, OLD.project_id, OLD.sku_id, OLD.nodes, OLD.region_code, OLD.starts_at, OLD.ends_at)
            OR OLD.cancelled_at IS NOT NULL AND NEW.cancelled_at IS DISTINCT FROM OLD.cancelled_at OR NOT isfinite(NEW.cancelled_at))
        AND EXISTS (SELECT FROM reservation_terms t WHERE t.reservation_id = NEW.id) THEN
        RAISE EXCEPTION 'reservation % is charged: it can only be cancelled, once', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reservations_charged_stay';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION reservation_terms_agree() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM reservations r WHERE r.id = NEW.reservation_id AND r.cancelled_at IS NULL AND NOT r.forced
        AND (r.org_id, r.project_id, r.sku_id, r.nodes, r.region_code, r.starts_at, r.ends_at) IS NOT DISTINCT FROM
            (NEW.org_id, NEW.project_id, NEW.sku_id, NEW.nodes, NEW.region_code, NEW.starts_at, NEW.ends_at)
        AND r.xmin = pg_current_xact_id()::xid) THEN
        RAISE EXCEPTION 'the terms are not those with which reservation % is made', NEW.reservation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reservation_terms_agree';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER reservations_charged_stay BEFORE UPDATE ON reservations FOR EACH ROW EXECUTE FUNCTION reservation_stays();
CREATE TRIGGER reservation_terms_agree BEFORE INSERT ON reservation_terms FOR EACH ROW EXECUTE FUNCTION reservation_terms_agree();

-- Times in which a reservation lacked nodes that its owner did not use: we had none for it, so they are not charged.
CREATE TABLE reservation_shortages (
    reservation_id uuid NOT NULL REFERENCES reservation_terms,
    began_at       timestamptz NOT NULL CHECK (isfinite(began_at)),
    ended_at       timestamptz CHECK (isfinite(ended_at)),
    nodes          integer NOT NULL CHECK (nodes > 0),
    PRIMARY KEY (reservation_id, began_at),
    CHECK (ended_at >= began_at)
);
CREATE UNIQUE INDEX reservation_shortages_open ON reservation_shortages (reservation_id) WHERE ended_at IS NULL;
COMMENT ON TABLE reservation_shortages IS 'As whoever looked found it: a shortage counts from the look that saw it until the one that saw it over.';
-- +goose StatementBegin
CREATE FUNCTION reservation_shortage_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.ended_at IS NOT NULL OR (NEW.reservation_id, NEW.began_at, NEW.nodes) IS DISTINCT FROM (OLD.reservation_id, OLD.began_at, OLD.nodes) THEN
        RAISE EXCEPTION 'a shortage only ends' USING ERRCODE = 'check_violation', CONSTRAINT = 'reservation_shortages_end';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER reservation_shortages_end BEFORE UPDATE ON reservation_shortages FOR EACH ROW EXECUTE FUNCTION reservation_shortage_ends();
CREATE TRIGGER reservation_shortages_stay BEFORE DELETE OR TRUNCATE ON reservation_shortages FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT, UPDATE ON reservation_shortages TO gpuaas_app;

-- The one rule: how many nodes of a reservation are not used at a moment. A node that its owner rents is used, from when it can be
-- used until it is clean again. Used nodes are dealt by project and region alone, because those never change: first to reservations
-- of a project, then to those of a region, then in the order of their beginnings.
-- +goose StatementBegin
CREATE FUNCTION reserved_unused(t reservation_terms, at timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
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
    SELECT array_agg(u.project_id), array_agg(u.region_code), array_agg(u.n) INTO projects, regions, used FROM (
        SELECT a.project_id, a.region_code, count(*) AS n FROM allocations a
        WHERE a.org_id = t.org_id AND a.sku_id = t.sku_id AND a.active_at <= at
            AND coalesce(a.released_at, a.failed_at, timestamptz 'infinity') > at
        GROUP BY 1, 2 ORDER BY 1, 2) u;
    FOR r IN SELECT x.* FROM reservation_terms x WHERE x.org_id = t.org_id AND x.sku_id = t.sku_id AND x.starts_at <= at AND reservation_end(x) > at
        ORDER BY x.project_id IS NULL, x.region_code = '', x.starts_at, x.reservation_id
    LOOP
        lacking := r.nodes;
        FOR i IN 1..coalesce(cardinality(used), 0) LOOP
            IF (r.project_id IS NULL OR r.project_id = projects[i]) AND r.region_code IN ('', regions[i]) THEN
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

-- How many are charged: what is not used, less what we lacked.
CREATE FUNCTION reserved_nodes(t reservation_terms, at timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(reserved_unused(t, at) - coalesce((SELECT s.nodes FROM reservation_shortages s
        WHERE s.reservation_id = t.reservation_id AND s.began_at <= at AND coalesce(s.ended_at, timestamptz 'infinity') > at), 0), 0)
$$;

-- Node-microseconds that are charged between two moments: the rule, over all moments at which it changes.
CREATE FUNCTION reserved_micros(t reservation_terms, since timestamptz, until timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    total bigint := 0;
    before timestamptz := greatest(since, t.starts_at);
    last timestamptz := least(until, reservation_end(t));
    cut timestamptz;
BEGIN
    IF last <= before THEN
        RETURN 0;
    END IF;
    FOR cut IN SELECT DISTINCT c.at FROM (
            SELECT unnest(ARRAY[a.active_at, a.released_at, a.failed_at]) AS at FROM allocations a
            WHERE a.org_id = t.org_id AND a.sku_id = t.sku_id AND a.active_at < last
                AND coalesce(a.released_at, a.failed_at, timestamptz 'infinity') > before
            UNION ALL SELECT unnest(ARRAY[x.starts_at, reservation_end(x)]) FROM reservation_terms x
            WHERE x.org_id = t.org_id AND x.sku_id = t.sku_id AND x.starts_at < last
            UNION ALL SELECT unnest(ARRAY[s.began_at, s.ended_at]) FROM reservation_shortages s WHERE s.reservation_id = t.reservation_id
            UNION ALL SELECT last) c
        WHERE c.at > before AND c.at <= last ORDER BY 1
    LOOP
        total := total + reserved_nodes(t, before) * (extract(epoch FROM cut - before) * 1000000)::bigint;
        before := cut;
    END LOOP;
    RETURN total;
END $$;

-- What so many node-microseconds of a reservation cost: whole node-seconds, one floor, as usage_cost. And what an hour of it costs at
-- a moment, in ten-thousandths of a minor unit.
CREATE FUNCTION reserved_cost(t reservation_terms, micros bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT div(t.price_minor::numeric * t.paid_share * t.units * (micros / 1000000), 36000000)::bigint
$$;
CREATE FUNCTION reserved_rate(t reservation_terms, at timestamptz) RETURNS numeric LANGUAGE sql STABLE AS $$
    SELECT t.price_minor::numeric * t.paid_share * t.units * reserved_nodes(t, at)
$$;
-- +goose StatementEnd

-- Until when a reservation is charged, and in which windows: a chain that begins with it, in time as in node-microseconds.
CREATE TABLE reservation_meters (
    reservation_id uuid PRIMARY KEY REFERENCES reservation_terms,
    org_id         uuid NOT NULL REFERENCES billing_accounts,
    charged_until  timestamptz CHECK (isfinite(charged_until)),
    closed_at      timestamptz
);
CREATE INDEX reservation_meters_open ON reservation_meters (org_id, reservation_id) WHERE closed_at IS NULL;
GRANT SELECT, INSERT, UPDATE ON reservation_meters TO gpuaas_app;

CREATE TABLE reservation_windows (
    reservation_id uuid NOT NULL REFERENCES reservation_meters,
    starts_at      timestamptz NOT NULL,
    ends_at        timestamptz NOT NULL,
    follows        timestamptz,
    since_micros   bigint NOT NULL CHECK (since_micros >= 0),
    until_micros   bigint NOT NULL,
    amount_minor   bigint NOT NULL CHECK (amount_minor BETWEEN 0 AND 1000000000000000),
    entry_id       uuid UNIQUE REFERENCES ledger_entries,
    PRIMARY KEY (reservation_id, starts_at),
    UNIQUE (reservation_id, ends_at),
    UNIQUE (reservation_id, ends_at, until_micros),
    FOREIGN KEY (reservation_id, follows, since_micros) REFERENCES reservation_windows (reservation_id, ends_at, until_micros),
    CHECK (ends_at > starts_at AND isfinite(starts_at) AND isfinite(ends_at) AND until_micros >= since_micros),
    CHECK (follows IS NULL OR follows = starts_at),
    CHECK (follows IS NOT NULL OR since_micros = 0),
    CHECK ((amount_minor = 0) = (entry_id IS NULL))
);
CREATE UNIQUE INDEX reservation_windows_first ON reservation_windows (reservation_id) WHERE follows IS NULL;
COMMENT ON COLUMN reservation_windows.until_micros IS 'Node-microseconds that were charged until its end, from the beginning of the reservation on.';
CREATE TRIGGER reservation_windows_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON reservation_windows
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON reservation_windows TO gpuaas_app;

-- +goose StatementBegin
-- The same node-microseconds from the beginning until a moment; what is charged is not counted again.
CREATE FUNCTION reserved_until(t reservation_terms, at timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    w reservation_windows;
BEGIN
    SELECT * INTO w FROM reservation_windows x WHERE x.reservation_id = t.reservation_id AND x.ends_at <= at ORDER BY x.ends_at DESC LIMIT 1;
    RETURN coalesce(w.until_micros, 0) + reserved_micros(t, coalesce(w.ends_at, t.starts_at), at);
END $$;

-- What the open reservations of a tenant cost until a moment beyond what is booked, what an hour of them costs then, and how many
-- cost something.
CREATE FUNCTION reserved_standing(of_org uuid, at timestamptz) RETURNS numeric[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT ARRAY[coalesce(sum(c.accrued), 0), coalesce(sum(c.rate), 0), count(*) FILTER (WHERE c.rate > 0)] FROM (
        SELECT reserved_cost(t, reserved_until(t, greatest(at, m.charged_until))) - reserved_cost(t, reserved_until(t, coalesce(m.charged_until, t.starts_at))) AS accrued,
            reserved_rate(t, at) AS rate
        FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
        WHERE m.org_id = of_org AND m.closed_at IS NULL AND t.starts_at <= at OFFSET 0) c);
END $$;

CREATE FUNCTION reservation_window_fits() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    t reservation_terms;
BEGIN
    SELECT * INTO t FROM reservation_terms x WHERE x.reservation_id = NEW.reservation_id;
    IF NEW.follows IS NULL AND t.starts_at IS DISTINCT FROM NEW.starts_at OR NEW.ends_at > reservation_end(t)
        OR NEW.amount_minor <> reserved_cost(t, NEW.until_micros) - reserved_cost(t, NEW.since_micros) THEN
        RAISE EXCEPTION 'a window of reservation % does not fit it', NEW.reservation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reservation_windows_fit';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION reservation_meter_goes_on() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    t reservation_terms;
BEGIN
    SELECT * INTO t FROM reservation_terms x WHERE x.reservation_id = NEW.reservation_id;
    IF OLD.closed_at IS NOT NULL OR (NEW.reservation_id, NEW.org_id) IS DISTINCT FROM (OLD.reservation_id, OLD.org_id)
        OR OLD.charged_until IS NOT NULL AND NEW.charged_until IS NULL OR NEW.charged_until < OLD.charged_until
        OR NEW.closed_at IS NOT NULL AND coalesce(NEW.charged_until, t.starts_at) < reservation_end(t) THEN
        RAISE EXCEPTION 'the meter of reservation % only goes on, to its end', OLD.reservation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reservation_meters_go_on';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER reservation_windows_fit BEFORE INSERT ON reservation_windows FOR EACH ROW EXECUTE FUNCTION reservation_window_fits();
CREATE TRIGGER reservation_meters_go_on BEFORE UPDATE ON reservation_meters FOR EACH ROW EXECUTE FUNCTION reservation_meter_goes_on();
CREATE TRIGGER reservation_meters_stay BEFORE DELETE OR TRUNCATE ON reservation_meters FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An entry of usage is about an allocation or about a reservation. Rows of before are as they were, and are not looked at.
ALTER TABLE ledger_entries ADD COLUMN reservation_id uuid REFERENCES reservations;
ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_check2, DROP CONSTRAINT ledger_entries_check3;
ALTER TABLE ledger_entries
    ADD CONSTRAINT ledger_entries_about_one CHECK ((kind IN ('usage', 'relief')) = (num_nonnulls(allocation_id, reservation_id) > 0)
        AND num_nonnulls(allocation_id, reservation_id) < 2) NOT VALID,
    ADD CONSTRAINT ledger_entries_about_a_time
        CHECK (num_nonnulls(coalesce(allocation_id, reservation_id), meter, window_start, window_end) IN (0, 4)) NOT VALID,
    ADD CONSTRAINT ledger_entries_reserved_is_usage
        CHECK (reservation_id IS NULL AND meter IS DISTINCT FROM 'reserved' OR kind = 'usage' AND meter = 'reserved') NOT VALID;

-- What was released because its tenant could not pay.
CREATE TABLE balance_reservation_ends (
    reservation_id uuid PRIMARY KEY REFERENCES reservations,
    org_id         uuid NOT NULL REFERENCES organizations,
    reason         text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    ended_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TRIGGER balance_reservation_ends_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON balance_reservation_ends
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON balance_reservation_ends TO gpuaas_app;

-- As before, but that no month is closed, whoever closes it, while a reservation is not charged until its end.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION billing_statement_issued() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    since timestamptz;
    booked numeric;
    n bigint;
BEGIN
    SELECT open_since INTO since FROM billing_periods WHERE org_id = NEW.org_id FOR UPDATE;
    IF NEW.period_start IS DISTINCT FROM since OR NEW.period_end > clock_timestamp() THEN
        RAISE EXCEPTION 'the month from % cannot be closed: % is open', NEW.period_start, since
            USING ERRCODE = 'check_violation', CONSTRAINT = 'billing_statements_in_turn';
    END IF;
    IF EXISTS (SELECT FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
        WHERE m.org_id = NEW.org_id AND m.closed_at IS NULL AND coalesce(m.charged_until, t.starts_at) < least(NEW.period_end, reservation_end(t))) THEN
        RAISE EXCEPTION 'a reservation is not charged until %', NEW.period_end
            USING ERRCODE = 'check_violation', CONSTRAINT = 'billing_statements_charged';
    END IF;
    SELECT count(*), coalesce(sum(p.amount_minor), 0) INTO n, booked
    FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant'
    WHERE e.org_id = NEW.org_id AND e.period = NEW.period_start;
    IF booked <> NEW.closing_minor - NEW.opening_minor OR n <> NEW.entries THEN
        RAISE EXCEPTION 'the statement has % entries that change the balance by %, booked are % and %', NEW.entries,
            NEW.closing_minor - NEW.opening_minor, n, booked USING ERRCODE = 'check_violation', CONSTRAINT = 'billing_statements_add_up';
    END IF;
    UPDATE billing_periods SET open_since = NEW.period_end WHERE org_id = NEW.org_id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
