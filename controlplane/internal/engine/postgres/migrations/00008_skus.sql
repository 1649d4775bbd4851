-- +goose Up
-- What can be rented: a kind of machine, and in which counts.
CREATE TABLE skus (
    id              text PRIMARY KEY CHECK (id ~ '^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$'),
    display_name    text NOT NULL CHECK (length(display_name) BETWEEN 1 AND 100),
    gpu_vendor      text NOT NULL CHECK (gpu_vendor IN ('nvidia', 'amd', 'intel', 'other', 'none')),
    gpu_model       text NOT NULL CHECK (length(gpu_model) BETWEEN 1 AND 100),
    gpus_total      integer NOT NULL CHECK (gpus_total BETWEEN 0 AND 64),
    capacity_shape  text NOT NULL CHECK (capacity_shape IN ('node', 'slice')),
    allowed_counts  integer[] NOT NULL CHECK (cardinality(allowed_counts) BETWEEN 1 AND 64),
    price_minor     bigint NOT NULL DEFAULT 0 CHECK (price_minor >= 0),
    price_currency  text NOT NULL DEFAULT 'USD' CHECK (price_currency ~ '^[A-Z]{3}$'),
    status          text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
    version         bigint NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at      timestamptz
);
COMMENT ON COLUMN skus.gpus_total IS 'GPUs of one machine of this kind.';
COMMENT ON COLUMN skus.capacity_shape IS 'node: rented whole; slice: rented by the GPU.';
COMMENT ON COLUMN skus.allowed_counts IS 'How many units one request may ask for: GPUs of a slice, machines otherwise.';
COMMENT ON COLUMN skus.price_minor IS 'Price of one GPU for one hour, in minor units of the currency.';

INSERT INTO skus (id, display_name, gpu_vendor, gpu_model, gpus_total, capacity_shape, allowed_counts, price_minor) VALUES
    ('mi300x.192g.8gpu', 'AMD Instinct MI300X, whole node', 'amd', 'MI300X', 8, 'node', '{1}', 250),
    ('h200-sxm-baremetal-8g', 'NVIDIA H200 SXM, whole node', 'nvidia', 'H200', 8, 'node', '{1}', 350),
    ('h200-sxm-slice', 'NVIDIA H200 SXM, by the GPU', 'nvidia', 'H200', 8, 'slice', '{1,2,4,8}', 380);

GRANT SELECT, INSERT, UPDATE ON skus TO gpuaas_app;
