package onboarding

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Misplaced are fields that people send although they belong elsewhere. The API
// knows them only to refuse them and to say where they belong; they are not in
// the contract.
type Misplaced struct {
	PXEMAC           any `json:"pxe_mac,omitempty" hidden:"true" belongs:"pxe_mac"`
	RoCE             any `json:"roce,omitempty" hidden:"true" belongs:"roce"`
	RoCEIPs          any `json:"roce_ips,omitempty" hidden:"true" belongs:"roce"`
	RoCEInterfaces   any `json:"roce_interfaces,omitempty" hidden:"true" belongs:"roce"`
	RoCEAssignments  any `json:"roce_assignments,omitempty" hidden:"true" belongs:"roce"`
	RoCEPhase2       any `json:"enable_phase2_roce,omitempty" hidden:"true" belongs:"policy"`
	Retry            any `json:"retry,omitempty" hidden:"true" belongs:"policy"`
	Retries          any `json:"retries,omitempty" hidden:"true" belongs:"policy"`
	MaxRetries       any `json:"max_retries,omitempty" hidden:"true" belongs:"policy"`
	RetryPolicy      any `json:"retry_policy,omitempty" hidden:"true" belongs:"policy"`
	MaxDeployRetries any `json:"max_deploy_retry_attempts,omitempty" hidden:"true" belongs:"policy"`
	Timeout          any `json:"timeout,omitempty" hidden:"true" belongs:"policy"`
	Timeouts         any `json:"timeouts,omitempty" hidden:"true" belongs:"policy"`
	Discovery        any `json:"discovery,omitempty" hidden:"true" belongs:"policy"`
	DiscoveryPolicy  any `json:"discovery_policy,omitempty" hidden:"true" belongs:"policy"`
	AutoClaim        any `json:"auto_claim_single_new_machine,omitempty" hidden:"true" belongs:"policy"`
	IPMIUser         any `json:"ipmi_user,omitempty" hidden:"true" belongs:"power"`
	IPMIPass         any `json:"ipmi_pass,omitempty" hidden:"true" belongs:"power"`
	IPMIPassword     any `json:"ipmi_password,omitempty" hidden:"true" belongs:"power"`
	PowerUser        any `json:"power_user,omitempty" hidden:"true" belongs:"power"`
	PowerPass        any `json:"power_pass,omitempty" hidden:"true" belongs:"power"`
}

// whereabouts say where misplaced fields belong.
var whereabouts = map[string]string{
	"pxe_mac": "is not given but observed: MAAS finds it out. BMC credentials of one machine can be kept by its MAC: gpuaas site power-override set",
	"roce": "addresses of RoCE interfaces belong to the site, by host name, and are used when the profile says so: " +
		"POST /api/v1/admin/maas-sites/{site_id}/roce-assignments (gpuaas site roce import)",
	"policy": "how discovery, retries and time limits work is a matter of the profile, not of one request: " +
		"PATCH /api/v1/admin/maas-sites/{site_id}/profiles/{profile_id} (gpuaas site profile set), or name another profile_id",
	"power": "BMC credentials are never part of a request: POST /api/v1/admin/maas-sites/{site_id}/credentials (gpuaas site credentials set), " +
		"for one machine /power-overrides (gpuaas site power-override set)",
}

// refused says where the fields that were sent belong.
func (m Misplaced) refused(at string) []fault.Field {
	var bad []fault.Field
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			continue
		}
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		bad = append(bad, fault.Field{Path: at + "." + name, Message: whereabouts[field.Tag.Get("belongs")]})
	}
	return bad
}

func rejectedAs(path, message string) error {
	return rejected([]fault.Field{{Path: path, Message: message}})
}

func rejected(fields []fault.Field) error {
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error",
		"the request has fields that cannot be accepted").WithFields(fields...)
}

// SelectorsBody says how machines are to be onboarded.
type SelectorsBody struct {
	SiteID               id.Site     `json:"site_id" doc:"The site whose MAAS has, or is to have, the machines."`
	ProfileID            *id.Profile `json:"profile_id,omitempty" doc:"A profile of the site; the one called default when left out."`
	SKUID                string      `json:"sku_id" minLength:"1" maxLength:"63" doc:"Which kind of machine they are." example:"h200-sxm-baremetal-8g"`
	InitializeDisks      bool        `json:"initialize_disks,omitempty" default:"false" doc:"DESTROYS ALL DATA on every disk but the root disk: at the first boot each of them is partitioned and formatted anew, and mounted as /share1, /share2, … Left out: data_disks of the profile decides."`
	KeepOutOfService     bool        `json:"keep_out_of_service,omitempty" default:"false" doc:"Install the machine, but keep the node out of service: it is quarantined when it is ready, until an operator returns it."`
	RequireHardwareMatch bool        `json:"require_hardware_match,omitempty" default:"false" doc:"Accept the machine only if its GPUs, memory, disks and interfaces are those of the SKU; otherwise the onboarding is parked and says in what it differs."`
}

