package bringup

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/work/job"
)

// ClassifyDeployFailure names the stage "Find out why the deployment failed".
const ClassifyDeployFailure = "classify_deploy_failure"

var _ = catalog.Declare(job.Stage{
	Name: ClassifyDeployFailure, Title: "Find out why the deployment failed", Attempts: 1,
	Resume: RenderCloudInit, Detour: true,
	Looks:   "the events and installation results of MAAS",
	Does:    "releases the machine to Ready unless it is to be deployed again",
	Expects: "the cause of the failed deployment is known: either the first boot did not reach MAAS, or something else failed",
	Again:   "releasing looks first",
	Fails:   []job.FailureMode{MAASAway, OutOfBand, notInstalled, notBooted},
}, (*Bringup).ClassifyDeployFailure)

// The code of failures that only this stage has.
var codeNoDatasource = job.DeclareCode(job.Code{
	Name: "deploy_failed_datasource", Class: DeployCloudInitFailure,
	Cause: "The installed system did not reach the metadata server of MAAS at its first boot: network " +
		"or DNS on the deploy interface.",
	Remedy:  "read the events and the installation log of the machine in MAAS, remove the cause, then rerun",
	Runbook: "onboarding-parked",
})

// The kinds of failed deployments. A datasource-like one is worth another try:
// the system was installed, and its first boot did not get through to MAAS.
const (
	datasourceLike = "datasource_like"
	generic        = "generic"
)

// ClassifyDeployFailure finds out why a deployment failed. Then it leads to the
// one redeployment that the profile allows, or gives the machine back to MAAS
// and ends the attempt.
func (b *Bringup) ClassifyDeployFailure(ctx context.Context, w *Work) (Result, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	if m.Installed() {
		return lateSuccess(w), nil
	}
	if m.Status.Free() && w.Facts.DeployFailure != "" { // an earlier run came as far as the release
		return Result{}, deployFailure(w, strings.Contains(w.Facts.DeployEvidence, timedOut))
	}
	if !ours(m, w) {
		return Result{}, foreign(m, w)
	}
	c := cause{
		kind: w.Facts.DeployFailure, evidence: w.Facts.DeployEvidence,
		late: strings.Contains(w.Facts.DeployEvidence, timedOut),
	}
	if c.kind == "" {
		c = b.causeOf(ctx, r, w, m)
		w.Facts.DeployFailure, w.Facts.DeployEvidence = c.kind, c.evidence
		if err := w.Save(ctx); err != nil {
			return Result{}, err
		}
	}
	if p := w.Profile.Policy; c.kind == datasourceLike && p.EnableDeployRetryOnDatasourceFailure &&
		w.Facts.Redeploys < int(p.MaxDeployRetryAttempts) {
		return Result{
			Message: fmt.Sprintf("the first boot of %s did not get through to MAAS (%s); it is deployed again", w.Hostname,
				c.evidence),
			Details: map[string]any{
				"failure": c.kind, "evidence": c.evidence, "redeploys": w.Facts.Redeploys,
				"most": p.MaxDeployRetryAttempts,
			},
			Next: RecoverForDatasourceRetry,
		}, nil
	}
	if _, err := b.release(ctx, r, w); err != nil {
		f := Classify(err)
		f.Details = with(f.Details, map[string]any{"deploy_failure": c.kind, "deploy_evidence": c.evidence})
		return Result{}, f
	}
	if err := b.dropSecrets(ctx, w); err != nil {
		return Result{}, err
	}
	return Result{}, deployFailure(w, c.late)
}

func lateSuccess(w *Work) Result {
	return Result{Message: w.Hostname + " is Deployed after all", Next: WaitForDeployed}
}

func with(details, more map[string]any) map[string]any {
	out := make(map[string]any, len(details)+len(more))
	for _, from := range []map[string]any{details, more} {
		for k, v := range from {
			out[k] = v
		}
	}
	return out
}

// deployFailure makes the failure of a deployment that is not tried again.
func deployFailure(w *Work, late bool) *Failure {
	code, why := codeDeployFailed, "the installation failed"
	switch {
	case w.Facts.DeployFailure == datasourceLike:
		code, why = codeNoDatasource, "the installed system did not get through to MAAS at its first boot"
	case late:
		code, why = codeDeployTimeout, "it did not end in time"
	}
	return code.Failed("the deployment of %s failed: %s (%s); the machine was released", w.Hostname, why,
		w.Facts.DeployEvidence).
		With("read the events and the installation log of the machine in MAAS, remove the cause, then rerun").ForGood().
		About(map[string]any{
			"failure": w.Facts.DeployFailure, "evidence": w.Facts.DeployEvidence,
			"deployments": w.Facts.Deploys, "redeploys": w.Facts.Redeploys,
		})
}

