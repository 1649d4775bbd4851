package bringup

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// DeployViaMAAS names the stage "Deploy".
const DeployViaMAAS = "deploy_via_maas"

var _ = catalog.Declare(job.Stage{
	Name: DeployViaMAAS, Title: "Deploy", Attempts: 3, Resume: RenderCloudInit,
	Looks:   "the machine, again before each effect",
	Does:    "allocates the machine and deploys the image with the first boot",
	Expects: "MAAS shows the machine as Deploying for this job",
	Again:   "a machine that this job already deploys is not deployed again",
	Fails:   []job.FailureMode{MAASAway, NotCapable, BMCSilent, OutOfBand},
}, (*Bringup).DeployViaMAAS)

// The codes of failures that only this stage has.
var (
	codeImageDiffers = job.DeclareCode(job.Code{
		Name: "deployed_image_differs", Class: StateAmbiguity,
		Cause:   "Somebody deployed the machine in MAAS with another image than the profile names.",
		Remedy:  "find out who deployed it; restart clean releases it if this job holds it, and deploys it again",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Onboarding: job.RestartClean, Decommission: job.Resume},
	})
	codeDeployedByOther = job.DeclareCode(job.Code{
		Name: "deployed_by_other", Class: StateAmbiguity,
		Cause:   "Somebody else deployed the machine in MAAS, or the profile was changed since it was deployed.",
		Remedy:  "find out who deployed it; restart clean releases it if this job holds it, and deploys it again",
		Runbook: "onboarding-parked",
	})
	codeFirstBootMissing = job.DeclareCode(job.Code{
		Name: "first_boot_missing", Class: StateAmbiguity,
		Cause:   "The prepared first boot is gone from the secrets engine.",
		Remedy:  "resume: it renders the first boot again",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{job.AnyFamily: job.Resume},
	})
	codeFirstBootChanged = job.DeclareCode(job.Code{
		Name: "first_boot_changed", Class: StateAmbiguity,
		Cause:   "The prepared first boot in the secrets engine is not the one that was made.",
		Remedy:  "resume: it renders the first boot again",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{job.AnyFamily: job.Resume},
	})
	codeSettingUnproven = job.DeclareCode(job.Code{
		Name: "setting_unproven", Class: UpstreamTransient,
		Cause:   "MAAS broke off while a setting of the region was being written.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
	codeAllocateFailed = job.DeclareCode(job.Code{
		Name: "allocate_failed",
		Cause: "MAAS would not give the machine to this job: somebody holds it, or a pool or constraint " +
			"is in the way.",
		Remedy:  "find out in MAAS who holds the machine, or which pool or constraint is in the way, then resume",
		Runbook: "onboarding-parked",
	})
	codeDeployNotStarted = job.DeclareCode(job.Code{
		Name:    "deploy_not_started",
		Cause:   "MAAS accepted the machine and refused to install it, or its answer was lost.",
		Remedy:  "look at the machine and its events in MAAS, then rerun",
		Runbook: "onboarding-parked",
		Mends:   job.Mends{Decommission: job.Rerun},
	})
)

const epochAnnotation = "gpuaas-epoch"

// DeployViaMAAS starts the installation, once: a machine on which it has begun
// is never deployed again from here.
func (b *Bringup) DeployViaMAAS(ctx context.Context, w *Work) (Result, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	switch {
	case m.Status == maas.StatusDeploying || m.Status == maas.StatusDeployed:
		if err := b.ourDeployment(ctx, r, w, m); err != nil {
			return Result{}, err
		}
		return Result{Skipped: true, Message: fmt.Sprintf("%s is %s already as this job asked for it", w.Hostname,
			m.Status.Label())}, nil
	case m.Status == maas.StatusFailedDeployment && ours(m, w):
		// What failed before must be given back before MAAS deploys it again.
		if m, err = b.release(ctx, r, w); err != nil {
			return Result{}, err
		}
	}
	userData, err := b.firstBoot(ctx, w)
	if err != nil {
		return Result{}, err
	}
	if err := b.assertSyncInterval(ctx, r, w); err != nil {
		return Result{}, err
	}
	if err := b.hold(ctx, r, w, m); err != nil {
		return Result{}, err
	}
	return b.deploy(ctx, r, w, userData)
}

// ourDeployment refuses a machine whose present deployment is not proven to be
// the one that this job asked for.
func (b *Bringup) ourDeployment(ctx context.Context, r *region, w *Work, m maas.Machine) error {
	image := w.Profile.Policy.DistroSeries
	differs := func(code *job.Code, format string, args ...any) *Failure {
		return code.Failed("%s is %s in MAAS, but %s", w.Hostname, m.Status.Label(), fmt.Sprintf(format, args...)).
			With("find out who deployed it; restart clean releases it if this job holds it, and deploys it again").ForGood().
			About(map[string]any{
				"maas_status": m.Status.Label(), "image": maas.Shown(m.Image()), "expected_image": image,
				"hardware_sync": m.EnableHWSync,
			})
	}
	m, err := asDeployed(ctx, r, w, m)
	if err != nil {
		return err
	}
	held, err := holds(ctx, r, w, m)
	switch {
	case err != nil:
		return err
	case !held:
		return foreign(m, w)
	case m.Hollow():
		return differs(codeMachineHollow, "nothing is installed on it")
	case !m.Runs(image):
		return differs(codeImageDiffers, "its image is %s and not %s", maas.Shown(m.Image()), image)
	case m.EnableHWSync != w.Profile.Policy.RequireHWSync:
		return differs(codeDeployedByOther, "its hardware sync is not as this job asks for it")
	}
	by, known, err := asked(ctx, r, w, deploying)
	if err != nil {
		return err
	}
	switch {
	case known && !by:
		return differs(codeDeployedByOther, "somebody else asked for that deployment")
	case w.Facts.Deploys == 0 && !by:
		return differs(codeDeployedByOther, "this job has not deployed it")
	case w.Facts.Deploys == 0: // it has, and its record of it was overwritten
		w.Facts.Deploys = 1
	}
	w.Facts.begun(m)
	if !ours(m, w) {
		// Somebody released it just before, and MAAS acquired it again.
		return b.mark(ctx, r, w)
	}
	return nil
}

// firstBoot reads the rendered first boot. It fails unless that is the one that
// the facts name.
func (b *Bringup) firstBoot(ctx context.Context, w *Work) (redact.Secret, error) {
	values, err := b.cfg.Secrets.Get(ctx, firstBootPath(w))
	userData := values[userDataField]
	if fault.KindOf(err) == fault.NotFound || err == nil && userData.IsZero() {
		return redact.Secret{}, codeFirstBootMissing.Failed("the rendered first boot of %s is not in the secrets engine",
			w.Hostname).
			With("resume: it is rendered again, with a fresh token").ForGood().Because(err)
	}
	if err != nil {
		return redact.Secret{}, fmt.Errorf("read first boot: %w", err)
	}
	if firstboot.Digest(userData) != w.Facts.FirstBootDigest {
		return redact.Secret{},
			codeFirstBootChanged.Failed("the first boot of %s in the secrets engine is not the one that was rendered",
				w.Hostname).
				With("find out who wrote it; resume renders it again, with a fresh token").ForGood()
	}
	return userData, nil
}

// syncIntervalSetting is the setting that MAAS gives each machine when it
// deploys it.
const syncIntervalSetting = "hardware_sync_interval"

func (b *Bringup) assertSyncInterval(ctx context.Context, r *region, w *Work) error {
	if !w.Profile.Policy.RequireHWSync {
		return nil
	}
	have, err := r.Setting(ctx, syncIntervalSetting)
	if err != nil {
		return err
	}
	want := w.Profile.Policy.HardwareSyncInterval
	if same(have, want) {
		return nil
	}
	owns, err := b.ownsInterval(ctx, w)
	if err != nil || !owns {
		return err
	}
	if err := w.Fence(ctx); err != nil {
		return err
	}
	err = r.SetSetting(ctx, syncIntervalSetting, want)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return unproven(err, codeSettingUnproven, "MAAS did not confirm that machines report their hardware every %s", want)
}

// ownsInterval says whether the profile of the work decides about the interval.
// MAAS has one for all machines. Preflight and the probe of the site tell a
// profile that wants another one; it gets the owner's.
func (b *Bringup) ownsInterval(ctx context.Context, w *Work) (bool, error) {
	wishes, err := b.cfg.Sites.IntervalWishes(ctx, w.Site.ID)
	if err != nil {
		return false, err
	}
	if len(wishes) > 0 && wishes[0].Profile == w.Profile.ID {
		return true, nil
	}
	b.cfg.Logger.WarnContext(ctx, "the interval of hardware sync in MAAS belongs to another profile and is left alone",
		"job", w.Job, "profile", w.Profile.Name, "wants", w.Profile.Policy.HardwareSyncInterval)
	return false, nil
}

func same(have, want string) bool {
	a, err := site.ParseInterval(have)
	b, wrong := site.ParseInterval(want)
	return have == want || err == nil && wrong == nil && a == b
}

// hold makes this job the holder of the machine, with its name on it.
func (b *Bringup) hold(ctx context.Context, r *region, w *Work, m maas.Machine) error {
	switch {
	case m.Status == maas.StatusAllocated && ours(m, w):
		return nil
	case m.Status == maas.StatusReady:
		if err := b.allocate(ctx, r, w); err != nil {
			return err
		}
	default:
		held, err := holds(ctx, r, w, m)
		if err != nil {
			return err
		}
		switch {
		case !occupies(m.Status):
			return codeMachineNotReady.Failed("%s is %s in MAAS and not Ready: it cannot be deployed", w.Hostname,
				m.Status.Label()).
				With("check the machine in MAAS, then rerun: it continues from its present state").ForGood()
		case !held || m.Status != maas.StatusAllocated:
			return foreign(m, w)
		}
	}
	return b.mark(ctx, r, w)
}

func (b *Bringup) allocate(ctx context.Context, r *region, w *Work) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	_, err := r.Allocate(ctx, maas.AllocateOptions{SystemID: w.SystemID, AgentName: "gpuaas", Comment: comment(w)})
	if err == nil || ctx.Err() != nil {
		return err
	}
	// Winning it with a lost answer looks like losing it.
	m, lookErr := b.machine(ctx, r, w)
	if lookErr != nil {
		return lookErr
	}
	held, lookErr := holds(ctx, r, w, m)
	switch {
	case lookErr != nil:
		return lookErr
	case held && m.Status == maas.StatusAllocated:
		return nil
	case m.Status == maas.StatusReady && m.Locked:
		return codeMachineLocked.Failed("%s is locked in MAAS", w.Hostname).
			With("unlock it in MAAS if that is intended, then resume").ForGood().Because(err)
	case m.Status == maas.StatusReady:
		return refused(err, codeAllocateFailed, "%s is still Ready", w.Hostname)
	}
	return foreign(m, w)
}

