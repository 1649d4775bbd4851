package job_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry/telemetrytest"
	"gpuaas/controlplane/internal/work/job"
)

func TestAttemptsAndMovesOfJobsAreMeasured(t *testing.T) {
	scraper, d := telemetrytest.New(t), newDesk(t)
	row := d.put(t, chore{Job: job.Job{Status: job.Pending, Stage: "begin"}})
	d.perform = func(stage string, _ *toil) (job.Result, error) {
		d.clock = d.clock.Add(20 * time.Second)
		if stage == "finish" {
			return job.Result{}, &job.Failure{
				Class: job.StateAmbiguity, Code: job.CodeNamed("no_luck"), Message: "no luck",
				Final: true,
			}
		}
		return job.Result{}, nil
	}
	turn, err := execute(t, d.runner.NextTurn, row.ID)
	for err == nil && turn.Do == durable.TurnRun {
		turn, err = execute(t, d.runner.RunStage,
			durable.StageCall{Job: row.ID, Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch})
	}
	if err != nil || turn.Do != durable.TurnPark {
		t.Fatalf("%+v %v", turn, err)
	}
	now, _ := d.read(t)
	if _, err := d.runner.Act(d.ctx, row.ID, job.Resume, "somebody looked"); err != nil {
		t.Fatal(err)
	}
	scraper.Wants(t,
		`gpuaas_job_stage_duration_seconds_bucket{family="chore",outcome="succeeded",stage="begin",le="15"} 0`,
		`gpuaas_job_stage_duration_seconds_bucket{family="chore",outcome="succeeded",stage="begin",le="30"} 1`,
		`gpuaas_job_stage_duration_seconds_count{family="chore",outcome="parked",stage="finish"} 1`,
		`gpuaas_job_moves_total{failure_class="",family="chore",stage="begin",status="running"} 2`,
		`gpuaas_job_moves_total{failure_class="`+string(now.FailureClass)+`",family="chore",stage="finish",status="`+
			string(now.Status)+`"} 1`,
	)
}

func TestLiveJobsAreCountedWithTheAgeOfTheOldestParkedOne(t *testing.T) {
	scraper := telemetrytest.New(t)
	db, owner := postgrestest.NewWithOwner(t)
	newDesk(t) // whose family is one of which there is no job
	_, err := owner.Exec(t.Context(), `INSERT INTO jobs (id, family, subject, status, phase, current_stage, failure_class, workflow_id, requested_by,
			correlation_id, parked_at, completed_at)
		SELECT gen_random_uuid(), 'errand', 'h', s.status, s.phase, 'deploy', s.class, 'w', 'u', 'c', s.parked, s.over
		FROM (VALUES ('stuck', 'parked', 'bmc_power_failure', now() - interval '2 hours', NULL::timestamptz),
			('stuck', 'parked', 'bmc_power_failure', now() - interval '1 minute', NULL), ('going', 'working', '', NULL, NULL), ('gone', 'over', '', NULL, now())
		) AS s (status, phase, class, parked, over)`)
	if err != nil {
		t.Fatal(err)
	}
	if err := job.ObserveStats(db); err != nil {
		t.Fatal(err)
	}
	scraper.Wants(t,
		`gpuaas_jobs{failure_class="bmc_power_failure",family="errand",stage="deploy",status="stuck"} 2`,
		`gpuaas_jobs{failure_class="",family="errand",stage="deploy",status="going"} 1`,
		`gpuaas_jobs{failure_class="",family="chore",stage="",status="running"} 0`,
		`gpuaas_jobs_parked_since_seconds{family="chore",site=""} 0`,
	)
	got := scraper.Scrape(t)
	if strings.Contains(got, `status="gone"`) ||
		!strings.Contains(got, `gpuaas_jobs_parked_since_seconds{family="errand",site=""} 72`) {
		t.Errorf("jobs that ended are counted, or the oldest parked one is not two hours old:\n%s", got)
	}
}