// cause says why a deployment failed, as far as MAAS knows.
type cause struct {
	kind     string
	evidence string
	late     bool // the time was up, MAAS's or ours
}

const (
	timedOut    = "time-out"
	maxEvidence = 600
	maxProgress = 200
)

// datasourceWords are the words that MAAS records if a first boot did not get
// its user data, or did not finish with it.
var datasourceWords = regexp.MustCompile(`(?i)no datasource|datasource ?(?:none|not found)|datasource(?:maas)?\b|cloud-?init|modules[ -](?:for )?final|running modules for`)

// causeOf reads what MAAS has recorded since the deployment began. If it cannot
// be read, the cause is generic, and nothing is tried again by itself.
func (b *Bringup) causeOf(ctx context.Context, r *region, w *Work, m maas.Machine) cause {
	events, err := r.Events(ctx, maas.EventQuery{IDs: []string{w.SystemID}, Level: maas.LevelInfo, Limit: maxProgress})
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "events of a failed deployment cannot be read", "machine", w.SystemID, "error", err)
		return cause{kind: generic, evidence: "the events of MAAS cannot be read", late: m.Status == maas.StatusDeploying}
	}
	installed, failedScripts := b.installation(ctx, r, w, m)
	return judge(m, sinceDeploying(events), installed, failedScripts)
}

// sinceDeploying drops what belongs to earlier deployments.
func sinceDeploying(events []maas.Event) []maas.Event {
	for i, e := range slices.Backward(events) {
		if e.Type == "Deploying" {
			return events[i:]
		}
	}
	return events
}

// installation reads how the installation itself ended. Best effort.
func (b *Bringup) installation(ctx context.Context, r *region, w *Work, m maas.Machine) (passed bool,
	failedScripts []string,
) {
	sets, err := r.Results(ctx, w.SystemID, maas.ResultInstallation)
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "results of a failed deployment cannot be read", "machine", w.SystemID, "error", err)
		return false, nil
	}
	for _, set := range sets {
		if m.InstallationResultID != 0 && set.ID != m.InstallationResultID {
			continue
		}
		passed = set.StatusName == "Passed"
		for _, s := range set.Results {
			if s.Failed() {
				failedScripts = append(failedScripts, s.Name+" "+s.StatusName)
			}
		}
	}
	return passed, failedScripts
}

// judge decides which kind of failure it was. If the installer failed, the first boot
// is not to blame, whatever else MAAS recorded. If MAAS recorded nothing after the
// installed system was started, the first boot is.
func judge(m maas.Machine, events []maas.Event, installed bool, failedScripts []string) cause {
	c := cause{kind: generic, late: m.Status == maas.StatusDeploying}
	var said []string
	broken, lastStep := len(failedScripts) > 0, ""
	for _, e := range events {
		text := strings.TrimSuffix(e.Type+": "+e.Description, ": ")
		if e.Level != maas.LevelError && e.Level != maas.LevelCritical {
			if e.Level == maas.LevelInfo {
				lastStep = e.Type
			}
			continue
		}
		said = append(said, text)
		switch {
		case strings.Contains(strings.ToLower(e.Description), timedOut):
			c.late = true
		case e.Type == "Node installation failure", strings.HasPrefix(e.Type, "Failed to power"):
			broken = true
		case datasourceWords.MatchString(text):
			c.kind = datasourceLike
		}
	}
	rebooted := installed || lastStep == "Rebooting"
	if c.kind == generic && c.late && rebooted {
		c.kind = datasourceLike
		said = append(said, "the system was installed and rebooted, and was not heard of again")
	}
	if broken {
		c.kind = generic
	}
	c.evidence = evidence(said, failedScripts, lastStep, c.late)
	return c
}

func evidence(said, scripts []string, lastStep string, late bool) string {
	if late {
		said = append(said, timedOut)
	}
	for _, s := range scripts {
		said = append(said, "script "+s)
	}
	if lastStep != "" {
		said = append(said, "last step: "+lastStep)
	}
	if len(said) == 0 {
		return "MAAS gives no reason"
	}
	said = slices.Compact(said)
	var out []string
	length := 0
	for _, s := range slices.Backward(said) { // the newest are the most telling
		s = maas.Shown(s)
		if length += len(s); length > maxEvidence {
			break
		}
		out = append(out, s)
	}
	slices.Reverse(out)
	return strings.Join(out, "; ")
}
