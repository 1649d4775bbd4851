package budget

import "gpuaas/controlplane/internal/engine/telemetry"

var told = telemetry.NewCounter(telemetry.Metric{
	Name: "gpuaas.billing.budget_alerts", Help: "Percentages of budgets that projects were told to have spent.",
})
