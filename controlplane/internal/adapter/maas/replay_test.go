package maas_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

const sysid = "p3edc3"

// op is a call whose result does not matter.
type op func(ctx context.Context, c *maas.Client) error

func machineOp(f func(c *maas.Client, ctx context.Context) (maas.Machine, error)) op {
	return func(ctx context.Context, c *maas.Client) error { _, err := f(c, ctx); return err }
}

var (
	read   = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) { return c.Machine(ctx, sysid) })
	create = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
		return c.Create(ctx, maas.CreateOptions{})
	})
	deploy = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
		return c.Deploy(ctx, sysid, maas.DeployOptions{Image: "noble"})
	})
	commission = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
		return c.Commission(ctx, sysid, maas.CommissionOptions{})
	})
	abort = machineOp(func(c *maas.Client, ctx context.Context) (
		maas.Machine, error,
	) {
		return c.Abort(ctx, sysid, "")
	})
	fixed = machineOp(func(c *maas.Client, ctx context.Context) (
		maas.Machine, error,
	) {
		return c.MarkFixed(ctx, sysid, "")
	})
	powerOff = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
		return c.PowerOff(ctx, sysid, false, "")
	})
	annotate = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
		return c.Annotate(ctx, sysid, map[string]string{"a": "b"})
	})
	layout = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
		return c.SetStorageLayout(ctx, sysid, maas.StorageLayout{Name: "flat"})
	})
	lock   = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) { return c.Lock(ctx, sysid, "") })
	update = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
		return c.Update(ctx, sysid, maas.Attributes{})
	})
	allocate = machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
		return c.Allocate(ctx, maas.AllocateOptions{SystemID: sysid})
	})
	remove = op(func(ctx context.Context, c *maas.Client) error { return c.Delete(ctx, sysid) })
	list   = op(func(ctx context.Context, c *maas.Client) error { _, err := c.Machines(ctx, maas.Filter{}); return err })
)

func linking(o maas.LinkOptions, iface int64) op {
	return func(ctx context.Context, c *maas.Client) error {
		_, err := c.LinkSubnet(ctx, sysid, iface, o)
		return err
	}
}

func TestRecordedFailuresAreUnderstood(t *testing.T) {
	unlocked := "02/39" // a machine that is neither locked nor Deployed
	for _, c := range []struct {
		name string
		keys []string
		call op
		kind fault.Kind
		code string
	}{
		{"bad consumer", []string{"01/4"}, list, fault.Forbidden, maas.CodeTokenInvalid},
		{"bad token", []string{"01/5"}, list, fault.Forbidden, maas.CodeTokenInvalid},
		{"bad secret", []string{"01/6"}, list, fault.Forbidden, maas.CodeTokenInvalid},
		{"no such machine", []string{"06/82"}, read, fault.NotFound, maas.CodeNotFound},
		{"deleted twice", []string{"06/81"}, remove, fault.NotFound, maas.CodeNotFound},
		{"create empty", []string{"02/0"}, create, fault.Invalid, maas.CodeFieldErrors},
		{"duplicate MAC", []string{"02/8"}, create, fault.Invalid, maas.CodeFieldErrors},
		{"duplicate hostname", []string{"02/9"}, create, fault.Invalid, maas.CodeFieldErrors},
		{"deploy from New", []string{"02/15"}, deploy, fault.Conflict, maas.CodeStateConflict},
		{"abort from New", []string{"02/17"}, abort, fault.Conflict, maas.CodeStateConflict},
		{"mark_fixed New", []string{"02/19"}, fixed, fault.Conflict, maas.CodeStateConflict},
		{"layout New", []string{"02/22"}, layout, fault.Conflict, maas.CodeStateConflict},
		{"annotate New", []string{"02/23"}, annotate, fault.Conflict, maas.CodeStateConflict},
		{"lock New", []string{"02/24"}, lock, fault.Conflict, maas.CodeStateConflict},
		{"unknown script", []string{"02/25"}, commission, fault.Invalid, maas.CodeFieldErrors},
		{"commission without permission", []string{"02/26", unlocked}, commission, fault.Forbidden, maas.CodeForbidden},
		{"update without permission", []string{"02/35", unlocked}, update, fault.Forbidden, maas.CodeForbidden},
		{"annotate of another", []string{"04/13", unlocked}, annotate, fault.Forbidden, maas.CodeForbidden},
		{"allocate New", []string{"02/27"}, allocate, fault.Conflict, maas.CodeNoneAvailable},
		{"allocate twice", []string{"04/5"}, allocate, fault.Conflict, maas.CodeNoneAvailable},
		{"commission Deployed", []string{"05/26"}, commission, fault.Conflict, maas.CodeStateConflict},
		{"bad series", []string{"04/15"}, deploy, fault.Invalid, maas.CodeFieldErrors},
		{"no network", []string{"06/42"}, deploy, fault.Invalid, maas.CodeFieldErrors},
		{"three parts", []string{"04/17"}, deploy, fault.Ambiguous, maas.CodeAmbiguous},
		{"lock twice", []string{"05/21"}, lock, fault.Conflict, maas.CodeStateConflict},
		{"bad layout", []string{"03/8"}, layout, fault.Invalid, maas.CodeFieldErrors},
		{
			"address taken",
			[]string{"03/25"},
			linking(maas.LinkOptions{Mode: maas.LinkStatic}, 5), fault.Conflict,
			maas.CodeAddressInUse,
		},
		{
			"address outside",
			[]string{"03/23"},
			linking(maas.LinkOptions{Mode: maas.LinkStatic}, 4), fault.Invalid,
			maas.CodeFieldErrors,
		},
		{"BMC power off", []string{"06/38"}, powerOff, fault.Ambiguous, maas.CodeBMCFailure},
		{"BMC commission", []string{"06/39"}, commission, fault.Ambiguous, maas.CodeBMCFailure},
		{"BMC query", []string{"06/37"}, func(ctx context.Context, c *maas.Client) error {
			_,
				err := c.QueryPower(ctx, sysid)
			return err
		}, fault.Unavailable, maas.CodeBMCFailure},
		{
			"boot disk of no device",
			[]string{"03/6"},
			func(ctx context.Context, c *maas.Client) error { return c.SetBootDisk(ctx, sysid, 999999) }, fault.NotFound,
			maas.CodeNotFound,
		},
		{"setting unknown", []string{"01/26"}, func(ctx context.Context, c *maas.Client) error {
			_,
				err := c.Setting(ctx, "nope")
			return err
		}, fault.Invalid, maas.CodeFieldErrors},
		{
			"setting by another",
			[]string{"01/41"},
			func(ctx context.Context, c *maas.Client) error { return c.SetSetting(ctx, "upstream_dns", "1.1.1.1") },
			fault.Forbidden, maas.CodeForbidden,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, cl := replay(t, c.keys...)
			checkFault(t, c.call(t.Context(), cl), c.kind, c.code)
		})
	}
}

