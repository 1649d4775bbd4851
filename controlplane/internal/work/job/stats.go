package job

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

var (
	liveJobs = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.jobs", Labels: []string{"family", "status", "stage", "failure_class"},
		Help: "Jobs that have not ended.",
	})
	parkedSince = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.jobs.parked_since", Seconds: true, Labels: []string{"family", "site"},
		Help: "How long the job that was parked first has been waiting for an operator; 0 when none is.",
	})
)

// ObserveStats exports how many jobs have not ended, and how long
// the oldest parked one has waited, read in one query when somebody scrapes.
func ObserveStats(db *postgres.DB) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		rows, err := jobdb.New(db).Standing(ctx)
		if err != nil {
			return fmt.Errorf("count jobs: %w", err)
		}
		show(rows, seen)
		return nil
	}, liveJobs, parkedSince)
	return err
}

// show exports a status that no job is in as zero, so that graphs go down to it.
func show(rows []jobdb.StandingRow, seen telemetry.Seen) {
	type series struct{ family, status, stage, class string }
	type place struct{ family, site string }
	count, oldest := map[series]int64{}, map[place]float64{}
	_, known := families()
	for family, c := range known {
		oldest[place{family, ""}] = 0
		for _, s := range c.life.Table.States {
			if !s.Terminal {
				count[series{family, string(s.Name), "", ""}] = 0
			}
		}
	}
	for _, r := range rows {
		count[series{r.Family, r.Status, r.Stage, r.FailureClass}] += r.Jobs
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
