package cli

import (
	"encoding/json"
	"testing"
	"time"
)

// Prices begin at the same moment wherever they are set: a time without an offset is UTC.
func TestPricesBeginInUTC(t *testing.T) {
	for from, want := range map[string]string{
		"2026-04-01":                "2026-04-01T00:00:00Z",
		"2026-04-01 08:30":          "2026-04-01T08:30:00Z",
		"2026-04-01 08:30+05:00":    "2026-04-01T03:30:00Z",
		"2026-04-01T08:30:00-01:00": "2026-04-01T09:30:00Z",
	} {
		f := newFakeAPI(t)
		b := signedIn(t, f)
		b.around.Zone = time.FixedZone("far", 9*3600)
		if got := b.run("billing", "prices", "set", "h200-sxm-baremetal-8g", "--price", "3.50", "--from",
			from); got.exit != 0 {
			t.Fatalf("%s: %+v", from, got)
		}
		for _, call := range f.received() {
			if call.operation != "create-price" {
				continue
			}
			var body struct {
				ValidFrom string `json:"valid_from"`
			}
			if err := json.Unmarshal([]byte(call.body), &body); err != nil || body.ValidFrom != want {
				t.Errorf("%s begins at %q, %v", from, body.ValidFrom, err)
			}
		}
	}
}

// Who names what a node may cost sends amount and currency as they were meant.
func TestALimitIsSentInMinorUnits(t *testing.T) {
	f := newFakeAPI(t)
	if got := signedIn(t, f).run("allocation", "create", "--project", "acme/training", "--sku", "h200-sxm-baremetal-8g",
		"--hour-most", "28.05 USD"); got.exit != 0 {
		t.Fatalf("%+v", got)
	}
	for _, call := range f.received() {
		if call.operation != "create-allocation" {
			continue
		}
		var body struct {
			Most struct {
				Minor    int64  `json:"amount_minor"`
				Currency string `json:"currency"`
			} `json:"hour_most"`
		}
		if err := json.Unmarshal([]byte(call.body), &body); err != nil || body.Most.Minor != 2805 ||
			body.Most.Currency != "USD" {
			t.Errorf("%s: %v", call.body, err)
		}
		return
	}
	t.Error("nothing was asked for")
}

// Where nothing is charged, whoever asks reads that, and no price.
func TestAnExplanationSaysThatNothingIsCharged(t *testing.T) {
	f := newFakeAPI(t)
	f.on("explain-allocation", answer(200, `{"sku":"h200","nodes":4,"free":2,"filters":[]}`))
	got := signedIn(t, f).run("allocation", "explain", "--project", "acme/training", "--sku", "h200")
	if want := "2 of 4 nodes of h200 are free now.\nnothing is charged for it.\n"; got.exit != 0 || got.stdout != want {
		t.Errorf("%+v", got)
	}
}
