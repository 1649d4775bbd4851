package payment

import (
	"fmt"
	"testing"
)

// Stripe counts some currencies otherwise than the ledger does.
func TestStripeCountsSomeCurrenciesOtherwise(t *testing.T) {
	for currency, want := range map[string]int64{"usd": 700, "jpy": 700, "isk": 7, "ugx": 7, "mga": 70_000} {
		n, ours, err := stripe{}.Read(fmt.Appendf(nil, `{"id": "e", "type": "payment_intent.succeeded",
			"livemode": true, "data": {"object": {"id": "p", "amount_received": 700, "currency": %q, "metadata": {"gpuaas_tenant_id": "x"}}}}`, currency))
		if err != nil || !ours || n.Minor != want {
			t.Errorf("%s: %+v, %v", currency, n, err)
		}
	}
}
