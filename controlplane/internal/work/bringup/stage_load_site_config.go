package bringup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// LoadSiteConfig names the stage "Read the site".
const LoadSiteConfig = "load_site_config"

var _ = catalog.Declare(job.Stage{
	Name: LoadSiteConfig, Title: "Read the site", Attempts: 3, Resume: LoadSiteConfig,
	Looks:   "the site, its profile and its MAAS",
	Does:    "nothing",
	Expects: "the site is active, MAAS answers, takes the token, has the image and what the site requires",
	Again:   "it only reads",
	Fails: []job.FailureMode{
		MAASAway, NotCapable, job.FailsWith(InputConfigError, "the site is disabled and nothing was started"),
	},
}, (*Bringup).LoadSiteConfig)

// The code of failures that only this stage has.
var codeNotAdmin = job.DeclareCode(job.Code{
	Name: "maas_not_admin", Class: SiteCapabilityMissing,
	Cause:   "The MAAS token of the site belongs to somebody who is not an administrator there.",
	Remedy:  "write the token of a MAAS administrator: gpuaas site credentials set SITE --maas-token-file FILE",
	Runbook: "maas-credentials",
})

var codeSitePrerequisite = job.DeclareCode(job.Code{
	Name: "site_prerequisite_missing", Class: SiteCapabilityMissing,
	Cause: "MAAS lacks what the site describes or requires: its PXE network with DHCP, a capability, " +
		"or a commissioning or testing script.",
	Remedy:  "see all that is missing, with remedies: gpuaas site doctor SITE; fix it and retry",
	Runbook: "onboarding-parked",
})

// siteFreshFor is how long what was found out about a whole site holds for the
// next machine: a batch does not ask it two hundred times.
const siteFreshFor = time.Minute

// LoadSiteConfig makes sure that the site and the profile are to be used, that
// MAAS can be reached and accepts our credentials, and that it has what the profile wants.
func (b *Bringup) LoadSiteConfig(ctx context.Context, w *Work) (Result, error) {
	if w.SystemID == "" { // work that was begun is finished even so
		if err := site.RequireEnabled(w.Site); err != nil {
			return Result{}, err
		}
		if err := site.RequireProfileEnabled(w.Profile); err != nil {
			return Result{}, err
		}
	}
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	oldest := b.now().Add(-siteFreshFor)
	user, err := r.user.since(ctx, oldest, b.now(), r.WhoAmI)
	if err != nil {
		return Result{}, err
	}
	if !user.Admin {
		return Result{}, codeNotAdmin.Failed("the MAAS token of site %s belongs to %s, who is not an administrator",
			w.Site.Name, user.Username).
			With("write the token of a MAAS administrator: gpuaas site credentials set %s --maas-token-file FILE", w.Site.Name).
			ForGood()
	}
	if !w.deploys() {
		return Result{Message: fmt.Sprintf("signed in to MAAS of site %s as %s", w.Site.Name, user.Username)}, nil
	}
	if err := b.requireImage(ctx, r, w); err != nil {
		return Result{}, err
	}
	warning, err := b.requirePrerequisites(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	dns, err := r.dns.since(ctx, oldest, b.now(), func(ctx context.Context) (string,
		error,
	) {
		return r.Setting(ctx, "upstream_dns")
	})
	if err != nil {
		return Result{}, err
	}
	out := Result{Message: fmt.Sprintf("signed in to MAAS of site %s as %s; it has %s", w.Site.Name, user.Username,
		w.Profile.Policy.DistroSeries)}
	if warning != "" {
		out.Message += "; WARNING: " + warning
	}
	if missing := lacking(w.Site.Settings.UpstreamDNSServers, dns); len(missing) > 0 {
		out.Message += "; it does not forward DNS to " + strings.Join(missing, ", ")
		out.Details = map[string]any{"upstream_dns": dns, "upstream_dns_missing": missing}
	}
	return out, nil
}

// requirePrerequisites makes sure that MAAS has what the site describes and requires,
// before anything is begun. A machine that MAAS has already is not held up by it.
func (b *Bringup) requirePrerequisites(ctx context.Context, r *region, w *Work) (warning string, err error) {
	if w.SystemID != "" {
		return "", nil
	}
	oldest := b.now().Add(-siteFreshFor)
	found, err := r.racks.since(ctx, oldest, b.now(), r.RackControllers)
	if err != nil {
		return "", err
	}
	racks, p := site.RacksOf(found), w.Profile.Policy
	if err := site.RequirePXE(w.Site, p, racks); err != nil && p.StrictPXEPreflight {
		return "", prerequisite(err)
	} else if f, is := fault.As(err); is {
		warning = f.Message
	}
	if err := site.RequireCapabilities(w.Site, p, racks); err != nil {
		return "", prerequisite(err)
	}
	if len(w.Site.Settings.RequiredScripts) == 0 {
		return warning, nil
	}
	scripts, err := r.scripts.since(ctx, oldest, b.now(), r.Scripts)
	if err != nil {
		return "", err
	}
	if err := site.RequireScripts(w.Site, site.ScriptsOf(scripts)); err != nil {
		return "", prerequisite(err)
	}
	return warning, nil
}

func prerequisite(err error) error {
	f, _ := fault.As(err)
	return codeSitePrerequisite.Failed("%s", f.Message).With("%s", f.Remedy).ForGood().
		About(map[string]any{"prerequisite": f.Code}).Because(err)
}

// requireImage asks again before it believes that an image is missing: somebody
// may just have added it.
func (b *Bringup) requireImage(ctx context.Context, r *region, w *Work) error {
	image, arch := w.Profile.Policy.DistroSeries, w.Profile.Policy.Architecture
	for _, age := range []time.Duration{siteFreshFor, 0} {
		images, err := r.images.since(ctx, b.now().Add(-age), b.now(), r.Images)
		if err != nil {
			return err
		}
		if offers(images, image, arch) {
			return nil
		}
	}
	return codeImageMissing.Failed("MAAS of site %s has no image %s for %s", w.Site.Name, image, arch).
		With("import or upload the image in MAAS, or correct the profile %s", w.Profile.Name).ForGood().
		About(map[string]any{"image": image, "architecture": arch})
}

func offers(images []maas.Image, name, arch string) bool {
	wanted, _, _ := strings.Cut(arch, "/")
	fitting := slices.DeleteFunc(slices.Clone(images), func(i maas.Image) bool {
		has, _, _ := strings.Cut(i.Architecture, "/")
		return has != wanted
	})
	return maas.HasImage(fitting, name)
}

func lacking(wanted []string, have string) []string {
	there := strings.FieldsFunc(have, func(r rune) bool { return r == ' ' || r == ',' })
	return slices.DeleteFunc(slices.Clone(wanted), func(s string) bool { return slices.Contains(there, s) })
}
