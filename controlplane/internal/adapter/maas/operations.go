package maas

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// lagging are the operations that return the machine as it was before MAAS
// acted on racks and BMC. The client reads the machine again after them.
var lagging = []string{"abort", "release", "mark_broken", "power_on", "power_off", "commission"}

// operate carries out an operation on a machine and returns the machine after
// it.
func (c *Client) operate(ctx context.Context, k call, id string) (Machine, error) {
	what := k.op
	if what == "" {
		what = "update"
	}
	m, err := c.operated(ctx, k, id)
	if err != nil {
		return m, fmt.Errorf("%s MAAS machine %s: %w", what, id, err)
	}
	return m, nil
}

func (c *Client) operated(ctx context.Context, k call, id string) (Machine, error) {
	a, err := c.do(ctx, k)
	if err != nil {
		return Machine{}, c.explain(ctx, id, k.op, c.unreached(ctx, err))
	}
	if isNull(a.body) && k.op == "power_off" {
		return Machine{}, fault.New(fault.Conflict, CodePowerUncontrolled, "MAAS cannot control the power of the machine").
			WithRemedy("give the machine a power type that MAAS can drive, or switch it by hand")
	}
	c.meter.rendered(1)
	m, err := machineOf(k, a)
	if err != nil || !slices.Contains(lagging, k.op) {
		return m, err
	}
	now, err := c.Machine(ctx, id)
	if err != nil {
		return m, fault.Wrap(err, fault.Ambiguous, CodeAmbiguous,
			"MAAS accepted it, but the machine could not be read afterwards").
			WithRemedy("%s", remedyReread)
	}
	return now, nil
}

// unreached tells by the state of the racks what it means that none of them can
// access a BMC: they are away, or the BMC is not on a network of theirs.
func (c *Client) unreached(ctx context.Context, err error) error {
	d, known := DetailOf(err)
	if !known || fault.CodeOf(err) != CodeRackUnavailable || !strings.Contains(d.Snippet, noRackReaches) {
		return err
	}
	racks, readErr := c.RackControllers(ctx)
	if readErr != nil || !slices.ContainsFunc(racks, RackController.Healthy) {
		return err
	}
	return fault.Wrap(err, fault.KindOf(err), CodeBMCFailure,
		"rack controllers are connected to MAAS, but none of them reaches the BMC%s", quoted(d.Snippet)).
		WithRemedy("check the address of the BMC, and that a rack controller is on its network; %s", remedyReread)
}

// explain finds out why MAAS answered 403 without a reason: the machine is
// locked, or only its owner may ask for the operation.
func (c *Client) explain(ctx context.Context, id, op string, err error) error {
	if fault.CodeOf(err) != CodeForbidden {
		return err
	}
	m, readErr := c.Machine(ctx, id)
	switch {
	case readErr != nil:
		return err
	case m.Locked:
		return fault.Wrap(err, fault.Conflict, CodeMachineLocked, "%s is locked in MAAS",
			shown(m.Hostname)).WithRemedy("unlock it in MAAS if that is intended")
	case op == "mark_broken":
		return fault.Wrap(err, fault.Conflict, CodeNotOwner, "only the owner of a machine may mark it broken, and that is %q",
			shown(m.Owner)).
			WithRemedy("allocate the machine first, or let its owner do it")
	default:
		return err
	}
}

func post(id, op string, f *form) call {
	return call{method: http.MethodPost, path: machinePath(id), op: op, form: f}
}

// CommissionOptions say how to inspect a machine.
type CommissionOptions struct {
	EnableSSH      bool
	SkipBMCConfig  bool // keep MAAS from making its own BMC account
	SkipNetworking bool
	SkipStorage    bool
	Scripts        []string // empty: the default ones
	TestingScripts []string // empty: the default ones; "none" for no test
}

func (o CommissionOptions) add(f *form) {
	f.flag("enable_ssh", o.EnableSSH).flag("skip_bmc_config", o.SkipBMCConfig).
		flag("skip_networking", o.SkipNetworking).flag("skip_storage", o.SkipStorage).
		text("commissioning_scripts", strings.Join(o.Scripts, ",")).text("testing_scripts",
		strings.Join(o.TestingScripts, ","))
}

// Commission inspects a New, Ready, Broken or Failed commissioning machine. It
// clears storage and network configuration unless told to skip them, even if
// the BMC then fails.
func (c *Client) Commission(ctx context.Context, id string, o CommissionOptions) (Machine, error) {
	f := newForm()
	o.add(f)
	return c.operate(ctx, post(id, "commission", f), id)
}

