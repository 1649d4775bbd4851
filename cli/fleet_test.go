package cli

import (
	"strings"
	"testing"
)

// What is asked for reaches the API under the names that it has there.
func TestNodesAndFleetAreNarrowedByFlags(t *testing.T) {
	for args, want := range map[string]string{
		"node list --status active,offline --status retired --search c07 --sort hostname --order desc --site " +
			siteID: "page_size=200&statuses=active&statuses=offline&statuses=retired&q=c07&sort=hostname&order=desc&site_id=" +
			siteID,
		"node list --agent drift --held true --tainted false": "page_size=200&agent=drift&held=true&tainted=false",
		"fleet --sku a100 --region eu-1 --search c07 --drift unknown --site " +
			siteID: "sku=a100&region_code=eu-1&q=c07&drift_state=unknown&site_id=" + siteID,
		"fleet --agent unknown_build --held false --tainted true": "agent=unknown_build&held=false&tainted=true",
		"fleet": "",
		"fleet map --region eu-1 --search c07 --site " + siteID: "region_code=eu-1&q=c07&site_id=" + siteID,
	} {
		f := newFakeAPI(t)
		if got := signedIn(t, f).run(strings.Fields(args)...); got.exit != 0 {
			t.Errorf("%s: %s", args, got.err)
		}
		if got := f.received()[0].query; !sameQuery(got, want) {
			t.Errorf("%s asks %s, want %s", args, got, want)
		}
	}
}

func TestAFleetWithoutNodes(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-fleet-map", answer(200, `{"as_of":"2026-03-04T05:09:00Z","truncated":false,"nodes":[]}`))
	if got := signedIn(t, f).run("fleet", "map"); got.exit != 0 || got.stdout != "" || got.err != "there are no nodes\n" {
		t.Errorf("%d %q %q", got.exit, got.stdout, got.err)
	}
}

// The rest of the status is shown although Temporal does not answer.
func TestSystemStatusWithoutTemporal(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-system-status",
		answer(200,
			`{"version":"1.2.3","ready":true,"roles":[],"dependencies":[],"outbox":[],"workers":[],"workers_error":"Temporal cannot be reached","links":{}}`))
	got := signedIn(t, f).run("system", "status")
	if got.exit != 0 || !strings.Contains(got.stdout, "1.2.3") ||
		got.err != "what waits for workers is not known: Temporal cannot be reached\n" {
		t.Errorf("%d %q %q", got.exit, got.stdout, got.err)
	}
}
