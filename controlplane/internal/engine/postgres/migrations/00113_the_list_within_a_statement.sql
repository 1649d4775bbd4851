-- +goose Up
-- A look at all balances rates a hundred thousand allocations at once. With a call for each price of each that took twelve seconds of
-- a processor, so it has each list whole, once, and finds a moment in it.
CREATE VIEW sku_price_lists AS
SELECT s.sku_id, s.meter, s.currency, array_agg(s.begins ORDER BY s.begins) AS begins,
    array_agg(s.price_minor::numeric ORDER BY s.begins) AS prices,
    array_agg(s.before_seconds - s.price_minor * extract(epoch FROM s.begins) ORDER BY s.begins) AS bases
FROM sku_price_spans s GROUP BY s.sku_id, s.meter, s.currency;
COMMENT ON VIEW sku_price_lists IS 'bases: with price times seconds since 1970, the sum of price times seconds since the first price.';
GRANT SELECT ON sku_price_lists TO gpuaas_app;

-- +goose StatementBegin
-- The whole second of the clock at which the seconds from a beginning until a moment are over.
CREATE FUNCTION list_moment(began timestamptz, until timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT date_trunc('second', began + interval '999999 microseconds')
        + greatest(floor(extract(epoch FROM until - began)), 0)::double precision * interval '1 second'
$$;
-- What list_price and list_price_seconds say, by a list that was read before.
CREATE FUNCTION list_price_in(begins timestamptz[], prices numeric[], at timestamptz) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(prices[width_bucket(at, begins)], 0)
$$;
CREATE FUNCTION list_price_seconds_in(begins timestamptz[], prices numeric[], bases numeric[], at timestamptz) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(bases[width_bucket(at, begins)] + prices[width_bucket(at, begins)] * extract(epoch FROM at), 0)
$$;
-- What an allocation costs between two moments by a list: the cost until the second less the cost until the first, as list_cost.
-- All three are moments of the list (list_moment), the origin that of the beginning of the allocation.
CREATE FUNCTION list_between(begins timestamptz[], prices numeric[], bases numeric[], share numeric, origin timestamptz, since timestamptz, until timestamptz)
    RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (div((list_price_seconds_in(begins, prices, bases, until) - list_price_seconds_in(begins, prices, bases, origin)) * share, 36000000)
        - div((list_price_seconds_in(begins, prices, bases, since) - list_price_seconds_in(begins, prices, bases, origin)) * share, 36000000))::bigint
$$;
-- +goose StatementEnd