// MachineBody is one machine to be onboarded.
type MachineBody struct {
	Hostname string `json:"hostname" minLength:"1" maxLength:"253" doc:"Its name in MAAS and in the inventory." example:"c07u43"`
	IPMIIP   string `json:"ipmi_ip" minLength:"1" maxLength:"45" doc:"Address of its BMC." example:"10.176.16.128"`
	node.GroupingBody
	Misplaced
}

// NewBody asks for one machine to be onboarded.
type NewBody struct {
	SelectorsBody
	MachineBody
}

// BatchMachineBody is one machine of a batch.
type BatchMachineBody struct{ MachineBody }

// NewBatchBody asks for machines to be onboarded together.
type NewBatchBody struct {
	SelectorsBody
	Nodes       []BatchMachineBody `json:"nodes" nullable:"false" doc:"The machines, 1 to 1000. All are accepted, or none."`
	MaxFailures *int               `json:"max_failures,omitempty" minimum:"0" maximum:"1000" doc:"When more than so many have failed or were cancelled, the batch is halted: no further machine is begun until an operator resumes it. Left out: it is never halted."`
	Misplaced
}

func (b SelectorsBody) asked(machines ...MachineBody) NewOnboarding {
	n := NewOnboarding{
		Site: b.SiteID, SKU: b.SKUID, InitializeDisks: b.InitializeDisks,
		Machines: make([]Request, len(machines)),
	}
	n.Asked = bringup.AskedFacts{KeepOut: b.KeepOutOfService, MatchHardware: b.RequireHardwareMatch}
	if b.ProfileID != nil {
		n.Profile = *b.ProfileID
	}
	for i, m := range machines {
		n.Machines[i] = Request{Hostname: m.Hostname, IPMIIP: m.IPMIIP, Grouping: m.Grouping()}
	}
	return n
}

func (b NewBody) asked() (NewOnboarding, error) {
	return b.SelectorsBody.asked(b.MachineBody), rejected(b.refused("body"))
}

func (b NewBatchBody) asked() (NewOnboarding, error) {
	bad := b.refused("body")
	machines := make([]MachineBody, len(b.Nodes))
	for i, n := range b.Nodes {
		machines[i] = n.MachineBody
		bad = append(bad, n.refused(fmt.Sprintf("body.nodes[%d]", i))...)
	}
	asked := b.SelectorsBody.asked(machines...)
	asked.MaxFailures = b.MaxFailures
	return asked, rejected(bad)
}

// NewView is the answer to a request for one machine.
type NewView struct {
	OnboardingID id.Onboarding `json:"onboarding_id" doc:"Id of the onboarding."`
	Status       job.Status    `json:"status"`
	NodeID       id.Node       `json:"node_id" doc:"The id that the node will have."`
	WorkflowID   string        `json:"workflow_id" doc:"Id of its workflow in Temporal."`
}

// NewBatchItem is one machine of the answer to a request for a batch.
type NewBatchItem struct {
	Hostname     string        `json:"hostname"`
	OnboardingID id.Onboarding `json:"onboarding_id" doc:"Id of the onboarding."`
	NodeID       id.Node       `json:"node_id" doc:"The id that the node will have."`
}

// NewBatchView is the answer to a request for a batch.
type NewBatchView struct {
	BatchID     id.OnboardingBatch `json:"batch_id" doc:"Id of the batch."`
	Onboardings []NewBatchItem     `json:"onboardings" nullable:"false" doc:"The machines, in the order of the request."`
}

// PreflightBody asks whether machines could be onboarded: the body of a request
// for one machine, or for a batch.
type PreflightBody struct {
	SelectorsBody
	Hostname string `json:"hostname,omitempty" maxLength:"253" doc:"For one machine: its name." example:"c07u43"`
	IPMIIP   string `json:"ipmi_ip,omitempty" maxLength:"45" doc:"For one machine: the address of its BMC." example:"10.176.16.128"`
	node.GroupingBody
	Nodes []BatchMachineBody `json:"nodes,omitempty" nullable:"false" doc:"For a batch: the machines, 1 to 1000."`
	// FromMachine is the next_machine of the previous part.
	FromMachine int `json:"from_machine,omitempty" minimum:"0" doc:"Go on with this machine, counted from 0: the next_machine of the answer before. Left out: the first part, which also looks at all that does not depend on single machines in MAAS."`
	Misplaced
}