func TestFieldErrorsNameTheirFields(t *testing.T) {
	_, c := replay(t, "02/0")
	err := create(t.Context(), c)
	f, _ := fault.As(err)
	want := []fault.Field{
		{Path: "architecture", Message: "This field is required."},
		{Path: "mac_addresses", Message: "This field is required."},
	}
	if !slices.Equal(f.Fields, want) {
		t.Errorf("fields %v", f.Fields)
	}
}

func TestRecordedMachinesAreRead(t *testing.T) {
	_, c := replay(t, "05/7", "06/14")
	m, err := c.Machine(t.Context(), sysid)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Installed() || m.Image() != "custom/gpu-h100-v2" || m.Owner != "admin" || m.CPUCount != 192 ||
		m.Hostname != "gpu-001" ||
		!m.EnableHWSync || m.LastSync == nil || m.Zone.Name != "default" || m.HardwareInfo["cpu_model"] == "" {
		t.Errorf("deployed machine read as %+v", m)
	}
	if !m.SyncHealthy(m.LastSync.Add(450*time.Second)) || m.SyncHealthy(m.LastSync.Add(451*time.Second)) {
		t.Error("sync is healthy for one and a half intervals")
	}
	m, err = c.Machine(t.Context(), sysid)
	if err != nil {
		t.Fatal(err)
	}
	if m.Status != maas.StatusReady || m.PowerState != maas.PowerOff || m.Owner != "" || m.SyncHealthy(time.Now()) ||
		len(m.Interfaces) != 2 || m.Interfaces[0].Links[0].Mode != maas.LinkAuto ||
		m.Interfaces[0].Links[0].Subnet.CIDR != "10.20.0.0/16" ||
		len(m.BlockDevices) != 3 || m.BlockDevices[1].Partitions[1].Filesystem.MountPoint != "/" ||
		m.BootDisk.Serial != "S1" {
		t.Errorf("ready machine read as %+v", m)
	}
}

