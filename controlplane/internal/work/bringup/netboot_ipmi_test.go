package bringup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuaas/controlplane/internal/adapter/bmc"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/ipmi"
	"gpuaas/testkit"
)

// The test binary is also the program that ipmi_sim asks for the power of a server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "chassis" {
		if err := ipmi.Chassis(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0) // os.Exit takes a second under the race detector
	}
	os.Exit(m.Run())
}

// realBMC is a server whose BMC speaks IPMI over the network. A server that was told
// to boot from the network, and is on, is met by MAAS.
type realBMC struct {
	bmc.IPMI
	t       *testing.T
	chassis string
	met     func(address string)
	cycles  int
}

func (b *realBMC) PXECycle(ctx context.Context, address, user string, pass redact.Secret) error {
	if err := b.IPMI.PXECycle(ctx, address, user, pass); err != nil {
		return err
	}
	b.cycles++
	testkit.Succeeds(b.t, "the server to be on", testkit.Patience, func() error { // it is off for a moment
		for name, want := range map[string]string{"power": "1", "boot": "pxe"} {
			got, err := os.ReadFile(filepath.Join(b.chassis, name))
			if text := strings.TrimSpace(string(got)); err != nil || text != want {
				return errors.Join(err, fmt.Errorf("its %s is %q", name, text))
			}
		}
		return nil
	})
	b.met(address)
	return nil
}

// withRealBMC starts a BMC for the first server of the rack, which has this password.
func withRealBMC(t *testing.T, pass string) *realBMC {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bmcs, err := ipmi.Start(t.Context(), ipmi.Options{
		Machines: []ipmi.Machine{{Address: fleet.BMCAddress(1), User: "root", Pass: pass, On: true}}, Dir: dir,
		Chassis: []string{self, "chassis"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bmcs.Stop)
	return &realBMC{IPMI: bmc.IPMI{Find: bmcs.Endpoint}, t: t, chassis: filepath.Join(dir, "chassis-0")}
}

// MAAS does not take the server, because nobody told its MAC: our own discovery makes
// it boot through its BMC, with the cipher suite that the BMC has, and finds it.
func TestDiscoveryOverIPMI(t *testing.T) {
	t.Parallel()
	b := withRealBMC(t, powerPass)
	w := newWorld(t, func(p *plan) { p.config.BMC = b })
	strict(w, t)
	b.met = func(address string) { enlists(w, address); blank(w, address) }
	job := w.work(1)
	if w.does(t, bringup.CreateOrFindInMAAS, job); job.Facts.IdentifiedBy != "discovered" || job.SystemID == "" ||
		b.cycles != 1 {
		t.Errorf("cycled %d times, facts are %+v", b.cycles, job.Facts)
	}
	if got := w.machine(t, job.SystemID); got.SystemID != job.SystemID {
		t.Errorf("MAAS has %+v", got)
	}
}

// A wrong password is told as such, nothing is switched, and with the right one the
// job goes on.
func TestDiscoveryOverIPMIWithAWrongPassword(t *testing.T) {
	t.Parallel()
	b := withRealBMC(t, "another-password")
	w := newWorld(t, func(p *plan) { p.config.BMC = b })
	strict(w, t)
	b.met = func(address string) { enlists(w, address) }
	job := w.work(1)
	f := w.fails(t, bringup.CreateOrFindInMAAS, job, bringup.BMCPowerFailure, "bmc_refused")
	if b.cycles != 0 || job.SystemID != "" || f.Message == "" {
		t.Errorf("cycled %d times, job has %q: %+v", b.cycles, job.SystemID, f)
	}
	if err := w.vault.Put(t.Context(), "maas-sites/"+w.site.ID.String()+"/power/default",
		map[string]redact.Secret{"user": redact.New("root"), "pass": redact.New("another-password")}); err != nil {
		t.Fatal(err)
	}
	if w.does(t, bringup.CreateOrFindInMAAS, job); b.cycles != 1 || job.SystemID == "" {
		t.Errorf("cycled %d times, job has %q", b.cycles, job.SystemID)
	}
}
