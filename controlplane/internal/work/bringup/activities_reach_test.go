package bringup_test

import (
	"slices"
	"testing"

	"gpuaas/controlplane/internal/work/bringup"
)

func TestTheHostOfANodeIsNeverAnAddressForRoCE(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Lower than the address of the deploy interface, and so the first that MAAS lists.
	w.assign(t, roce, "5.5.5.5/31", 9000)
	job := w.work(1)
	w.upTo(t, bringup.WaitForDeployed, job)
	w.does(t, bringup.WaitForDeployed, job)
	deploy := w.nic(t, job, job.Site.Settings.DeploySSHIface).Links[0].IP
	if shown := w.machine(t, job.SystemID).IPAddresses; !slices.Contains(shown, "5.5.5.5") {
		t.Fatalf("MAAS shows %q, without the address for RoCE", shown)
	}
	if slices.Contains(job.Facts.Addresses, "5.5.5.5") || job.Facts.Host() != deploy {
		t.Errorf("people reach it by %q, first by %s; want %s", job.Facts.Addresses, job.Facts.Host(), deploy)
	}
	job.Facts.SSHAddress = "10.99.0.7"
	if job.Facts.Host() != "10.99.0.7" {
		t.Errorf("the address that a login worked by is not the host: %s", job.Facts.Host())
	}
}
