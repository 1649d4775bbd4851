package site_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site"
)

func TestChoosePower(t *testing.T) {
	override := func(kind site.SelectorType, value string, status site.Status) site.PowerOverride {
		return site.PowerOverride{
			ID: id.New[id.PowerOverride](), Selector: site.Selector{Type: kind, Value: value}, Status: status,
			Credential: site.Credential{Fingerprint: string(kind)},
		}
	}
	mac, ip, host := override(site.ByPXEMAC, "52:54:00:00:00:01", site.Active),
		override(site.ByIPMIIP, "10.0.0.7", site.Active), override(site.ByHostname, "c07u31", site.Active)
	off := override(site.ByIPMIIP, "10.0.0.7", site.Disabled)
	all := site.Machine{Hostname: "c07u31", IPMIIP: "10.0.0.7", PXEMAC: "52:54:00:00:00:01"}
	with, without := site.Site{Name: "dc1", Power: site.Credential{Fingerprint: "default"}}, site.Site{Name: "dc1"}
	for name, c := range map[string]struct {
		site      site.Site
		overrides []site.PowerOverride
		machine   site.Machine
		want      id.PowerOverride
		print     string
		reason    string
		code      string
	}{
		"MAC before all": {
			with,
			[]site.PowerOverride{host, ip, mac},
			all, mac.ID, "pxe_mac",
			"active override by pxe_mac 52:54:00:00:00:01", "",
		},
		"address before name": {
			with,
			[]site.PowerOverride{host, ip},
			all, ip.ID, "ipmi_ip",
			"active override by ipmi_ip 10.0.0.7", "",
		},
		"name": {
			with,
			[]site.PowerOverride{host},
			all, host.ID, "hostname",
			"active override by hostname c07u31", "",
		},
		"disabled is passed by": {
			with,
			[]site.PowerOverride{host, off},
			all, host.ID, "hostname",
			"the override by ipmi_ip 10.0.0.7 is disabled; active override by hostname c07u31", "",
		},
		"unknown MAC": {
			with,
			[]site.PowerOverride{mac, host},
			site.Machine{Hostname: "c07u31"},
			host.ID,
			"hostname", "active override by hostname c07u31", "",
		},
		"of another machine": {
			with,
			[]site.PowerOverride{mac, ip, host},
			site.Machine{Hostname: "other"},
			id.PowerOverride{},
			"default", "no active override is for the machine: the default of the site", "",
		},
		"a name like a MAC": {
			with,
			[]site.PowerOverride{mac},
			site.Machine{Hostname: "52:54:00:00:00:01"},
			id.PowerOverride{},
			"default", "", "",
		},
		"nothing at all":     {without, nil, all, id.PowerOverride{}, "", "", "power_credentials_missing"},
		"override is enough": {without, []site.PowerOverride{host}, all, host.ID, "hostname", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := site.ChoosePower(c.site, c.overrides, c.machine)
			if (err != nil) != (c.code != "") || err != nil && fault.CodeOf(err) != c.code {
				t.Fatal(err)
			}
			if got.Override != c.want || got.Fingerprint != c.print || c.reason != "" && got.Reason != c.reason {
				t.Errorf("choice is %+v", got)
			}
		})
	}
}

func (w *world) override(tb testing.TB, path, kind, value string) site.PowerOverrideView {
	tb.Helper()
	a := w.call(tb, http.MethodPost, path+"/power-overrides", "",
		object{"selector_type": kind, "selector_value": value, "user": "root", "pass": overridePass})
	if a.Status != http.StatusCreated {
		tb.Fatalf("answer is %d %s", a.Status, a.Body)
	}
	var v site.PowerOverrideView
	a.Decode(tb, &v)
	return v
}