// deploy sends the deployment. It is counted before it is sent.
func (b *Bringup) deploy(ctx context.Context, r *region, w *Work, userData redact.Secret) (Result, error) {
	if err := w.Fence(ctx); err != nil {
		return Result{}, err
	}
	image := w.Profile.Policy.DistroSeries
	f := &w.Facts
	f.Deploys++
	f.DeployFailure, f.DeployEvidence = "", ""
	f.uninstalled()
	if err := w.Save(ctx); err != nil {
		return Result{}, err
	}
	m, err := r.Deploy(ctx, w.SystemID, maas.DeployOptions{
		Image: image, UserData: userData, EnableHWSync: w.Profile.Policy.RequireHWSync, AgentName: "gpuaas",
		Comment: comment(w),
	})
	if err != nil {
		return b.afterDeploy(ctx, r, w, err)
	}
	b.see(w, m)
	f.begun(m)
	if err := w.Save(ctx); err != nil {
		return Result{}, err
	}
	return Result{
		Message: fmt.Sprintf("MAAS installs %s on %s", m.Image(), w.Hostname),
		Details: map[string]any{"image": m.Image(), "first_boot_digest": f.FirstBootDigest, "deployment": f.Deploys},
	}, nil
}

// lookAgain is how long a request that broke off may still be on its way
// through MAAS before a second look.
const lookAgain = 2 * time.Second

