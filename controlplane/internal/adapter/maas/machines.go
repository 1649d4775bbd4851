package maas

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// MaxIDs is how many machines one request may ask for by id: MAAS needs up to a
// tenth of a second for each.
const MaxIDs = 50

// Filter selects machines. Several values of one field mean any of them.
type Filter struct {
	IDs       []string
	Hostnames []string
	MACs      []string
	Status    []Status
	NotStatus []Status
	Zones     []string
	Pools     []string
	Owners    []string
	Power     []PowerState
}

func (f Filter) query() url.Values {
	q := url.Values{}
	for name, values := range map[string][]string{
		"id": f.IDs, "hostname": f.Hostnames, "mac_address": f.MACs, "zone": f.Zones, "pool": f.Pools, "owner": f.Owners,
		"status": words(f.Status), "not_status": words(f.NotStatus), "power_state": words(f.Power),
	} {
		if len(values) > 0 {
			q[name] = values
		}
	}
	return q
}

func words[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, s := range values {
		out[i] = string(s)
	}
	return out
}

// Machines lists machines. It splits ids into requests of at most MaxIDs. A
// listing without a filter is the most expensive call there is.
func (c *Client) Machines(ctx context.Context, f Filter) ([]Machine, error) {
	if len(f.IDs) <= MaxIDs {
		return c.machines(ctx, f)
	}
	var out []Machine
	for ids := range slices.Chunk(f.IDs, MaxIDs) {
		f.IDs = ids
		part, err := c.machines(ctx, f)
		if err != nil {
			return nil, err // a part says nothing about the rest
		}
		out = append(out, part...)
	}
	return out, nil
}

func (c *Client) machines(ctx context.Context, f Filter) ([]Machine, error) {
	k := call{method: http.MethodGet, path: "machines/", query: f.query(), slow: len(f.IDs) == 0}
	list, err := fetch[[]Machine](ctx, c, k)
	if err != nil {
		return nil, fmt.Errorf("list MAAS machines: %w", err)
	}
	c.meter.rendered(len(list))
	for _, m := range list {
		if m.SystemID == "" || m.Status == "" {
			return nil, fmt.Errorf("list MAAS machines: %w", invalidAnswer(k, answer{status: http.StatusOK}, nil))
		}
	}
	return list, nil
}

// Machine reads one machine.
func (c *Client) Machine(ctx context.Context, id string) (Machine, error) {
	k := call{method: http.MethodGet, path: machinePath(id)}
	a, err := c.do(ctx, k)
	if err != nil {
		return Machine{}, fmt.Errorf("read MAAS machine %s: %w", id, err)
	}
	c.meter.rendered(1)
	m, err := machineOf(k, a)
	if err != nil {
		return Machine{}, fmt.Errorf("read MAAS machine %s: %w", id, err)
	}
	return m, nil
}

func machinePath(id string) string { return "machines/" + url.PathEscape(id) + "/" }

func machineOf(k call, a answer) (Machine, error) {
	m, err := decode[Machine](k, a)
	if err == nil && (m.SystemID == "" || m.Status == "") {
		err = invalidAnswer(k, a, nil)
	}
	return m, err
}

// Power is how MAAS reaches a machine's BMC.
type Power struct {
	Type     string // for example ipmi
	Address  string
	User     string
	Password redact.Secret
	KG       redact.Secret
	Extra    map[string]string // power_driver, cipher_suite_id, privilege_level, …
}

func (p Power) add(f *form) {
	const prefix = "power_parameters_"
	f.text("power_type", p.Type).text(prefix+"power_address", p.Address).text(prefix+"power_user", p.User)
	f.secret(prefix+"power_pass", p.Password).secret(prefix+"k_g", p.KG)
	for name, value := range p.Extra {
		f.text(prefix+name, value)
	}
}

// Attributes are the settable attributes of a machine. Empty ones stay as they
// are.
type Attributes struct {
	Hostname     string
	Description  string
	Architecture string
	Domain       string
	Zone         string
	Pool         string
	Power        Power
}

func (a Attributes) form() *form {
	f := newForm().text("hostname", a.Hostname).text("description", a.Description).text("architecture", a.Architecture).
		text("domain", a.Domain).text("zone", a.Zone).text("pool", a.Pool)
	a.Power.add(f)
	return f
}

// CreateOptions describe a machine that MAAS does not know yet.
type CreateOptions struct {
	Attributes
	MACs       []string
	Commission bool // at once; MAAS would do so by default
	Options    CommissionOptions
}

// Create adds a machine to MAAS. It is not idempotent: after an ambiguous
// failure, look the machine up by MAC or hostname.
func (c *Client) Create(ctx context.Context, o CreateOptions) (Machine, error) {
	if o.Commission && o.Power.Type == "" {
		return Machine{}, fault.New(fault.Invalid, CodeFieldErrors, "a machine without a power type cannot be commissioned").
			WithRemedy("give the power type and its parameters").
			WithFields(fault.Field{Path: "power_type", Message: "required to commission"})
	}
	f := o.form().list("mac_addresses", o.MACs...).flag("commission", o.Commission)
	if o.Commission {
		o.Options.add(f)
	}
	k := call{method: http.MethodPost, path: "machines/", form: f}
	a, err := c.do(ctx, k)
	if err != nil {
		return Machine{}, fmt.Errorf("create MAAS machine %s: %w", o.Hostname, err)
	}
	m, err := machineOf(k, a)
	if err != nil {
		return Machine{}, fmt.Errorf("create MAAS machine %s: %w", o.Hostname, err)
	}
	return m, nil
}

// Update changes attributes of a machine in any status.
func (c *Client) Update(ctx context.Context, id string, a Attributes) (Machine, error) {
	return c.operate(ctx, call{method: http.MethodPut, path: machinePath(id), form: a.form()}, id)
}

// Delete makes MAAS forget a machine. It does not touch power or disks.
func (c *Client) Delete(ctx context.Context, id string) error {
	err := c.command(ctx, call{method: http.MethodDelete, path: machinePath(id)})
	if err != nil {
		return fmt.Errorf("delete MAAS machine %s: %w", id, c.explain(ctx, id, "delete", err))
	}
	return nil
}

// AllocateOptions select the machine to allocate.
type AllocateOptions struct {
	SystemID  string // required: MAAS could otherwise compose a virtual machine
	AgentName string
	Comment   string
	DryRun    bool
}

// Allocate takes a Ready machine. It is not idempotent: MAAS answers the same
// if we hold it already or somebody else does, so the caller reads the owner
// and the annotations.
func (c *Client) Allocate(ctx context.Context, o AllocateOptions) (Machine, error) {
	if o.SystemID == "" {
		return Machine{}, fault.New(fault.Invalid, CodeFieldErrors, "allocate needs the id of the machine").
			WithFields(fault.Field{Path: "system_id", Message: "required"})
	}
	f := newForm().text("system_id", o.SystemID).text("agent_name", o.AgentName).text("comment",
		o.Comment).option("dry_run", o.DryRun)
	k := call{method: http.MethodPost, path: "machines/", op: "allocate", form: f}
	return c.operate(ctx, k, o.SystemID)
}