func TestPowerOverridesOverTheAPI(t *testing.T) {
	w := newWorld(t)
	s, path := w.site(t, "dc1")
	w.credentials(t, path)
	v := w.override(t, path, "pxe_mac", "52-54-00-AA-BB-01")
	if v.SelectorValue != "52:54:00:aa:bb:01" || v.Status != site.Active || !v.Credentials.HasCredentials ||
		len(v.Credentials.Fingerprint) != 12 {
		t.Errorf("a fresh override is %+v", v)
	}
	stored := "maas-sites/" + s.SiteID.String() + "/power/overrides/" + v.PowerOverrideID.String()
	if w.stored(t, stored)["pass"].Reveal() != overridePass {
		t.Error("its credentials are not in the engine")
	}
	again := object{"selector_type": "pxe_mac", "selector_value": "52:54:00:aa:bb:01", "user": "u", "pass": "p"}
	w.call(t, http.MethodPost, path+"/power-overrides", "", again).Wants(t, http.StatusConflict, "power_override_taken")
	for kind, value := range map[string]string{
		"hostname": "under_score", "ipmi_ip": "10.0.0.300",
		"pxe_mac": "ff:ff:ff:ff:ff:ff",
	} {
		w.call(t, http.MethodPost, path+"/power-overrides", "",
			object{"selector_type": kind, "selector_value": value, "user": "u", "pass": "p"}).
			Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.selector_value")
	}
	one := path + "/power-overrides/" + v.PowerOverrideID.String()
	resolve := func(query string) (c site.PowerChoiceView) {
		a := w.call(t, http.MethodGet, path+"/power-credentials/resolve?"+query, "", nil)
		if a.Status != http.StatusOK || strings.Contains(string(a.Body), "canary") {
			t.Errorf("%s answers %d %s", query, a.Status, a.Body)
		}
		a.Decode(t, &c)
		return c
	}
	mac := "pxe_mac=" + url.QueryEscape("52:54:00:AA:BB:01")
	if c := resolve(mac); c.Source != "override" || *c.PowerOverrideID != v.PowerOverrideID ||
		c.Fingerprint != v.Credentials.Fingerprint {
		t.Errorf("choice is %+v", c)
	}
	a := w.call(t, http.MethodPatch, one, `"1"`, object{"credentials": object{"user": "root", "pass": "next"}})
	var after site.PowerOverrideView
	a.Decode(t, &after)
	if a.Status != http.StatusOK || after.Credentials.Fingerprint == v.Credentials.Fingerprint ||
		w.stored(t, stored)["pass"].Reveal() != "next" {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodPatch, one, `"1"`, object{"status": "disabled"}).
		Wants(t, http.StatusPreconditionFailed, "version_stale")
	w.call(t, http.MethodPatch, one, `"2"`, object{"status": "disabled"})
	if c := resolve(mac + "&hostname=C07U31"); c.Source != "site_default" || !strings.Contains(c.Reason, "is disabled") {
		t.Errorf("choice is %+v", c)
	}
	w.call(t, http.MethodGet, path+"/power-credentials/resolve", "", nil).
		Wants(t, http.StatusUnprocessableEntity, "validation_error", "query")
	w.call(t, http.MethodGet, path+"/power-credentials/resolve?ipmi_ip=x", "", nil).
		Wants(t, http.StatusUnprocessableEntity, "validation_error", "query.ipmi_ip")

	if a := w.call(t, http.MethodDelete, one, "", nil); a.Status != http.StatusNoContent {
		t.Errorf("deletion answers %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodGet, one, "", nil).Wants(t, http.StatusNotFound, "not_found")
	if w.stored(t, stored) != nil {
		t.Error("its credentials stay in the engine")
	}
}

// An override that loses a race for its machine leaves no credentials behind.
func TestLostRaceForASelectorLeavesNothing(t *testing.T) {
	w := newWorld(t)
	s, path := w.site(t, "dc1")
	w.vault.after = func() { w.override(t, path, "hostname", "c07u31") }
	n := site.NewPowerOverride{
		Selector:    site.Selector{Type: site.ByHostname, Value: "c07u31"},
		Credentials: site.PowerCredentials{User: "u", Pass: secret("p")},
	}
	if _, err := w.service.CreatePowerOverride(system(t), s.SiteID, n); fault.CodeOf(err) != "power_override_taken" {
		t.Errorf("the second is told %v", err)
	}
	if n := w.rows(t, `SELECT count(*) FROM maas_power_credential_overrides`); n != 1 {
		t.Errorf("%d overrides", n)
	}
}

// Nobody looks for the credentials of a machine that is gone.
func TestPowerOverridesLeaveWithTheirMachine(t *testing.T) {
	w := newWorld(t)
	s, path := w.site(t, "dc1")
	w.credentials(t, path)
	for kind, value := range map[string]string{
		"pxe_mac": "52:54:00:aa:bb:01", "ipmi_ip": "10.1.0.1", "hostname": "other",
	} {
		w.override(t, path, kind, value)
	}
	m := site.Machine{Hostname: "c07u31", IPMIIP: "10.1.0.1", PXEMAC: "52:54:00:aa:bb:01"}
	for _, want := range []int{2, 0} {
		removed, err := w.service.ForgetMachine(system(t), s.SiteID, m)
		if err != nil || removed != want {
			t.Fatalf("%d are removed, %v; want %d", removed, err, want)
		}
	}
	left, err := w.service.PowerOverrides(system(t), s.SiteID, postgres.Slice[id.PowerOverride]{Limit: 10})
	if err != nil || len(left) != 1 || left[0].Selector.Value != "other" {
		t.Errorf("left are %+v, %v", left, err)
	}
}
