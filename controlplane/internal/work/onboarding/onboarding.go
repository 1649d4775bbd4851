package onboarding

import (
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Request is one machine that somebody wants onboarded.
type Request struct {
	Hostname, IPMIIP string
	node.Grouping
}

// NewOnboarding is a request for one machine or a batch.
type NewOnboarding struct {
	Site            id.Site
	Profile         id.Profile // if zero, the default profile of the site
	SKU             string
	InitializeDisks bool // DESTROYS the data of all disks but the root disk
	Asked           bringup.AskedFacts
	Machines        []Request
	MaxFailures     *int // a batch halts when more have failed; nil: it never halts
}

// factsOf returns the facts with which the onboarding of one machine begins.
func (n NewOnboarding) factsOf(m Request) bringup.Facts {
	asked := n.Asked
	if m.Rack != "" || m.Pool != "" || len(m.Labels) > 0 {
		asked.Grouping = &m.Grouping
	}
	return bringup.FactsAsked(asked)
}

// Onboarding is one machine on its way to becoming a node.
type Onboarding struct {
	job.Job
	bringup.Machine
	ID              id.Onboarding
	Batch           id.OnboardingBatch // zero if it belongs to no batch
	SKU             string
	InitializeDisks bool
}

// Common implements job.Row.
func (o Onboarding) Common() job.Job {
	j := o.Job
	j.ID, j.Subject = o.ID.String(), o.Hostname
	return j
}

// Parked says whether the onboarding waits for an operator.
func (o Onboarding) Parked() bool { return job.Parking.PhaseOf(o.Status) == job.Parked }

// Filter narrows a listing; a zero field does not narrow.
type Filter struct {
	Batch          id.OnboardingBatch
	Site           id.Site
	Statuses       []job.Status
	HostnamePrefix string
}