func TestRecordedReads(t *testing.T) {
	_, c := replay(t, "01/42", "01/24", "01/25", "01/29", "01/30", "03/4", "03/15", "03/16", "03/39", "05/9", "05/10",
		"06/53", "06/66", "02/13")
	ctx := t.Context()
	racks, err := c.RackControllers(ctx)
	if err != nil || len(racks) != 1 || racks[0].Healthy() || racks[0].Service("rackd").Status != "unknown" {
		t.Errorf("racks %v %v", racks, err)
	}
	for _, s := range []struct{ name, want string }{
		{"hardware_sync_interval", "15m"},
		{"upstream_dns", ""},
		{"node_timeout", "30"},
		{"enable_third_party_drivers", "true"},
	} {
		if got, err := c.Setting(ctx, s.name); err != nil || got != s.want {
			t.Errorf("%s = %q, %v", s.name, got, err)
		}
	}
	if disks, err := c.BlockDevices(ctx, sysid); err != nil || len(disks) != 3 || disks[0].IDPath == "" {
		t.Errorf("disks %v %v", disks, err)
	}
	if nics, err := c.Interfaces(ctx, sysid); err != nil || len(nics) != 2 || nics[0].MAC != "52:54:00:00:00:01" {
		t.Errorf("interfaces %v %v", nics, err)
	}
	if nets, err := c.Subnets(ctx); err != nil || len(nets) == 0 {
		t.Errorf("subnets %v %v", nets, err)
	}
	if fabrics, err := c.Fabrics(ctx); err != nil || len(fabrics) != 2 || fabrics[0].VLANs[0].ID != 5001 {
		t.Errorf("fabrics %v %v", fabrics, err)
	}
	if token, err := c.MachineToken(ctx, sysid); err != nil || token.Secret.Reveal() != "REDACTED" {
		t.Errorf("token %v %v", token, err)
	}
	if sets, err := c.Results(ctx, sysid); err != nil || len(sets) != 2 || sets[0].Results[0].StatusName != "Aborted" ||
		sets[0].Results[0].Failed() {
		t.Errorf("results %v %v", sets, err)
	}
	if some, err := c.Machines(ctx, maas.Filter{IDs: []string{sysid}}); err != nil || len(some) != 1 ||
		some[0].SystemID != sysid {
		t.Errorf("by id %v %v", some, err)
	}
	if some, err := c.Machines(ctx, maas.Filter{NotStatus: []maas.Status{maas.StatusReady}}); err != nil ||
		len(some) != 1 || some[0].Status != maas.StatusNew {
		t.Errorf("by status %v %v", some, err)
	}
	if state, err := c.QueryPower(ctx, sysid); err != nil || state != maas.PowerOff {
		t.Errorf("power %v %v", state, err)
	}
}

func TestRecordedWrites(t *testing.T) {
	g, c := replay(t, "02/7", "02/33", "04/4", "04/9", "03/5", "03/10", "03/28", "01/31", "06/80", "05/20")
	ctx := t.Context()
	power := maas.Power{
		Type: "ipmi", Address: "10.99.0.1", User: "maas", Password: redact.New("pw"),
		Extra: map[string]string{"privilege_level": "ADMIN"},
	}
	steps := []op{
		func(ctx context.Context, c *maas.Client) error {
			_, err := c.Create(ctx, maas.CreateOptions{
				Attributes: maas.Attributes{Hostname: "gpu-001", Architecture: "amd64/generic", Power: power},
				MACs:       []string{"52:54:00:00:00:01", "52:54:00:00:00:02"},
			})
			return err
		},
		machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
			return c.Update(ctx, sysid, maas.Attributes{Power: maas.Power{Type: "ipmi", Address: "10.99.0.9"}})
		}),
		allocate, annotate,
		func(ctx context.Context, c *maas.Client) error { return c.SetBootDisk(ctx, sysid, 2) },
		machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
			return c.SetStorageLayout(ctx, sysid, maas.StorageLayout{Name: "flat", RootDevice: 3})
		}),
		linking(maas.LinkOptions{Mode: maas.LinkAuto, SubnetID: 2, Force: true, DefaultGateway: true}, 4),
		func(ctx context.Context, c *maas.Client) error {
			return c.SetSetting(ctx, "hardware_sync_interval", "5m")
		},
		remove, lock,
	}
	for i, step := range steps {
		if err := step(ctx, c); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	sent := g.asked()
	if f := sent[0].Form; f.Get("commission") != "false" || f.Get("power_parameters_power_pass") != "pw" ||
		len(f["mac_addresses"]) != 2 || f.Get("power_parameters_privilege_level") != "ADMIN" {
		t.Errorf("create sent %v", f)
	}
	if f := sent[5].Form; f.Get("storage_layout") != "flat" || f.Get("root_device") != "3" || f.Has("layout") {
		t.Errorf("layout sent %v", f)
	}
	nonces := map[string]bool{}
	for _, r := range sent {
		nonces[r.Auth] = true
	}
	if len(nonces) != len(sent) {
		t.Error("a signature was used twice")
	}
}
