package bringup

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/fleet/site"
)

// adoptExisting is Adopt for a job about a node that was there before it.
func (b *Bringup) adoptExisting(ctx context.Context, w *Work) (Result, error) {
	r, m, err := b.boundMachine(ctx, w)
	if err != nil {
		return Result{}, err
	}
	ended := w.Facts.Release != nil && w.Facts.Release.EndedAt != nil
	held, err := belongs(ctx, r, w, m)
	if err != nil {
		return Result{}, err
	}
	next := w.afterRelease()
	switch {
	case m.Status.Free() && !ended:
		return b.adoptRelease(ctx, r, w, m)
	case m.Status == maas.StatusNew && w.Reimage:
		return Result{}, uncommissioned(w)
	case m.Status.Free():
	case !ended && held:
		next = ReleaseMAASNode
	case !w.Reimage || !ended:
		return Result{}, nothingToAdopt("%s is %s in MAAS, and this job does not hold it", w.Hostname, m.Status.Label())
	default:
		if next, err = b.adoptable(ctx, r, w, m); err != nil {
			return Result{}, err
		}
	}
	return adopted(w, m, next), nil
}

func adopted(w *Work, m maas.Machine, next string) Result {
	return Result{
		Message: fmt.Sprintf("%s is %s in MAAS; the job goes on with %s", w.Hostname, m.Status.Label(), next),
		Next:    next, Details: map[string]any{"maas_status": m.Status.Label(), "system_id": m.SystemID},
	}
}

func (w *Work) afterRelease() string {
	if w.Reimage {
		return ConfigureStorage
	}
	return PowerOffMAASNode
}

// unknownErase is recorded as the erasing of a release by somebody else,
// because MAAS does not say how it erased.
const unknownErase = "unknown"

// adoptRelease accepts a machine as released although this job did not release it.
// If an earlier job of the node asked for the release, the erasing that MAAS reports
// counts. If anybody else did, nothing is known, so the disks count as not erased,
// and the profile must allow that.
func (b *Bringup) adoptRelease(ctx context.Context, r *region, w *Work, m maas.Machine) (Result, error) {
	f, err := w.releaseAsked()
	if err != nil {
		return Result{}, err
	}
	said, err := b.releaseRecord(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	achieved := site.EraseNone // as far as is known
	if said.earlier {
		achieved = said.achieved()
	}
	if least := w.leastErase(); achieved.Less(least) {
		return Result{}, nothingToAdopt("%s was released by somebody else, and the profile demands at least %s erasing, which is not proven", w.Hostname, least).
			With("erase its disks by hand; then lower minimum_erase of the profile for it, and adopt again")
	}
	if err := w.Fence(ctx); err != nil {
		return Result{}, err
	}
	f.Reported, f.Achieved = said.texts(m), unknownErase
	if said.earlier {
		f.Achieved = string(achieved)
	}
	f.FellBack, f.FallbackReason = achieved.Less(site.Erase(f.Requested)),
		"an operator took it over as released; this job did not release it"
	if f.DecidedBy = ""; f.FellBack {
		f.DecidedBy = DecidedByAdopting // even if the policy allows no fallback
	}
	released := b.releaseEnded(w, m)
	out := adopted(w, m, w.afterRelease())
	out.Message, out.Evidence = released.Message+"; "+out.Message, released.Evidence
	return out, w.Save(ctx)
}
