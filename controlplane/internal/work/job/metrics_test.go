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
			return job.Result{}, &job.Failure{Class: job.StateAmbiguity, Code: job.CodeNamed("no_luck"), Message: "no luck", Final: true}
		}
		return job.Result{}, nil
	}
	turn, err := execute(t, d.runner.NextTurn, row.ID)
	for err == nil && turn.Do == durable.TurnRun {
		turn, err = execute(t, d.runner.RunStage, durable.StageCall{Job: row.ID, Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch})
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
		`gpuaas_job_moves_total{failure_class="`+string(now.FailureClass)+`",family="chore",stage="finish",status="`+string(now.Status)+`"} 1`,
	)
}

func TestLiveJobsAreCountedWithTheAgeOfTheOldestParkedOne(t *testing.T) {
	scraper := telemetrytest.New(t)
	db, owner := postgrestest.NewWithOwner(t)
	for _, sql := range []string{ // what rows of jobs refer to is of no account here
		`ALTER TABLE node_onboardings DROP CONSTRAINT node_onboardings_site_id_fkey, DROP CONSTRAINT node_onboardings_profile_id_fkey,
			DROP CONSTRAINT node_onboardings_sku_id_fkey`,
		`INSERT INTO node_onboardings (id, site_id, profile_id, sku_id, hostname, ipmi_ip, node_id, status, current_stage, failure_class,
			workflow_id, requested_by, correlation_id, parked_at, completed_at)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'a', 'h', '10.0.0.1', gen_random_uuid(), s.status, 'deploy', s.class, 'w', 'u', 'c', s.parked, s.over
		FROM (VALUES ('failed_retryable', 'bmc_power_failure', now() - interval '2 hours', NULL::timestamptz),
			('failed_retryable', 'bmc_power_failure', now() - interval '1 minute', NULL), ('running', '', NULL, NULL), ('completed', '', NULL, now())
		) AS s (status, class, parked, over)`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := job.ObserveStats(db); err != nil {
		t.Fatal(err)
	}
	scraper.Wants(t,
		`gpuaas_jobs{failure_class="bmc_power_failure",family="onboarding",stage="deploy",status="failed_retryable"} 2`,
		`gpuaas_jobs{failure_class="",family="onboarding",stage="deploy",status="running"} 1`,
		`gpuaas_jobs{failure_class="",family="decommission",stage="",status="running"} 0`,
		`gpuaas_jobs_parked_since_seconds{family="decommission",site=""} 0`,
	)
	got := scraper.Scrape(t)
	if strings.Contains(got, `status="completed"`) || !strings.Contains(got, `gpuaas_jobs_parked_since_seconds{family="onboarding",site=""} 72`) {
		t.Errorf("jobs that ended are counted, or the oldest parked one is not two hours old:\n%s", got)
	}
}