// afterDeploy finds out what became of a deployment that was answered by an
// error, or not at all.
func (b *Bringup) afterDeploy(ctx context.Context, r *region, w *Work, sent error) (Result, error) {
	if code := fault.CodeOf(sent); ctx.Err() != nil || code == maas.CodeImageMismatch || code == maas.CodeImageMissing {
		return Result{}, sent
	}
	for first := true; ; first = false {
		m, err := b.machine(ctx, r, w)
		if err != nil {
			return Result{}, err
		}
		switch {
		case m.Status == maas.StatusDeploying || m.Status == maas.StatusDeployed:
			if err := b.ourDeployment(ctx, r, w, m); err != nil {
				return Result{}, err
			}
			return Result{Message: fmt.Sprintf("the answer of MAAS was lost, but it installs %s on %s", m.Image(), w.Hostname)},
				nil
		case m.Status == maas.StatusFailedDeployment && ours(m, w):
			return Result{Message: "the deployment began and failed at once"}, nil
		case !occupies(m.Status):
			return Result{}, codeMachineReleased.Failed("%s is %s in MAAS: somebody released it before it was deployed",
				w.Hostname, m.Status.Label()).ForGood().Because(sent)
		case m.Status != maas.StatusAllocated || !ours(m, w):
			return Result{}, foreign(m, w)
		}
		if k := fault.KindOf(sent); !first || k != fault.Ambiguous && k != fault.Unavailable {
			return Result{}, refused(sent, codeDeployNotStarted, "%s is still Allocated: MAAS did not begin to deploy it",
				w.Hostname)
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}
}

// dropFirstBoot removes what was rendered. The machine has it, or will get
// another one.
func (b *Bringup) dropFirstBoot(ctx context.Context, w *Work) error {
	if err := b.cfg.Secrets.Delete(ctx, firstBootPath(w)); err != nil && fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("remove first boot: %w", err)
	}
	w.Facts.FirstBootPath = ""
	return nil
}