func (b PreflightBody) asked() (NewOnboarding, error) {
	switch {
	case b.Nodes == nil:
		return NewBody{
			SelectorsBody: b.SelectorsBody,
			MachineBody:   MachineBody{b.Hostname, b.IPMIIP, b.GroupingBody, b.Misplaced},
		}.asked()
	case b.Hostname != "" || b.IPMIIP != "":
		return NewOnboarding{}, rejectedAs("body.nodes", "give either nodes, or hostname and ipmi_ip")
	}
	return NewBatchBody{SelectorsBody: b.SelectorsBody, Nodes: b.Nodes, Misplaced: b.Misplaced}.asked()
}

// PreflightView is what one part of a preflight found.
type PreflightView struct {
	OK          bool    `json:"ok" doc:"Whether everything that this part looked at is well, and no part is left: false while there is a next_machine."`
	Checks      []Check `json:"checks" nullable:"false" doc:"What was looked at, in order."`
	Machines    int     `json:"machines" doc:"How many machines the request is about."`
	LookedAt    int     `json:"looked_at" doc:"How many of them, from the first on, MAAS has been asked about by this part and those before it."`
	NextMachine *int    `json:"next_machine,omitempty" doc:"Ask again with this from_machine: MAAS was not asked about the machines from there on. Absent: this was the last part."`
}

func showPreflight(found Preflighted, machines int) PreflightView {
	out := PreflightView{OK: found.Next == 0, Checks: found.Checks, Machines: machines, LookedAt: found.LookedAt}
	for _, c := range found.Checks {
		out.OK = out.OK && c.OK
	}
	if found.Next > 0 {
		out.NextMachine = &found.Next
	}
	return out
}

const refusals = "Everything is checked before anything is started: host names and BMC addresses that are given twice, are being onboarded, or are in the " +
	"inventory are a 409 that names each of them; a site without MAAS token, and machines without BMC credentials or with RoCE addresses that cannot be, are a 422 that does. RoCE addresses, retries, discovery policy and BMC credentials belong to the site and its profiles and are refused here."

func (s *Service) registerRequests(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-onboarding", Method: http.MethodPost, Path: pathAll, Tag: tag,
		Summary: "Onboard a machine", Description: "Turns a bare server into a node that can be scheduled. " + refusals,
		Access: httpapi.Platform(auth.OnboardingManage), Status: http.StatusAccepted,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*httpapi.Plain[NewView], error) {
		asked, err := in.Body.asked()
		if err != nil {
			return nil, err
		}
		o, err := s.Request(ctx, asked)
		return &httpapi.Plain[NewView]{Body: NewView{
			OnboardingID: o.ID, Status: o.Status, NodeID: o.Node,
			WorkflowID: o.WorkflowID,
		}}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "create-onboarding-batch", Method: http.MethodPost, Path: pathAll + "/batch", Tag: tag,
		Summary: "Onboard machines together",
		Description: "As many at once as the profile and the site allow; one that fails does not hold up the others. " +
			refusals,
		Access: httpapi.Platform(auth.OnboardingManage), Status: http.StatusAccepted,
	}, func(ctx context.Context, in *struct{ Body NewBatchBody }) (*httpapi.Plain[NewBatchView], error) {
		asked, err := in.Body.asked()
		if err != nil {
			return nil, err
		}
		batch, rows, err := s.RequestBatch(ctx, asked)
		out := NewBatchView{BatchID: batch.ID, Onboardings: make([]NewBatchItem, len(rows))}
		for i, o := range rows {
			out.Onboardings[i] = NewBatchItem{Hostname: o.Hostname, OnboardingID: o.ID, NodeID: o.Node}
		}
		return &httpapi.Plain[NewBatchView]{Body: out}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "preflight-onboarding", Method: http.MethodPost, Path: pathAll + "/preflight", Tag: tag,
		Summary: "Look whether machines could be onboarded, and change nothing",
		Description: "Whatever is in the way is in the checks, each with a remedy. MAAS is asked about a hundred machines at a time: " +
			"while an answer has a next_machine, ask again with that as from_machine.",
		Access: httpapi.Platform(auth.OnboardingManage), Status: http.StatusOK,
	}, func(ctx context.Context, in *struct{ Body PreflightBody }) (*httpapi.Plain[PreflightView], error) {
		asked, err := in.Body.asked()
		if err != nil {
			return nil, err
		}
		found, err := s.Preflight(ctx, asked, in.Body.FromMachine)
		return &httpapi.Plain[PreflightView]{Body: showPreflight(found, len(asked.Machines))}, err
	})
}
