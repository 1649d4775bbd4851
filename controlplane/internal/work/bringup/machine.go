package bringup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// Machine holds the columns of a job on a machine besides job.Job. Families
// embed both.
type Machine struct {
	Profile       id.Profile
	Hostname      string
	IPMIIP        string
	PXEMAC        string
	SystemID      string // of MAAS; empty: not known yet, or there is none
	Facts         Facts
	Observed      Observed
	ObservedSince *time.Time
}

// Work returns the work of a job on the machine, as far as it follows from its
// row.
func (m Machine) Work(of id.Node, w job.Work) *Work {
	return &Work{
		Work: w, Hostname: m.Hostname, IPMIIP: m.IPMIIP, Node: of, PXEMAC: m.PXEMAC, SystemID: m.SystemID, Facts: m.Facts,
		Observed: m.Observed,
	}
}

// Seen describes what MAAS last showed of the machine, for people. An older
// observation is shown with its age.
func (m Machine) Seen(now time.Time) job.Sighting {
	out := job.Sighting{At: m.Observed.SeenAt(), Since: m.ObservedSince}
	has, shows, age := "has", "shows", ""
	if at := out.At; at != nil && now.Sub(*at) > 2*noteEvery {
		has, shows, age = "had", "showed", ", "+job.Ago(*at, now)
	}
	var text string
	switch m.Observed.Status {
	case "":
		return out
	case Absent:
		text = "MAAS " + has + " no such machine"
	default:
		text = "MAAS " + shows + " it as " + m.Observed.Status
		if m.Observed.Power != "" {
			text += ", power " + m.Observed.Power
		}
		if len(m.Observed.IPs) > 0 {
			text += ", " + strings.Join(m.Observed.IPs, " ")
		}
	}
	out.Text = text + age
	return out
}

// Does describes what actions do to jobs on machines, where the usual sentence
// does not name the machine.
func Does(action job.Trigger) string {
	if action == job.AdoptObserved {
		return "adopts the machine as it is now, if it is provably this one, and continues from there"
	}
	return ""
}

// Limits returns the time limits that a policy sets for stages.
func Limits(p site.Policy) job.Limits {
	out := job.Limits{}
	for _, t := range p.Timeouts() {
		out[job.Limit(t.Stage)] = t.Limit
	}
	return out
}

// Encode returns the facts as JSON, as rows keep them.
func (f Facts) Encode() (json.RawMessage, error) {
	out, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode facts: %w", err)
	}
	return out, nil
}

// FactsOf returns the facts as the API shows them.
func FactsOf(f Facts) job.Details {
	raw, err := f.Encode()
	if err != nil {
		return job.Details{}
	}
	if d := job.DetailsOf(raw); d != nil {
		return d
	}
	return job.Details{}
}

// SeenAt returns when MAAS was last asked. It returns nil if it never was.
func (o Observed) SeenAt() *time.Time {
	if o.At.IsZero() {
		return nil
	}
	return &o.At
}

// Addresses returns the addresses that MAAS showed, never nil.
func (o Observed) Addresses() []string {
	if o.IPs == nil {
		return []string{}
	}
	return o.IPs
}

// ObservedView is the machine as MAAS last showed it.
type ObservedView struct {
	MAASStatus string     `json:"maas_status,omitempty" doc:"Status in MAAS; absent: MAAS has no such machine." example:"Deploying"`
	MAASPower  string     `json:"maas_power,omitempty" doc:"Power state in MAAS." example:"on"`
	MAASIPs    []string   `json:"maas_ips" nullable:"false" doc:"Addresses in MAAS."`
	At         *time.Time `json:"at,omitempty" doc:"When MAAS was last asked."`
	Since      *time.Time `json:"since,omitempty" doc:"Since when MAAS has been seen in this status."`
}

// ShowObserved shows the machine of a job as MAAS last showed it.
func ShowObserved(m Machine) ObservedView {
	return ObservedView{
		MAASStatus: m.Observed.Status, MAASPower: m.Observed.Power, MAASIPs: slices.Clone(m.Observed.Addresses()),
		At: job.UTC(m.Observed.SeenAt()), Since: job.UTC(m.ObservedSince),
	}
}

// Working is a job on a machine that has not ended, as others see it.
type Working struct {
	Kind     string // onboarding or decommission
	ID       string
	Node     id.Node // the id that the node has, or will have
	SystemID string  // of MAAS; empty: not known yet, or there is none
	Hostname string
	Parked   bool   // it waits for an operator, or for proof that its goal was reached
	Goal     string // a few words
}

// String returns the name under which the job holds a node.
func (w Working) String() string { return w.Kind + " " + w.ID }
