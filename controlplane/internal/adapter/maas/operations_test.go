package maas_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

func TestManyIDsAreAskedForInChunks(t *testing.T) {
	g := serve(t, func(_ int, r request, w http.ResponseWriter) {
		var out []string
		for _, id := range r.Query["id"] {
			out = append(out, fmt.Sprintf(`{"system_id": %q, "status_name": "Ready"}`, id))
		}
		raw("["+strings.Join(out, ",")+"]", json200, 200)(0, r, w)
	})
	var ids []string
	for i := range 120 {
		ids = append(ids, fmt.Sprintf("m%d", i))
	}
	found, err := client(t, g.URL).Machines(t.Context(), maas.Filter{IDs: ids})
	if err != nil || len(found) != 120 || found[119].SystemID != "m119" || len(g.asked()) != 3 {
		t.Errorf("%d machines in %d requests, %v", len(found), len(g.asked()), err)
	}
}

// A part of a list must not pass for the whole.
func TestAListIsAllOrNothing(t *testing.T) {
	g := serve(t, func(n int, r request, w http.ResponseWriter) {
		if n == 0 {
			raw(`[{"system_id": "a", "status_name": "Ready"}]`, json200, 200)(n, r, w)
			return
		}
		raw(`[{"system_id": "b", "status_name": "Ready"}, {"hello": "world"}]`, json200, 200)(n, r, w)
	})
	found, err := client(t, g.URL).Machines(t.Context(), maas.Filter{IDs: make([]string, 60)})
	checkFault(t, err, fault.Invalid, maas.CodeAnswerInvalid)
	if found != nil {
		t.Errorf("%d machines beside a failure", len(found))
	}
}

func TestPowerParametersAreReadByIDAndNeverShown(t *testing.T) {
	const pass = "canary-Power-9"
	g := serve(t, func(_ int, r request, w http.ResponseWriter) {
		var out []string
		for _, id := range r.Query["id"] {
			out = append(out,
				fmt.Sprintf(
					`%q: {"power_address": "10.0.0.1", "power_user": "u", "power_pass": %q, "k_g": "", "workaround_flags": ["x"], "cipher_suite_id": "3"}`, id, pass))
		}
		raw("{"+strings.Join(out, ",")+"}", json200, 200)(0, r, w)
	})
	c := client(t, g.URL)
	ids := make([]string, 250)
	for i := range ids {
		ids[i] = fmt.Sprintf("m%d", i)
	}
	power, err := c.PowerOf(t.Context(), ids...)
	if err != nil || len(power) != 250 || len(g.asked()) != 2 {
		t.Fatalf("%d in %d requests, %v", len(power), len(g.asked()), err)
	}
	p := power["m7"]
	if p.Address != "10.0.0.1" || p.User != "u" || p.Password.Reveal() != pass || p.Extra["cipher_suite_id"] != "3" ||
		!p.KG.IsZero() {
		t.Errorf("%+v", p)
	}
	if text := fmt.Sprintf("%v %+v %#v", p, p, p); strings.Contains(text, pass) {
		t.Errorf("password shown: %s", text)
	}

	// Neither a cut answer nor an echoing refusal shows the password.
	cut := serve(t, raw(`{"m1": {"power_pass": "`+pass, json200, 200))
	_, err = client(t, cut.URL, func(cfg *maas.Config) { cfg.Retries = -1 }).PowerOf(t.Context(), "m1")
	checkFault(t, err, fault.Unavailable, maas.CodeAnswerTruncated)
	if strings.Contains(err.Error(), pass) {
		t.Errorf("%v", err)
	}
	echo := serve(t, raw(`{"power_parameters": ["The value `+pass+` is too short"]}`, json200, 400))
	_, err = client(t, echo.URL).Update(t.Context(), "m1",
		maas.Attributes{Power: maas.Power{Type: "ipmi", Password: redact.New(pass)}})
	checkFault(t, err, fault.Invalid, maas.CodeFieldErrors)
	f, _ := fault.As(err)
	if strings.Contains(fmt.Sprint(err, f.Fields, f.Message), pass) {
		t.Errorf("%v %v", err, f.Fields)
	}
}

func TestParametersOfTheOtherOperations(t *testing.T) {
	for name, c := range map[string]struct {
		call op
		sent string
	}{
		"update interface": {func(ctx context.Context, c *maas.Client) error {
			_, err := c.UpdateInterface(ctx, sysid, 5, maas.InterfaceAttributes{Name: "ib0", VLANID: 5002, MTU: 9000})
			return err
		}, "PUT /nodes/p3edc3/interfaces/5/  mtu=9000&name=ib0&vlan=5002"},
		"create subnet": {func(ctx context.Context, c *maas.Client) error {
			made, err := c.CreateSubnet(ctx, maas.NewSubnet{CIDR: "172.30.9.60/31", Name: "roce", VLANID: 5002})
			if err == nil && made.ID != 5 {
				err = fmt.Errorf("made %+v", made)
			}
			return err
		}, "POST /subnets/  cidr=172.30.9.60%2F31&name=roce&vlan=5002"},
		"override": {machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
			return c.OverrideFailedTesting(ctx, sysid, "seen")
		}), "POST /machines/p3edc3/ override_failed_testing comment=seen"},
		"unlink": {func(ctx context.Context, c *maas.Client) error {
			_, err := c.UnlinkSubnet(ctx, sysid, 5, 7)
			return err
		}, "POST /nodes/p3edc3/interfaces/5/ unlink_subnet id=7"},
		"mark broken": {machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
			return c.MarkBroken(ctx, sysid, "dead")
		}), "POST /machines/p3edc3/ mark_broken comment=dead"},
		"soft power off": {machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
			return c.PowerOff(ctx, sysid, true, "")
		}), "POST /machines/p3edc3/ power_off stop_mode=soft"},
		"remove an annotation": {machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
			return c.Annotate(ctx, sysid, map[string]string{"a": "", "b": "1"})
		}), "POST /machines/p3edc3/ set_workload_annotations a=&b=1"},
		"allocate": {machineOp(func(c *maas.Client, ctx context.Context) (maas.Machine, error) {
			return c.Allocate(ctx, maas.AllocateOptions{SystemID: sysid, AgentName: "gpuaas", DryRun: true})
		}), "POST /machines/ allocate agent_name=gpuaas&dry_run=true&system_id=p3edc3"},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, func(_ int, _ request, w http.ResponseWriter) {
				w.Header().Set("Content-Type", json200)
				_, _ = io.WriteString(w, `{"system_id": "p3edc3", "status_name": "Ready", "id": 5}`)
			})
			if err := c.call(t.Context(), client(t, g.URL)); err != nil {
				t.Fatal(err)
			}
			r := g.asked()[0]
			if got := r.Method + " " + r.Path + " " + r.op() + " " + r.Form.Encode(); got != c.sent {
				t.Errorf("sent %s", got)
			}
		})
	}
	_, err := client(t, "http://127.0.0.1:1").Create(t.Context(), maas.CreateOptions{Commission: true})
	checkFault(t, err, fault.Invalid, maas.CodeFieldErrors)
	_, err = client(t, "http://127.0.0.1:1").Allocate(t.Context(), maas.AllocateOptions{})
	checkFault(t, err, fault.Invalid, maas.CodeFieldErrors)
}
