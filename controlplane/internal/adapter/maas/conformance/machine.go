package conformance

import (
	"context"
	"testing"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/redact"
)

func checkMachine(t *testing.T, c *maas.Client) {
	ctx := t.Context()
	host, mac := scratch()
	options := maas.CreateOptions{
		Attributes: maas.Attributes{Hostname: host, Architecture: "amd64/generic", Power: maas.Power{Type: "manual"}},
		MACs:       []string{mac},
	}
	m, err := c.Create(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	cleanUp(t, c, m.SystemID)
	if m.Status != maas.StatusNew || m.Hostname != host || m.Owner != "" {
		t.Errorf("created %+v", m)
	}
	_, err = c.Create(ctx, options)
	expect(t, "create twice", err, maas.CodeFieldErrors)
	_, err = c.Create(ctx, maas.CreateOptions{})
	expect(t, "create nothing", err, maas.CodeFieldErrors)
	for what, f := range map[string]maas.Filter{
		"id": {IDs: []string{m.SystemID}}, "hostname": {Hostnames: []string{host}}, "MAC": {MACs: []string{mac}},
		"id and status": {IDs: []string{m.SystemID}, Status: []maas.Status{maas.StatusNew}},
	} {
		found, err := c.Machines(ctx, f)
		expect(t, "find by "+what, err, "")
		if len(found) != 1 || found[0].SystemID != m.SystemID {
			t.Errorf("found %d by %s", len(found), what)
		}
	}
	after, err := c.Update(ctx, m.SystemID, maas.Attributes{Description: "conformance"})
	expect(t, "update", err, "")
	if after.Description != "conformance" {
		t.Errorf("description %q", after.Description)
	}
	t.Run("refusals", func(t *testing.T) { checkRefusals(t, c, m.SystemID) })
	t.Run("reads", func(t *testing.T) { checkReads(t, c, m.SystemID, mac) })
	t.Run("commissioning", func(t *testing.T) { checkCommissioning(t, c, m.SystemID) })
	expect(t, "delete", c.Delete(ctx, m.SystemID), "")
	expect(t, "delete twice", c.Delete(ctx, m.SystemID), maas.CodeNotFound)
	_, err = c.Machine(ctx, m.SystemID)
	expect(t, "read what was deleted", err, maas.CodeNotFound)
}

// checkRefusals asks a New machine for what MAAS refuses in that status.
func checkRefusals(t *testing.T, c *maas.Client, id string) {
	for _, r := range []struct {
		what string
		code string
		call func(ctx context.Context) (maas.Machine, error)
	}{
		{"deploy", maas.CodeStateConflict, func(ctx context.Context) (maas.Machine, error) {
			return c.Deploy(ctx, id, maas.DeployOptions{Image: "noble"})
		}},
		{"abort", maas.CodeStateConflict, func(ctx context.Context) (maas.Machine, error) { return c.Abort(ctx, id, "") }},
		{"mark_fixed", maas.CodeStateConflict, func(ctx context.Context) (
			maas.Machine, error,
		) {
			return c.MarkFixed(ctx, id, "")
		}},
		{"mark_broken", maas.CodeNotOwner, func(ctx context.Context) (
			maas.Machine, error,
		) {
			return c.MarkBroken(ctx, id, "")
		}},
		{"lock", maas.CodeStateConflict, func(ctx context.Context) (maas.Machine, error) { return c.Lock(ctx, id, "") }},
		{"power_on", maas.CodeStateConflict, func(ctx context.Context) (
			maas.Machine, error,
		) {
			return c.PowerOn(ctx, id, "")
		}},
		{"allocate", maas.CodeNoneAvailable, func(ctx context.Context) (maas.Machine, error) {
			return c.Allocate(ctx, maas.AllocateOptions{SystemID: id})
		}},
		{"annotate", maas.CodeStateConflict, func(ctx context.Context) (maas.Machine, error) {
			return c.Annotate(ctx, id, map[string]string{"a": "b"})
		}},
		{"storage layout", maas.CodeStateConflict, func(ctx context.Context) (maas.Machine, error) {
			return c.SetStorageLayout(ctx, id, maas.StorageLayout{Name: "flat"})
		}},
		{"release", maas.CodeStateConflict, func(ctx context.Context) (maas.Machine, error) {
			r, err := c.Release(ctx, id, maas.ReleaseOptions{})
			return r.Machine, err
		}},
		{"power_off without a BMC", maas.CodePowerUncontrolled, func(ctx context.Context) (maas.Machine, error) {
			return c.PowerOff(ctx, id, false, "")
		}},
	} {
		_, err := r.call(t.Context())
		expect(t, r.what, err, r.code)
	}
	m, err := c.Machine(t.Context(), id)
	if err != nil || m.Status != maas.StatusNew {
		t.Errorf("the refusals left the machine %s, %v", m.Status, err)
	}
	expect(t, "boot disk that is not there", c.SetBootDisk(t.Context(), id, 1<<30), maas.CodeNotFound)
}

func checkReads(t *testing.T, c *maas.Client, id, mac string) {
	ctx := t.Context()
	_, err := c.MachineToken(ctx, id)
	expect(t, "token before any boot", err, maas.CodeNoMachineToken)
	_, err = c.BlockDevices(ctx, id)
	expect(t, "disks", err, "")
	nics, err := c.Interfaces(ctx, id)
	expect(t, "interfaces", err, "")
	if len(nics) != 1 || nics[0].MAC != mac {
		t.Errorf("interfaces %+v", nics)
	}
	_, err = c.Results(ctx, id)
	expect(t, "results", err, "")
	_, err = c.PowerOf(ctx, id)
	expect(t, "power parameters", err, "")
	if len(nics) == 1 {
		_, err = c.LinkSubnet(ctx, id, nics[0].ID, maas.LinkOptions{Mode: "nonsense"})
		expect(t, "link in no mode", err, maas.CodeFieldErrors)
		_, err = c.UnlinkSubnet(ctx, id, nics[0].ID, 1<<30)
		expect(t, "unlink what is not there", err, maas.CodeFieldErrors)
	}
}

// checkCommissioning starts a commissioning and stops it. It cannot finish,
// because nobody powers the machine on.
func checkCommissioning(t *testing.T, c *maas.Client, id string) {
	ctx := t.Context()
	tail := maas.NewTail(c, maas.LevelDebug, 0)
	_, err := tail.Next(ctx)
	expect(t, "tail", err, "")
	m, err := c.Commission(ctx, id, maas.CommissionOptions{SkipBMCConfig: true, TestingScripts: []string{"none"}})
	expect(t, "commission", err, "")
	if m.Status != maas.StatusCommissioning {
		t.Errorf("commissioning is %s", m.Status)
	}
	_, err = c.Commission(ctx, id, maas.CommissionOptions{})
	expect(t, "commission twice", err, maas.CodeStateConflict)
	_, err = c.Commission(ctx, id, maas.CommissionOptions{Scripts: []string{"gpuaas-nope"}})
	expect(t, "unknown script", err, maas.CodeFieldErrors, maas.CodeStateConflict)
	m, err = c.Abort(ctx, id, "conformance")
	expect(t, "abort", err, "")
	if m.Status != maas.StatusNew {
		t.Errorf("after abort %s", m.Status)
	}
	events, err := tail.Next(ctx)
	expect(t, "tail", err, "")
	seen := false
	for _, e := range events {
		seen = seen || e.SystemID == id
	}
	if !seen {
		t.Errorf("no event of the commissioning among %d", len(events))
	}
}

func checkDeployment(t *testing.T, c *maas.Client, cfg Config) {
	ctx, cancel := context.WithTimeout(t.Context(), cfg.Timeout)
	defer cancel()
	id := cfg.Machine
	w := maas.NewWatcher(c, maas.WatcherConfig{})
	defer w.Close()
	m, err := c.Allocate(ctx, maas.AllocateOptions{SystemID: id, Comment: "conformance"})
	if err != nil {
		t.Fatal(err)
	}
	if m.Status != maas.StatusAllocated || m.Owner == "" {
		t.Errorf("allocated %s of %q", m.Status, m.Owner)
	}
	_, err = c.Allocate(ctx, maas.AllocateOptions{SystemID: id})
	expect(t, "allocate twice", err, maas.CodeNoneAvailable)
	_, err = c.PowerOn(ctx, id, "")
	expect(t, "power on while Allocated", err, maas.CodeWouldDeploy)
	_, err = c.Commission(ctx, id, maas.CommissionOptions{})
	expect(t, "commission while Allocated", err, maas.CodeStateConflict)
	m, err = c.Annotate(ctx, id, map[string]string{"gpuaas": "conformance"})
	expect(t, "annotate", err, "")
	if m.Annotations["gpuaas"] != "conformance" {
		t.Errorf("annotations %v", m.Annotations)
	}
	_, err = c.Deploy(ctx, id, maas.DeployOptions{Image: "gpuaas-conformance-nope"})
	expect(t, "deploy of no image", err, maas.CodeImageMissing)
	_, err = c.Deploy(ctx, id, maas.DeployOptions{
		Image: cfg.Image, EnableHWSync: true,
		UserData: redact.New("#cloud-config\n{}\n"),
	})
	expect(t, "deploy", err, "")
	m, err = w.Wait(ctx, id, maas.UntilDeployed, nil)
	expect(t, "wait for the deployment", err, "")
	if err == nil && (!m.Runs(cfg.Image) || !m.EnableHWSync || len(m.IPAddresses) == 0) {
		t.Errorf("deployed %s, hardware sync %v, addresses %v", m.Image(), m.EnableHWSync, m.IPAddresses)
	}
	checkBreaking(t, c, id)
	_, err = c.Release(ctx, id, maas.ReleaseOptions{Comment: "conformance"})
	expect(t, "release", err, "")
	m, err = w.Wait(ctx, id, maas.UntilReleased, nil)
	expect(t, "wait for the release", err, "")
	if err == nil && (m.Owner != "" || m.OSystem != "" || len(m.Annotations) != 0) {
		t.Errorf("released, but of %q with %q and %v", m.Owner, m.OSystem, m.Annotations)
	}
	again, err := c.Release(ctx, id, maas.ReleaseOptions{Erase: maas.EraseQuick})
	expect(t, "release twice", err, "")
	if m.Status == maas.StatusReady && again.Outcome != maas.ReleaseNothing {
		t.Errorf("the second release said %s", again.Outcome)
	}
}

// checkBreaking breaks a Deployed machine and fixes it: MAAS shows it as
// Deployed again, although nothing is left on it.
func checkBreaking(t *testing.T, c *maas.Client, id string) {
	m, err := c.MarkBroken(t.Context(), id, "conformance")
	expect(t, "mark broken", err, "")
	if m.Status != maas.StatusBroken || m.OSystem != "" {
		t.Errorf("broken is %s with %q", m.Status, m.OSystem)
	}
	_, err = c.Deploy(t.Context(), id, maas.DeployOptions{Image: "noble"})
	expect(t, "deploy while Broken", err, maas.CodeStateConflict)
	m, err = c.MarkFixed(t.Context(), id, "conformance")
	expect(t, "mark fixed", err, maas.CodeResurrected)
	if !m.Hollow() {
		t.Errorf("fixed is %s with %q", m.Status, m.OSystem)
	}
}
