-- +goose Up
-- What a project means to spend in a month, when it is told, and whether it is stopped.
CREATE TABLE project_budgets (
    project_id   uuid PRIMARY KEY REFERENCES projects,
    org_id       uuid NOT NULL,
    currency     text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor BETWEEN 1 AND 1000000000000000),
    period       text NOT NULL CHECK (period IN ('month')),
    alerts       integer[] NOT NULL CHECK (cardinality(alerts) <= 10 AND 0 < ALL (alerts) AND 1000 >= ALL (alerts)),
    hard_stop    boolean NOT NULL,
    version      bigint NOT NULL DEFAULT 1,
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by   text NOT NULL,
    -- One currency per tenant: that of its account.
    FOREIGN KEY (org_id, currency) REFERENCES billing_accounts (org_id, currency)
);
CREATE INDEX project_budgets_of_tenant ON project_budgets (org_id, project_id);
COMMENT ON TABLE project_budgets IS 'A project without a row spends without one. Whoever rents for a project with a hard stop locks its row.';
COMMENT ON COLUMN project_budgets.period IS 'Months are those of the calendar, in UTC.';
COMMENT ON COLUMN project_budgets.alerts IS 'At which percentages of the amount the project is told.';
COMMENT ON COLUMN project_budgets.hard_stop IS 'Whether new requests are refused that go beyond the amount.';
GRANT SELECT, INSERT, UPDATE, DELETE ON project_budgets TO gpuaas_app;

-- What was told, each percentage once in a period. A row is deleted only where a higher amount makes it untrue.
CREATE TABLE project_budget_alerts (
    project_id   uuid NOT NULL REFERENCES projects,
    period_start timestamptz NOT NULL,
    percent      integer NOT NULL CHECK (percent BETWEEN 1 AND 1000),
    amount_minor bigint NOT NULL,
    spent_minor  bigint NOT NULL,
    told_at      timestamptz NOT NULL,
    PRIMARY KEY (project_id, period_start, percent)
);
COMMENT ON TABLE project_budget_alerts IS 'It outlives the budget: who removes one and sets it again is not told twice.';
GRANT SELECT, INSERT, DELETE ON project_budget_alerts TO gpuaas_app;

-- What was used in a month is found without what was used before it.
CREATE INDEX usage_meters_closed ON usage_meters (org_id, closed_at) WHERE closed_at IS NOT NULL;
