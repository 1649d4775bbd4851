-- +goose Up
-- Whether what a tenant rents keeps the price of then, or follows the list of prices. It is agreed for each allocation when it is
-- made, as all other terms are.
ALTER TABLE billing_accounts ADD COLUMN pricing text NOT NULL DEFAULT 'fixed' CHECK (pricing IN ('fixed', 'follows_list'));
ALTER TABLE allocation_terms ADD COLUMN pricing text NOT NULL DEFAULT 'fixed' CHECK (pricing IN ('fixed', 'follows_list')),
    ADD CONSTRAINT allocation_terms_list_has_currency CHECK (pricing = 'fixed' OR currency IS NOT NULL);
COMMENT ON COLUMN billing_accounts.pricing IS 'Agreed for what is rented from now on: fixed keeps the price of then, follows_list takes each price when it begins.';
CREATE INDEX allocation_terms_following ON allocation_terms (sku_id, currency) WHERE pricing = 'follows_list';

ALTER TABLE sku_prices ADD CONSTRAINT sku_prices_begin CHECK (isfinite(valid_from));

-- The list as those see it who follow it: a price counts from the first whole second of its time, until the next one. Prices have
-- no end of their own, so nothing here is infinite. A trigger keeps it beside the prices; a test computes it anew.
CREATE TABLE sku_price_spans (
    sku_id         text NOT NULL REFERENCES skus,
    meter          text NOT NULL,
    currency       text NOT NULL,
    begins         timestamptz NOT NULL CHECK (isfinite(begins)),
    price_id       uuid NOT NULL,
    price_minor    bigint NOT NULL,
    before_seconds numeric NOT NULL,
    PRIMARY KEY (sku_id, meter, currency, begins)
);
COMMENT ON COLUMN sku_price_spans.before_seconds IS 'Sum of price times seconds of all that was in force before, so that no sum runs over all prices.';
GRANT SELECT ON sku_price_spans TO gpuaas_app;

-- +goose StatementBegin
CREATE FUNCTION sku_price_spans_anew(of_sku text, of_meter text, in_currency text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    DELETE FROM sku_price_spans WHERE sku_id = of_sku AND meter = of_meter AND currency = in_currency;
    INSERT INTO sku_price_spans (sku_id, meter, currency, begins, price_id, price_minor, before_seconds)
    SELECT of_sku, of_meter, in_currency, n.begins, n.id, n.price_minor,
        coalesce(sum(n.price_minor::numeric * extract(epoch FROM n.next - n.begins))
            OVER (ORDER BY n.begins ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
    FROM (
        SELECT s.*, lead(s.begins) OVER (ORDER BY s.begins) AS next FROM (
            SELECT DISTINCT ON (w.begins) p.id, p.price_minor, w.begins
            FROM sku_prices p, LATERAL (SELECT date_trunc('second', p.valid_from + interval '999999 microseconds') AS begins) w
            WHERE p.sku_id = of_sku AND p.meter = of_meter AND p.currency = in_currency ORDER BY w.begins, p.valid_from DESC) s) n;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION sku_price_spans_anew(text, text, text) FROM PUBLIC;

-- +goose StatementBegin
CREATE FUNCTION sku_price_spans_follow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM sku_price_spans_anew(OLD.sku_id, OLD.meter, OLD.currency);
    ELSE
        PERFORM sku_price_spans_anew(NEW.sku_id, NEW.meter, NEW.currency);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER sku_price_spans_follow AFTER INSERT OR DELETE ON sku_prices FOR EACH ROW EXECUTE FUNCTION sku_price_spans_follow();
SELECT sku_price_spans_anew(p.sku_id, p.meter, p.currency) FROM (SELECT DISTINCT sku_id, meter, currency FROM sku_prices) p;

-- A price that has begun stays as it is, and no price begins in a time for which somebody who follows the list was charged. Whoever
-- changes the list waits for those who agree on a price of the SKU or charge by it, and they wait for the change.
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
    IF EXISTS (SELECT FROM allocation_terms t JOIN usage_meters m ON m.allocation_id = t.allocation_id
        WHERE t.pricing = 'follows_list' AND t.sku_id = of.sku_id AND t.currency = of.currency AND m.charged_until > of.valid_from) THEN
        RAISE EXCEPTION 'time after the beginning of the price was charged already' USING ERRCODE = 'check_violation',
            CONSTRAINT = CASE TG_OP WHEN 'INSERT' THEN 'sku_prices_not_in_the_past' ELSE 'sku_prices_begun_stay' END;
    END IF;
    RETURN of;
END $$;
-- +goose StatementEnd

-- How many allocations go on whose price follows the list of a SKU in a currency.
-- +goose StatementBegin
CREATE FUNCTION sku_price_followers(of_sku text, in_currency text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM allocation_terms t JOIN usage_meters m ON m.allocation_id = t.allocation_id
    WHERE t.pricing = 'follows_list' AND t.sku_id = of_sku AND t.currency = in_currency AND t.paid_share > 0 AND m.closed_at IS NULL
$$;
-- +goose StatementEnd

-- The price of the list at a moment; NULL: there was none.
-- +goose StatementBegin
CREATE FUNCTION list_price(of_sku text, of_meter text, in_currency text, at timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT s.price_minor FROM sku_price_spans s
        WHERE s.sku_id = of_sku AND s.meter = of_meter AND s.currency = in_currency AND s.begins <= at ORDER BY s.begins DESC LIMIT 1);
END $$;
-- +goose StatementEnd

-- The sum of price times seconds from the first price of the list until a whole second.
-- +goose StatementBegin
CREATE FUNCTION list_price_seconds(of_sku text, of_meter text, in_currency text, at timestamptz) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT s.before_seconds + s.price_minor * extract(epoch FROM at - s.begins) FROM sku_price_spans s
        WHERE s.sku_id = of_sku AND s.meter = of_meter AND s.currency = in_currency AND s.begins <= at ORDER BY s.begins DESC LIMIT 1), 0);
END $$;
-- +goose StatementEnd

-- usage_cost by a list: seconds count from the beginning, and each has the price of the list of the whole second in which it ends
-- to begin. The share is the paid one times units.
-- +goose StatementBegin
CREATE FUNCTION list_cost(of_sku text, of_meter text, in_currency text, share numeric, began timestamptz, until timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    origin timestamptz := date_trunc('second', began + interval '999999 microseconds');
    n double precision := greatest(floor(extract(epoch FROM until - began)), 0);
BEGIN
    RETURN div((list_price_seconds(of_sku, of_meter, in_currency, origin + n * interval '1 second')
        - list_price_seconds(of_sku, of_meter, in_currency, origin)) * share, 36000000);
END $$;
-- +goose StatementEnd

-- The one cost of an allocation from its beginning until a moment, by its terms, and what an hour of it costs at a moment, in
-- ten-thousandths of a minor unit.
-- +goose StatementBegin
CREATE FUNCTION allocation_cost(t allocation_terms, began timestamptz, until timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN t.pricing = 'fixed' THEN usage_cost(coalesce(t.price_minor, 0)::numeric * t.paid_share * t.units, began, until)
        ELSE list_cost(t.sku_id, 'held', t.currency, t.paid_share::numeric * t.units, began, until) END
$$;
CREATE FUNCTION allocation_rate(t allocation_terms, at timestamptz) RETURNS numeric LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN t.pricing = 'fixed' THEN coalesce(t.price_minor, 0) ELSE coalesce(list_price(t.sku_id, 'held', t.currency, at), 0) END::numeric
        * t.paid_share * t.units
$$;
-- +goose StatementEnd
