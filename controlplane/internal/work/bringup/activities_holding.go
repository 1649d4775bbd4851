package bringup

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"gpuaas/controlplane/internal/adapter/maas"
)

// comment returns the comment that MAAS records with each request of a job. By it
// the job recognises its own request afterwards if the answer was lost.
func comment(w *Work) string { return "gpuaas " + w.Kind + " " + w.Job }

// The requests that MAAS keeps with their comment.
const (
	acquiring = "User acquiring node"
	deploying = "User starting deployment"
)

// givenUp are the events that MAAS records when anybody releases a machine. Requests
// before such an event do not tell who holds the machine now.
var givenUp = []string{"User releasing node", "Releasing", "Released"}

// maxRequests is how many of the newest events are looked through for a request.
const maxRequests = 500

// latest returns the newest event of the given kinds that MAAS has recorded about
// the machine. If there is none, known is false.
func latest(ctx context.Context, r *region, w *Work, kinds ...string) (e maas.Event, known bool, err error) {
	events, err := r.Events(ctx, maas.EventQuery{IDs: []string{w.SystemID}, Level: maas.LevelDebug, Limit: maxRequests})
	if err != nil {
		return e, false, err
	}
	for _, e := range slices.Backward(events) {
		if slices.Contains(kinds, e.Type) {
			return e, true, nil
		}
	}
	return e, false, nil
}

// imageDeployed is the event in which MAAS records the image of a successful
// installation, as "deployed system/series/architecture".
const imageDeployed = "Image Deployed"

// asDeployed returns a machine with the image that was deployed on it. When a
// deployed machine reports its hardware, MAAS calls the image by what the running
// system calls itself: custom/h200 becomes ubuntu/noble. So the record of this job
// counts, or else MAAS's own of the end of that installation.
func asDeployed(ctx context.Context, r *region, w *Work, m maas.Machine) (maas.Machine, error) {
	if !m.Installed() || m.Runs(w.Profile.Policy.DistroSeries) {
		return m, nil
	}
	if i := w.Facts.Installation; i != nil && i.ID == m.InstallationResultID {
		m.OSystem, m.DistroSeries, _ = strings.Cut(i.Image, "/")
		return m, nil
	}
	e, known, err := latest(ctx, r, w, deploying, imageDeployed)
	if err != nil || !known || e.Type != imageDeployed {
		return m, err
	}
	parts := strings.Split(strings.TrimPrefix(e.Description, "deployed "), "/")
	if len(parts) >= 2 {
		m.OSystem, m.DistroSeries = parts[0], parts[1]
	}
	return m, nil
}

// begun notes which installation MAAS has begun for this job.
func (f *Facts) begun(m maas.Machine) {
	if m.InstallationResultID != 0 {
		f.Installation = &InstallationFacts{ID: m.InstallationResultID, Image: m.Image()}
	}
}

// InstallationID is the installation that MAAS began for this job, as MAAS numbers
// them; 0: not known, or it was not this job's.
func (f *Facts) InstallationID() int64 {
	if f.Installation == nil || f.Adopted {
		return 0
	}
	return f.Installation.ID
}

// asked says whether the newest request of a kind came from this job and the
// machine was not released since. known is false if there is no such request.
func asked(ctx context.Context, r *region, w *Work, kind string) (by, known bool, err error) {
	return askedBy(ctx, r, w, kind, w.Job)
}

func askedBy(ctx context.Context, r *region, w *Work, kind string, jobs ...string) (by, known bool, err error) {
	e, known, err := latest(ctx, r, w, slices.Concat(givenUp, []string{kind})...)
	return known && e.Type == kind && fromAny(e, jobs), known, err
}

// fromAny says whether a request came from one of some jobs.
func fromAny(e maas.Event, jobs []string) bool {
	return slices.ContainsFunc(jobs, func(job string) bool { return job != "" && strings.Contains(e.Description, job) })
}

// holds says whether this job holds the machine in MAAS: by its annotation, or
// because it asked for the machine and was stopped before it could write one.
func holds(ctx context.Context, r *region, w *Work, m maas.Machine) (bool, error) {
	return heldBy(ctx, r, w, m, w.Job)
}

// belongs says whether the machine is held by this job or by an earlier one of
// the same node.
func belongs(ctx context.Context, r *region, w *Work, m maas.Machine) (bool, error) {
	return heldBy(ctx, r, w, m, slices.Concat(w.Prior, []string{w.Job})...)
}

func heldBy(ctx context.Context, r *region, w *Work, m maas.Machine, jobs ...string) (bool, error) {
	if noted := m.Annotations[annotation]; noted != "" && slices.Contains(jobs, noted) {
		return true, nil
	}
	kind := deploying
	switch m.Status {
	case maas.StatusAllocated:
		kind = acquiring
	case maas.StatusDeploying, maas.StatusDeployed, maas.StatusFailedDeployment:
	default:
		return false, nil
	}
	if m.Annotations[annotation] != "" {
		return false, nil
	}
	by, _, err := askedBy(ctx, r, w, kind, jobs...)
	return by, err
}

// foreign makes the failure of a job whose machine somebody else holds.
func foreign(m maas.Machine, w *Work) *Failure {
	f := codeMachineInUse.Failed("%s is %s in MAAS, and this job does not hold it", w.Hostname, m.Status.Label()).ForGood()
	return f.About(map[string]any{
		"maas_status": m.Status.Label(), "owner": maas.Shown(m.Owner),
		"held_by_job": maas.Shown(m.Annotations[annotation]),
	})
}

// mark writes the name of the job on a machine that it holds.
func (b *Bringup) mark(ctx context.Context, r *region, w *Work) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	_, err := r.Annotate(ctx, w.SystemID, map[string]string{
		annotation:      w.Job,
		epochAnnotation: strconv.FormatInt(w.Epoch, 10),
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	m, lookErr := b.machine(ctx, r, w)
	switch {
	case lookErr != nil:
		return lookErr
	case ours(m, w):
		return nil
	case !occupies(m.Status):
		return codeMachineReleased.Failed("%s is %s in MAAS: somebody released it while this job took it", w.Hostname,
			m.Status.Label()).ForGood().Because(err)
	}
	return refused(err, codeAnnotateFailed, "%s is %s in MAAS, but could not be marked as held by this job", w.Hostname,
		m.Status.Label())
}

func machineGone(w *Work, cause error) *Failure {
	return CodeMachineGone.Failed("machine %s (%s) is no longer in MAAS", w.SystemID, w.Hostname).ForGood().Because(cause)
}
