package lab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/sim/rack"
	"gpuaas/testkit"
)

// realPayload is a payload that makes of a container what a first boot makes of a
// server: an account with a password, and hardware sync that waits for its
// credentials.
const realPayload = `#cloud-config
ssh_pwauth: true
users:
  - name: deployer
    plain_text_passwd: deploy-canary
    lock_passwd: false
    shell: /bin/bash
    sudo: ALL=(ALL) NOPASSWD:ALL
write_files:
  - path: /etc/systemd/system/maas_hardware_sync.service
    content: |
      [Service]
      Type=oneshot
      ExecStartPre=/usr/bin/curl -fsSL --retry 3 -o /usr/bin/maas-run-scripts.new %[1]s/maas-run-scripts
      ExecStartPre=/usr/bin/install -m 0755 /usr/bin/maas-run-scripts.new /usr/bin/maas-run-scripts
      ExecStart=/usr/bin/maas-run-scripts report-results --config /etc/maas/maas-machine-creds.yml
  - path: /etc/systemd/system/maas_hardware_sync.timer
    content: |
      [Timer]
      OnActiveSec=1s
      OnUnitActiveSec=2s
      AccuracySec=100ms
      [Install]
      WantedBy=timers.target
  - path: /var/lib/gpuaas-firstboot/01-site-bundle.json
    content: '{"layer":"site-bundle"}'
  - path: /var/lib/gpuaas-firstboot/run
    content: touch /run/again
`

// Every command that the lab imitates is carried out by a real machine, which
// is reached the same way and reports to MAAS by itself.
func TestRealMachines(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r, err := rack.Open(ctx, rack.Options{
		Kind: rack.LXD, Folder: t.TempDir(), Throwaway: true,
		Progress: func(s string) { t.Log(s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := r.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	l := open(t, 1, func(o *lab.Options) { o.Rack = r })
	if !strings.Contains(l.URL, r.HostAddress()) {
		t.Errorf("MAAS is at %s, where machines do not reach it", l.URL)
	}
	id := l.SystemIDs()[0]
	deployReal(t, l, id)
	c, key := enterReal(t, l, id)
	deployed := *brief(t, l, id).LastSync

	if _, code := say(t, c, start, ""); code != 0 {
		t.Errorf("start ended with %d", code)
	}
	mustSay(t, c, push, credentials(t, l, id, asIs))
	if said := mustSay(t, c, "sudo -n stat -c '%U %a' /etc/maas/maas-machine-creds.yml", ""); said != "root 600\n" {
		t.Errorf("credentials are %q", said)
	}
	mustSay(t, c, enable, "")
	mustSay(t, c, start, "")
	testkit.Eventually(t, "a report", func() bool { return brief(t, l, id).LastSync.After(deployed) })
	mustSay(t, c, timer, "")
	heard := *brief(t, l, id).LastSync
	testkit.Eventually(t, "two reports of the timer",
		func() bool { return brief(t, l, id).LastSync.After(heard.Add(3 * time.Second)) })
	if said := mustSay(t, c, look, ""); said != `{"layer":"site-bundle"}` {
		t.Errorf("records: %q", said)
	}
	mustSay(t, c, again, "")
	testkit.Eventually(t, "the first boot", func() bool {
		_,
			code := say(t, c, "test -f /run/again", "")
		return code == 0
	})

	if err := l.Happen(id, "power_off"); err != nil {
		t.Fatal(err)
	}
	untilOff(t, l, brief(t, l, id).Addresses[0])
	if err := l.Happen(id, "power_on"); err != nil {
		t.Fatal(err)
	}
	if _, same := enterReal(t, l, id); same != key {
		t.Error("the key changed with the power")
	}
}

func deployReal(t *testing.T, l *lab.Lab, id string) {
	t.Helper()
	began := time.Now()
	deploySoon(t, l, id, fmt.Sprintf(realPayload, l.URL))
	testkit.Eventually(t, "Deployed", func() bool { return brief(t, l, id).Status == "Deployed" })
	t.Logf("deployed after %s: cloud-init asked for its user data", time.Since(began).Round(time.Millisecond))
}
