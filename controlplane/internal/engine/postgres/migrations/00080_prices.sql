-- +goose Up
-- What a unit of a SKU costs for an hour, from a moment on until the next price of the same SKU and currency begins.
CREATE TABLE sku_prices (
    id          uuid PRIMARY KEY,
    sku_id      text NOT NULL REFERENCES skus,
    meter       text NOT NULL DEFAULT 'held' CHECK (meter IN ('held')),
    currency    text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    price_minor bigint NOT NULL CHECK (price_minor BETWEEN 0 AND 1000000000000),
    valid_from  timestamptz NOT NULL,
    reason      text NOT NULL DEFAULT '' CHECK (length(reason) <= 500),
    set_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    set_by      text NOT NULL DEFAULT '',
    CONSTRAINT sku_prices_one_at_a_time UNIQUE (sku_id, meter, currency, valid_from)
);
COMMENT ON TABLE sku_prices IS 'The one home of prices; skus.price_minor is what somebody wrote there last, for releases that know no prices.';
COMMENT ON COLUMN sku_prices.price_minor IS 'Of one GPU, or of a machine without GPUs, for one hour.';
COMMENT ON COLUMN sku_prices.set_by IS 'Who set it; empty: it came with the SKU.';

INSERT INTO sku_prices (id, sku_id, currency, price_minor, valid_from, reason)
SELECT gen_random_uuid(), id, price_currency, least(price_minor, 1000000000000), created_at, 'price of the SKU before there were prices' FROM skus;

-- A price that has begun stays as it is: who rented at it can look it up.
-- +goose StatementBegin
CREATE FUNCTION sku_price_begins_later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.valid_from < transaction_timestamp() THEN
            RAISE EXCEPTION 'a price cannot begin in the past' USING ERRCODE = 'check_violation', CONSTRAINT = 'sku_prices_not_in_the_past';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.valid_from <= clock_timestamp() THEN
        RAISE EXCEPTION 'a price that has begun stays' USING ERRCODE = 'check_violation', CONSTRAINT = 'sku_prices_begun_stay';
    END IF;
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE TRIGGER sku_prices_begin_later BEFORE INSERT OR DELETE ON sku_prices
    FOR EACH ROW EXECUTE FUNCTION sku_price_begins_later();
CREATE TRIGGER sku_prices_never_change BEFORE UPDATE OR TRUNCATE ON sku_prices
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT, DELETE ON sku_prices TO gpuaas_app;

-- The price in force; NULL: there is none in this currency.
-- +goose StatementBegin
CREATE FUNCTION sku_price(of_sku text, in_currency text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT price_minor FROM sku_prices
    WHERE sku_id = of_sku AND meter = 'held' AND currency = in_currency AND valid_from <= statement_timestamp()
    ORDER BY valid_from DESC LIMIT 1
$$;
-- +goose StatementEnd

-- A new SKU has a price, and so has one that a release without prices gave another one.
-- +goose StatementBegin
CREATE FUNCTION sku_priced() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.price_minor, NEW.price_currency) IS NOT DISTINCT FROM (OLD.price_minor, OLD.price_currency) THEN
        RETURN NULL;
    END IF;
    IF NEW.price_minor IS DISTINCT FROM sku_price(NEW.id, NEW.price_currency) THEN
        INSERT INTO sku_prices (id, sku_id, currency, price_minor, valid_from, reason)
        VALUES (gen_random_uuid(), NEW.id, NEW.price_currency, NEW.price_minor, clock_timestamp(), 'set with the SKU');
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER skus_priced AFTER INSERT OR UPDATE ON skus FOR EACH ROW EXECUTE FUNCTION sku_priced();