// DeployOptions say what to install.
type DeployOptions struct {
	Image        string        // a gpuaas-* image, system/series, or a series of Ubuntu
	UserData     redact.Secret // plain text; Deploy encodes it
	EnableHWSync bool
	Ephemeral    bool
	Kernel       string
	AgentName    string
	Comment      string
}

// Deploy starts an installation on an Allocated or Ready machine and makes sure
// that MAAS installs the requested image. If it is another one, Deploy aborts
// the installation.
func (c *Client) Deploy(ctx context.Context, id string, o DeployOptions) (Machine, error) {
	ref, err := ImageRef(o.Image)
	if err != nil {
		return Machine{}, err
	}
	if strings.HasPrefix(ref, customPrefix) {
		if err := c.requireImage(ctx, ref); err != nil {
			return Machine{}, fmt.Errorf("deploy MAAS machine %s: %w", id, err)
		}
	}
	f := newForm().text("distro_series", ref).flag("enable_hw_sync", o.EnableHWSync).option("ephemeral_deploy",
		o.Ephemeral).
		text("hwe_kernel", o.Kernel).text("agent_name", o.AgentName).text("comment", o.Comment)
	if !o.UserData.IsZero() {
		f.secret("user_data", redact.New(base64.StdEncoding.EncodeToString([]byte(o.UserData.Reveal()))))
	}
	m, err := c.operate(ctx, post(id, "deploy", f), id)
	if err != nil || m.Runs(ref) {
		return m, err
	}
	return m, c.abortMismatch(ctx, id, ref, m)
}

func (c *Client) requireImage(ctx context.Context, ref string) error {
	images, err := c.Images(ctx)
	if err != nil {
		return err
	}
	if !HasImage(images, ref) {
		return fault.New(fault.Invalid, CodeImageMissing, "MAAS has no image %s",
			ref).WithRemedy("upload the image to MAAS, or name another")
	}
	return nil
}

func (c *Client) abortMismatch(ctx context.Context, id, ref string, m Machine) error {
	_, err := c.Abort(context.WithoutCancel(ctx), id, "another image was chosen than asked for")
	if err != nil {
		return fault.Wrap(err, fault.Ambiguous, CodeImageMismatch, "MAAS installs %s instead of %s, and the abort failed",
			shown(m.Image()), ref).
			WithRemedy("abort the deployment in MAAS, then correct the name of the image")
	}
	return fault.New(fault.Conflict, CodeImageMismatch, "MAAS began to install %s instead of %s; it was aborted",
		shown(m.Image()), ref).
		WithRemedy("use the exact name of an image that MAAS has")
}

// Abort stops commissioning, testing, deploying or erasing.
func (c *Client) Abort(ctx context.Context, id, comment string) (Machine, error) {
	return c.operate(ctx, post(id, "abort", newForm().text("comment", comment)), id)
}

// MarkBroken takes a machine out of service. MAAS releases it and powers it
// off. Only the owner of the machine may do that.
func (c *Client) MarkBroken(ctx context.Context, id, comment string) (Machine, error) {
	return c.operate(ctx, post(id, "mark_broken", newForm().text("comment", comment)), id)
}

// MarkFixed returns a Broken machine to service. A machine that broke while
// Deployed comes back as Deployed with nothing installed. MarkFixed then
// returns a fault together with the machine, because it must be released before
// use.
func (c *Client) MarkFixed(ctx context.Context, id, comment string) (Machine, error) {
	m, err := c.operate(ctx, post(id, "mark_fixed", newForm().text("comment", comment)), id)
	if err == nil && m.Hollow() {
		return m, fault.New(fault.Conflict, CodeResurrected,
			"MAAS shows %s as Deployed again, but it was released when it broke", shown(m.Hostname)).
			WithRemedy("release the machine")
	}
	return m, err
}

// OverrideFailedTesting accepts a machine despite failed tests.
func (c *Client) OverrideFailedTesting(ctx context.Context, id, comment string) (Machine, error) {
	return c.operate(ctx, post(id, "override_failed_testing", newForm().text("comment", comment)), id)
}

// Lock protects a Deployed machine from every change.
func (c *Client) Lock(ctx context.Context, id, comment string) (Machine, error) {
	return c.operate(ctx, post(id, "lock", newForm().text("comment", comment)), id)
}

// Annotate merges annotations into a machine that we own: by them the product
// recognises what it holds. An empty value removes one. MAAS drops them when a
// release ends.
func (c *Client) Annotate(ctx context.Context, id string, annotations map[string]string) (Machine, error) {
	f := newForm()
	for name, value := range annotations {
		f.values.Set(name, value)
	}
	return c.operate(ctx, post(id, "set_workload_annotations", f), id)
}
