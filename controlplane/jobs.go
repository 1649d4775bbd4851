package controlplane

import (
	"go.temporal.io/sdk/worker"

	"gpuaas/controlplane/internal/base/lifecycle"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/fleetview"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// kinds are the kinds of jobs, each with the function that puts it together. A new
// kind of job is a package and a line here: API, workers, lifecycles, documents,
// the view of the fleet and the console read this list.
var kinds = []func(*parts) (kind, error){
	(*parts).newOnboarding,
	(*parts).newDecommission,
}

// kind is a kind of job, as the control plane uses it.
type kind interface {
	// Described says what its jobs are called and how they live.
	Described() job.Described
	// Register adds its operations to the API.
	Register(api *httpapi.API, feed job.Feed)
	// RegisterWorker adds its workflows and activities to a worker.
	RegisterWorker(w worker.Registry)
	// Page is its page of the documents, docs/<noun>-stages.md.
	Page() string
}

// Reconciliation watches the machines of kinds of jobs that implement its interface.
var (
	_ reconciliation.Jobs = (*onboarding.Service)(nil)
	_ reconciliation.Jobs = (*decommission.Service)(nil)
)

// newJobs puts all kinds of jobs together.
func (p *parts) newJobs() error {
	for _, made := range kinds {
		k, err := made(p)
		if err != nil {
			return err
		}
		p.jobs = append(p.jobs, k)
	}
	return nil
}

// onMachines are the kinds of jobs whose machines reconciliation watches.
func (p *parts) onMachines() []reconciliation.Jobs {
	var out []reconciliation.Jobs
	for _, k := range p.jobs {
		if j, watched := k.(reconciliation.Jobs); watched {
			out = append(out, j)
		}
	}
	return out
}

// fleetview reads the whole fleet.
func (p *parts) fleetview() *fleetview.Service { return fleetview.New(p.db, p.jobFamilies(), nil) }

// jobFamilies are the kinds of jobs, as the view of the fleet counts and shows them.
func (p *parts) jobFamilies() []fleetview.Family {
	out := make([]fleetview.Family, len(p.jobs))
	for i, k := range p.jobs {
		d := k.Described()
		out[i] = fleetview.Family{Noun: fleetview.Kind(d.Noun), Statuses: texts(d.Life.Table.Lasting())}
	}
	return out
}

// jobLifecycles are the lifecycles of jobs. Kinds of jobs may share one.
func (p *parts) jobLifecycles() []lifecycle.Description {
	var out []lifecycle.Description
	known := map[*job.Lifecycle]bool{}
	for _, k := range p.jobs {
		if life := k.Described().Life; !known[life] {
			known[life] = true
			out = append(out, life.Table.Describe())
		}
	}
	return out
}

// registerJobs adds the operations of all kinds of jobs to the API, and tells the
// console in the contract which kinds there are.
func (p *parts) registerJobs(api *httpapi.API, feed job.Feed) {
	nouns := make([]string, len(p.jobs))
	for i, k := range p.jobs {
		nouns[i] = k.Described().Noun
		k.Register(api, feed)
	}
	api.Extend("x-gpuaas-jobs", nouns)
}
