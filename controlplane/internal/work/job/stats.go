package job

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
)

var (
	liveJobs = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.jobs", Labels: []string{"family", "status", "stage", "failure_class"}, Help: "Jobs that have not ended.",
	})
	parkedSince = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.jobs.parked_since", Seconds: true, Labels: []string{"family", "site"},
		Help: "How long the job that was parked first has been waiting for an operator; 0 when none is.",
	})
)

// families are those that standing reads the rows of.
var families = []string{"onboarding", "decommission"}

// standing reads partial indexes of jobs that have not ended: those that have are
// not counted, however many there are.
const standing = `
SELECT j.family, coalesce(s.name, '') AS site, j.status, j.stage, j.class, count(*) AS jobs,
       coalesce(EXTRACT(epoch FROM clock_timestamp() - min(j.parked_at)), 0)::float8 AS parked
FROM (SELECT 'onboarding' AS family, site_id, status::text AS status, current_stage AS stage, failure_class::text AS class, parked_at
      FROM node_onboardings WHERE completed_at IS NULL
      UNION ALL
      SELECT 'decommission', site_id, status::text, current_stage, failure_class::text, parked_at
      FROM node_decommissions WHERE completed_at IS NULL) j
LEFT JOIN maas_sites s ON s.id = j.site_id
GROUP BY 1, 2, 3, 4, 5`

type standingRow struct {
	Family, Site, Status, Stage, Class string
	Jobs                               int64
	Parked                             float64
}

// ObserveStats exports how many jobs have not ended, and how long
// the oldest parked one has waited, read in one query when somebody scrapes.
func ObserveStats(db *postgres.DB) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		rows, err := db.Query(ctx, standing)
		if err != nil {
			return fmt.Errorf("count jobs: %w", err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[standingRow])
		if err != nil {
			return fmt.Errorf("count jobs: %w", err)
		}
		show(all, seen)
		return nil
	}, liveJobs, parkedSince)
	return err
}

// show exports a status that no job is in as zero, so that graphs go down to it.
func show(rows []standingRow, seen telemetry.Seen) {
	type series struct{ family, status, stage, class string }
	type place struct{ family, site string }
	count, oldest := map[series]int64{}, map[place]float64{}
	for _, family := range families {
		oldest[place{family, ""}] = 0
		for _, s := range Parking.Table.States {
			if !s.Terminal {
				count[series{family, string(s.Name), "", ""}] = 0
			}
		}
	}
	for _, r := range rows {
		count[series{r.Family, r.Status, r.Stage, r.Class}] += r.Jobs
		at := place{r.Family, r.Site}
		oldest[at] = max(oldest[at], r.Parked)
	}
	for s, n := range count {
		seen(liveJobs, float64(n), s.family, s.status, s.stage, s.class)
	}
	for at, age := range oldest {
		seen(parkedSince, age, at.family, at.site)
	}
}
