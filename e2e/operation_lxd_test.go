package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/testkit"
)

// A package of the machine's own source, with a service that does not start while
// something is in its way.
const demoPackage = `set -e
mkdir -p /srv/apt /tmp/demo/DEBIAN /tmp/demo/usr/lib/systemd/system
cd /tmp/demo
printf 'Package: demo\nVersion: 1.2\nArchitecture: all\nMaintainer: t <t@example>\nDescription: test\n' >DEBIAN/control
cat >usr/lib/systemd/system/demo.service <<END
[Service]
EnvironmentFile=/etc/demo.env
ExecStartPre=/bin/sh -c 'test ! -e /srv/apt/in-the-way || { echo something is in the way; exit 1; }'
ExecStart=/bin/sleep infinity
END
dpkg-deb --root-owner-group --build . /srv/apt/demo.deb
{ cat DEBIAN/control; echo Filename: ./demo.deb; echo Size: $(stat -c %s /srv/apt/demo.deb)
  echo SHA256: $(sha256sum /srv/apt/demo.deb | cut -d' ' -f1); } >/srv/apt/Packages
touch /srv/apt/in-the-way
`

const demoDefinition = `
type: demo.prepare
version: v1
title: Install and start the demo
risk: medium
risk_text: The demo is interrupted.
targets: [node]
safety: {rented: none}
max_duration_seconds: 900
inputs:
  type: object
  additionalProperties: false
  required: [version]
  properties:
    version: {type: string, format: deb-version, maxLength: 100}
steps:
  - id: install
    kind: package.install
    timeout_seconds: 300
    with:
      packages: [{name: demo, version: "${inputs.version}"}]
      sources: [own]
      repositories: [{name: own, uri: "file:///srv/apt", suite: ./}]
  - id: conf
    kind: file.render
    timeout_seconds: 60
    with: {path: /etc/demo.env, format: plain, template: "NAME={{name}}\n", values: {name: "${target.node_name}"}}
  - id: start
    kind: service.control
    timeout_seconds: 120
    with: {unit: demo.service, action: start, stable_seconds: 1}
  - id: check
    kind: health.check
    timeout_seconds: 120
    with: {within_seconds: 60, probes: [{kind: unit, unit: demo.service}]}
`

// operates runs an operation that installs, writes, starts and checks. It fails at its
// third step for a cause that the log names; once that is mended, it goes on there.
func (n *rackNode) operates(t *testing.T) {
	n.becomes(t, "active")
	n.run(t, "sh", "-c", demoPackage)
	n.plane.do(t, http.MethodPost, "/api/v1/admin/operation-definitions",
		map[string]any{"source": demoDefinition, "activate": true}, http.StatusCreated, nil)
	var made struct {
		ID string `json:"operation_id"`
	}
	const runs = "/api/v1/admin/operations"
	n.plane.do(t, http.MethodPost, runs, map[string]any{
		"operation": "demo.prepare", "inputs": map[string]string{"version": "1.2"}, "targets": map[string]any{
			"nodes": []string{n.id},
		},
	}, http.StatusAccepted, &made)
	ends := func(want string) {
		t.Helper()
		testkit.Succeeds(t, "the run "+want, 5*time.Minute, func() error {
			var now struct{ Status string }
			n.plane.do(t, http.MethodGet, runs+"/"+made.ID, nil, http.StatusOK, &now)
			if now.Status != want {
				return fmt.Errorf("it is %s", now.Status)
			}
			return nil
		})
	}
	ends("failed")
	testkit.Succeeds(t, "the log to say why", time.Minute, func() error {
		a := n.plane.do(t, http.MethodGet, runs+"/"+made.ID+"/logs?step_id=start", nil, http.StatusOK, nil)
		if !strings.Contains(string(a.body), "something is in the way") ||
			!strings.Contains(string(a.body), "failed: start of demo.service failed") {
			return fmt.Errorf("it says %s", a.body)
		}
		return nil
	})
	n.run(t, "rm", "/srv/apt/in-the-way")
	n.plane.do(t, http.MethodPost, runs+"/"+made.ID+"/retry", map[string]any{}, http.StatusAccepted, nil)
	ends("succeeded")
	var steps struct {
		Items []struct {
			Attempt int    `json:"attempt_number"`
			Step    string `json:"step_id"`
			Status  string
		}
	}
	n.plane.do(t, http.MethodGet, runs+"/"+made.ID+"/steps", nil, http.StatusOK, &steps)
	var got []string
	for _, s := range steps.Items {
		got = append(got, fmt.Sprintf("%d %s %s", s.Attempt, s.Step, s.Status))
	}
	if want := []string{
		"1 install succeeded", "1 conf succeeded", "1 start failed", "2 start succeeded", "2 check succeeded",
	}; !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
	if got := n.run(t, "cat", "/etc/demo.env"); got != "NAME=pasted" {
		t.Errorf("the file holds %q", got)
	}
	n.run(t, "systemctl", "stop", "demo")
	n.run(t, "sh", "-c", "dpkg --purge demo && rm -r /etc/demo.env /srv/apt /tmp/demo")
}
