package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/money/rating"
)

// stripe is the scheme of Stripe: the header has the time and signatures,
// t=1700000000,v1=HEX,v1=HEX, each the HMAC-SHA256 of "time.body" by a secret.
type stripe struct{}

// mostSignatures is how many signatures of a header are looked at.
const mostSignatures = 8

// Verify implements Adapter.
func (stripe) Verify(now time.Time, signature string, body []byte, secrets []redact.Secret) error {
	at, given := "", [][]byte{}
	for part := range strings.SplitSeq(signature, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "t":
			if at != "" {
				return badSignature("it has two times")
			}
			at = value
		case "v1":
			mac, err := hex.DecodeString(value)
			if err == nil && len(mac) == sha256.Size && len(given) < mostSignatures {
				given = append(given, mac)
			}
		}
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != at {
		return badSignature("it has no time")
	}
	right := false
	for _, secret := range secrets {
		if secret.IsZero() {
			continue
		}
		mac := hmac.New(sha256.New, []byte(secret.Reveal()))
		mac.Write([]byte(at + "."))
		mac.Write(body)
		want := mac.Sum(nil)
		for _, g := range given {
			if hmac.Equal(g, want) {
				right = true
			}
		}
	}
	if !right {
		return badSignature("it was not made with the secret, or the body was changed")
	}
	// Asked last, so that whoever does not know the secret learns nothing of clocks.
	if off := now.Unix() - seconds; off > int64(tolerance/time.Second) || off < -int64(tolerance/time.Second) {
		return staleSignature()
	}
	return nil
}

// stripeEvent is what is read of an event.
type stripeEvent struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Live    *bool  `json:"livemode"`
	Account string `json:"account"` // somebody else's, connected to ours
	Data    struct {
		Object struct {
			ID       string            `json:"id"`
			Status   string            `json:"status"`
			Amount   json.Number       `json:"amount"`
			Received json.Number       `json:"amount_received"`
			Currency string            `json:"currency"`
			Payment  string            `json:"payment_intent"`
			Metadata map[string]string `json:"metadata"`
		} `json:"object"`
	} `json:"data"`
}

// tenantKey is where the metadata of a payment name its tenant.
const tenantKey = "gpuaas_tenant_id"

// longestID leaves room for the name of the provider in the ledger.
const longestID = 150

// Read implements Adapter. Stripe counts in minor units, as we do but for the currencies
// below. What other accounts were paid, and payments that name no tenant, are not ours.
func (stripe) Read(body []byte) (Notice, bool, error) {
	var e stripeEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return Notice{}, false, malformed("it is no event of Stripe")
	}
	o := e.Data.Object
	n := Notice{Event: e.ID, Object: o.ID, Currency: strings.ToUpper(o.Currency)}
	amount := o.Amount
	switch {
	case e.Type == "payment_intent.succeeded":
		n.Kind, n.Payment, n.Tenant, amount = Payment, o.ID, o.Metadata[tenantKey], o.Received
	case (e.Type == "refund.created" || e.Type == "refund.updated") && o.Status == "succeeded":
		n.Kind, n.Payment = Refund, o.Payment
	default:
		return Notice{}, false, nil
	}
	switch {
	case e.Account != "", n.Kind == Payment && n.Tenant == "":
		return Notice{}, false, nil
	case e.Live == nil || !*e.Live:
		return Notice{}, false, testMode()
	}
	for what, text := range map[string]string{"event": n.Event, "object": n.Object, "payment": n.Payment} {
		if text == "" || len(text) > longestID {
			return Notice{}, false, malformed("it has no usable id of its " + what)
		}
	}
	var err error
	if n.Minor, err = strconv.ParseInt(amount.String(), 10, 64); err != nil || n.Minor < 1 || n.Minor > rating.MostAmount {
		return Notice{}, false, outOfBounds()
	}
	switch {
	case slices.Contains(inHundredths, n.Currency) && n.Minor%100 == 0:
		n.Minor /= 100
	case slices.Contains(inWholes, n.Currency) && n.Minor <= rating.MostAmount/100:
		n.Minor *= 100
	case slices.Contains(inHundredths, n.Currency), slices.Contains(inWholes, n.Currency):
		return Notice{}, false, outOfBounds()
	}
	return n, true, nil
}

// inHundredths are currencies without minor units that Stripe counts in hundredths all
// the same.
var inHundredths = []string{"ISK", "UGX"}

// inWholes are currencies with minor units that Stripe counts without them.
var inWholes = []string{"MGA"}
