package bringup

import (
	"context"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// ResolvePowerCredentials names the stage "Choose BMC credentials".
const ResolvePowerCredentials = "resolve_power_credentials"

var _ = catalog.Declare(job.Stage{
	Name: ResolvePowerCredentials, Title: "Choose BMC credentials", Attempts: 3, Resume: LoadSiteConfig,
	Looks:   "the overrides of the site, then its default",
	Does:    "nothing",
	Expects: "credentials for the BMC are known",
	Again:   "it only reads",
	Fails:   []job.FailureMode{MAASAway, job.FailsWith(SiteCapabilityMissing, "there are no credentials for the BMC")},
}, (*Bringup).ResolvePowerCredentials)

// ResolvePowerCredentials chooses by which credentials the BMC is reached, and
// makes sure that they are there.
func (b *Bringup) ResolvePowerCredentials(ctx context.Context, w *Work) (Result, error) {
	if _, err := b.power(ctx, w); err != nil {
		return Result{}, err
	}
	details := map[string]any{"fingerprint": w.Facts.PowerFingerprint}
	if w.Facts.PowerOverride != "" {
		details["override_id"] = w.Facts.PowerOverride
	}
	return Result{Message: "BMC credentials: " + w.Facts.PowerReason, Details: details}, nil
}

// power reads the BMC credentials of the machine. They stay within the stage.
func (b *Bringup) power(ctx context.Context, w *Work) (site.PowerCredentials, error) {
	found, choice, err := b.cfg.Sites.PowerFor(ctx, w.Site.ID,
		site.Machine{Hostname: w.Hostname, IPMIIP: w.IPMIIP, PXEMAC: w.PXEMAC})
	if err != nil {
		return found, err
	}
	w.Facts.PowerOverride = ""
	if !choice.Override.IsZero() {
		w.Facts.PowerOverride = choice.Override.String()
	}
	w.Facts.PowerFingerprint, w.Facts.PowerReason = choice.Fingerprint, choice.Reason
	return found, nil
}

// powerSettings are what MAAS is told of the BMC of the machine.
func powerSettings(w *Work, c site.PowerCredentials) maas.Power {
	return maas.Power{Type: c.Type(), Address: w.IPMIIP, User: c.User, Password: c.Pass, Extra: c.Extra()}
}
