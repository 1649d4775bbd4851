package onboarding_test

import (
	"net/http"
	"strings"
	"testing"
)

// Whoever may onboard machines, and nothing else, names a BMC of their own, so that
// MAAS logs on there with the BMC password of the site.
func TestAttackABMCElsewhereGetsThePassword(t *testing.T) {
	d := newDesk(t)
	d.set(t, `UPDATE maas_sites SET bmc_networks = '{10.176.0.0/16}'`)
	for _, address := range []string{
		"203.0.113.9", "10.177.0.1", "::ffff:203.0.113.9", "2001:db8::9", "127.0.0.1", "169.254.169.254", "fe80::1",
	} {
		a := d.call(t, http.MethodPost, "onboardings", d.one(object{"ipmi_ip": address}))
		if a.Status != http.StatusUnprocessableEntity || !strings.Contains(string(a.Body), "body.ipmi_ip") {
			t.Errorf("%s: %d %s", address, a.Status, a.Body)
		}
	}
	if n := d.count(t, `SELECT count(*) FROM jobs`); n != 0 {
		t.Errorf("%d jobs were made", n)
	}
	if a := d.call(t, http.MethodPost, "onboardings", d.one(nil)); a.Status != http.StatusAccepted {
		t.Errorf("a BMC in the network: %d %s", a.Status, a.Body)
	}
}
