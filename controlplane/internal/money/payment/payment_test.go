package payment_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/payment"
)

const secret = "whsec_0123456789abcdef"

// safe keeps secrets in memory, as the secrets engine does.
type safe struct {
	mu    sync.Mutex
	kept  map[string]map[string]redact.Secret
	asked int
}

func (s *safe) Put(_ context.Context, path string, values map[string]redact.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[path] = maps.Clone(values)
	return nil
}

func (s *safe) Get(_ context.Context, path string) (map[string]redact.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if v, ok := s.kept[path]; ok {
		return v, nil
	}
	return nil, secrets.ErrNotFound
}

type world struct {
	db, owner *postgres.DB
	safe      *safe
	api       *httpapi.API
	now       time.Time
	org       id.Org
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		safe: &safe{kept: map[string]map[string]redact.Secret{}}, now: time.Unix(1_800_000_000, 0), org: id.New[id.Org](),
	}
	w.db, w.owner = postgrestest.NewWithOwner(t)
	w.api = httpapitest.New(w.db)
	payment.New(w.db, w.safe, func() time.Time { return w.now }).Register(w.api)
	if _, err := w.owner.Exec(t.Context(), `INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`,
		w.org); err != nil {
		t.Fatal(err)
	}
	if _, err := account.New(w.db, false).Set(t.Context(), w.org, account.Wish{Currency: "USD"}); err != nil {
		t.Fatal(err)
	}
	w.setSecret(t, secret)
	return w
}

func (w *world) setSecret(t *testing.T, to string) {
	t.Helper()
	httpapitest.Call(t, w.api.Handler(), httpapitest.Request{
		As: "root", Method: http.MethodPut, Path: "/api/v1/admin/payments/stripe/secret", Body: map[string]any{"secret": to},
	}).Wants(t, http.StatusNoContent, "")
}

func (w *world) sign(body, with string) string {
	at := strconv.FormatInt(w.now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(with))
	mac.Write([]byte(at + "." + body))
	return "t=" + at + ",v1=" + hex.EncodeToString(mac.Sum(nil)) + ",v0=old"
}

func (w *world) send(t *testing.T, signature, body string) httpapitest.Answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/payments/stripe/events",
		strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if signature != "" {
		r.Header.Set("Stripe-Signature", signature)
	}
	rec := httptest.NewRecorder()
	w.api.Handler().ServeHTTP(rec, r)
	return httpapitest.Answer{Status: rec.Code, Header: rec.Header(), Body: rec.Body.Bytes()}
}

func (w *world) event(t *testing.T, body string) httpapitest.Answer {
	t.Helper()
	return w.send(t, w.sign(body, secret), body)
}

func (w *world) took(t *testing.T, body string, want payment.Outcome) {
	t.Helper()
	var v payment.TakenView
	w.event(t, body).Into(t, http.StatusOK, &v)
	if v.Outcome != want {
		t.Errorf("%s: %s, want %s", body, v.Outcome, want)
	}
}

func paid(event, object, tenant string, amount any, currency string) string {
	return fmt.Sprintf(`{"id": %q, "type": "payment_intent.succeeded", "livemode": true, "data": {"object": {"id": %q, "status": "succeeded",
		"amount": 1, "amount_received": %v, "currency": %q, "metadata": {"gpuaas_tenant_id": %q}}}}`, event, object, amount,
		currency, tenant)
}

func refunded(event, object, of string, amount int64) string {
	return fmt.Sprintf(`{"id": %q, "type": "refund.updated", "livemode": true, "data": {"object": {"id": %q, "status": "succeeded",
		"amount": %d, "currency": "usd", "payment_intent": %q, "metadata": {}}}}`, event, object, amount, of)
}

// written counts everything that an event could leave behind.
func (w *world) written(t *testing.T) (rows, balance int64) {
	t.Helper()
	if err := w.owner.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM payment_events) + (SELECT count(*) FROM ledger_entries)
		+ (SELECT count(*) FROM outbox_events) + (SELECT count(*) FROM audit_logs),
		(SELECT coalesce(sum(balance_minor), 0)::bigint FROM ledger_balances WHERE account = 'tenant')`).
		Scan(&rows, &balance); err != nil {
		t.Fatal(err)
	}
	return rows, balance
}

func TestPaymentsAndRefundsAreBookedOnce(t *testing.T) {
	w := newWorld(t)
	first := paid("evt_1", "pi_1", w.org.String(), 5000, "usd")
	w.took(t, first, payment.Booked)
	w.took(t, first, payment.Already)
	w.took(t, paid("evt_2", "pi_1", w.org.String(), 5000, "usd"), payment.Already) // another event of the same payment
	w.took(t, `{"id": "evt_3", "type": "customer.created", "data": {"object": {}}}`, payment.Ignored)
	w.took(t, refunded("evt_4", "re_1", "pi_1", 2000), payment.Booked)
	w.took(t, refunded("evt_5", "re_1", "pi_1", 2000), payment.Already)
	w.event(t, refunded("evt_6", "re_2", "pi_1", 3001)).Wants(t, http.StatusConflict, "refund_too_large")
	w.event(t, refunded("evt_7", "re_3", "pi_9", 1)).Wants(t, http.StatusConflict, "payment_unknown")
	w.took(t, refunded("evt_8", "re_4", "pi_1", 3000), payment.Booked)
	var events int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events
		WHERE event_type = 'payments.balance_credited'`).Scan(&events); err != nil || events != 1 {
		t.Errorf("%d events, %v", events, err)
	}
	if _, balance := w.written(t); balance != 0 {
		t.Errorf("the balance is %d", balance)
	}
	// Many at once, as providers do.
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			w.event(t, paid(fmt.Sprintf("evt_x%d", i), "pi_2", w.org.String(), 700, "usd")).Wants(t, http.StatusOK, "")
		})
	}
	wait.Wait()
	if _, balance := w.written(t); balance != 700 {
		t.Errorf("the balance is %d", balance)
	}
}

// What is refused says why, and writes nothing.
func TestEventsThatAreRefusedWriteNothing(t *testing.T) {
	w := newWorld(t)
	before, _ := w.written(t)
	tenant := w.org.String()
	for _, c := range []struct {
		body   string
		status int
		code   string
	}{
		{paid("e", "p", tenant, 5000, "eur"), http.StatusConflict, "currency_mismatch"},
		{
			strings.Replace(paid("e", "p", tenant, 5000, "usd"), "true", "false", 1), http.StatusUnprocessableEntity,
			"payment_test_mode",
		},
		{
			strings.Replace(paid("e", "p", tenant, 5000, "usd"), `"livemode": true, `, "", 1), http.StatusUnprocessableEntity,
			"payment_test_mode",
		},
		{paid("e", "p", "acme", 5000, "usd"), http.StatusUnprocessableEntity, "payment_tenant_missing"},
		{paid("e", "p", id.New[id.Org]().String(), 5000, "usd"), http.StatusNotFound, "payment_tenant_unknown"},
		{paid("e", "p", tenant, -5, "usd"), http.StatusUnprocessableEntity, "payment_amount_out_of_bounds"},
		{paid("e", "p", tenant, 0, "usd"), http.StatusUnprocessableEntity, "payment_amount_out_of_bounds"},
		{paid("e", "p", tenant, int64(math.MaxInt64), "usd"), http.StatusUnprocessableEntity, "payment_amount_out_of_bounds"},
		{
			paid("e", "p", tenant, "99999999999999999999999", "usd"), http.StatusUnprocessableEntity,
			"payment_amount_out_of_bounds",
		},
		{paid("e", "p", tenant, "1e3", "usd"), http.StatusUnprocessableEntity, "payment_amount_out_of_bounds"},
		{paid("", "p", tenant, 1, "usd"), http.StatusUnprocessableEntity, "payment_event_malformed"},
		{paid("e", strings.Repeat("p", 151), tenant, 1, "usd"), http.StatusUnprocessableEntity, "payment_event_malformed"},
		{`[]`, http.StatusUnprocessableEntity, "payment_event_malformed"},
		{`{"id": 1`, http.StatusUnprocessableEntity, "payment_event_malformed"},
		{`{"x": "` + strings.Repeat("a", 256<<10) + `"}`, http.StatusUnprocessableEntity, "payment_event_too_large"},
	} {
		w.event(t, c.body).Wants(t, c.status, c.code)
	}
	if after, balance := w.written(t); after != before || balance != 0 {
		t.Errorf("%d rows more, the balance is %d", after-before, balance)
	}
}

func TestAttackAForgedOrReplayedPaymentIsNotBooked(t *testing.T) {
	w := newWorld(t)
	body := paid("evt_1", "pi_1", w.org.String(), 5000, "usd")
	good := w.sign(body, secret)
	before, _ := w.written(t)
	at := strconv.FormatInt(w.now.Unix(), 10)
	for what, signature := range map[string]string{
		"none": "", "junk": "hello", "no time": strings.TrimPrefix(good, "t="+at+","), "no signature": "t=" + at,
		"another secret": w.sign(body, "whsec_another_secret!"), "an empty secret": w.sign(body, ""),
		"another body": w.sign(body+" ", secret), "another time": strings.Replace(good, "t="+at, "t="+at+"0", 1),
		"two times": good + ",t=" + at, "cut short": good[:len(good)-40],
		"a time with a sign": strings.Replace(good, "t=", "t=+", 1),
	} {
		if a := w.send(t, signature, body); a.Status != http.StatusUnprocessableEntity ||
			a.Problem(t).Code != "payment_signature_invalid" {
			t.Errorf("%s: %d %s", what, a.Status, a.Body)
		}
	}
	// Junk is not read before its signature is right.
	w.send(t, good, `{"id": `).Wants(t, http.StatusUnprocessableEntity, "payment_signature_invalid")
	for _, off := range []time.Duration{6 * time.Minute, -6 * time.Minute} {
		w.now = w.now.Add(off)
		w.send(t, good, body).Wants(t, http.StatusUnprocessableEntity, "payment_signature_expired")
		w.now = w.now.Add(-off)
	}
	if after, balance := w.written(t); after != before || balance != 0 {
		t.Errorf("%d rows more, the balance is %d", after-before, balance)
	}
	// Strangers do not make the secrets engine work.
	w.safe.mu.Lock()
	asked := w.safe.asked
	w.safe.mu.Unlock()
	if asked > 3 {
		t.Errorf("the secrets engine was asked %d times", asked)
	}
	w.send(t, good, body).Wants(t, http.StatusOK, "")
	// A secret is changed without losing events: the one before is accepted, that before it is not.
	w.setSecret(t, "whsec_fedcba9876543210")
	w.took(t, paid("evt_2", "pi_2", w.org.String(), 1, "usd"), payment.Booked)
	w.now = w.now.Add(25 * time.Hour) // for a day
	w.event(t, paid("evt_3", "pi_3", w.org.String(), 1, "usd")).Wants(t, http.StatusUnprocessableEntity,
		"payment_signature_invalid")
	w.setSecret(t, secret)
	w.setSecret(t, "whsec_fedcba9876543210")
	w.setSecret(t, "whsec_fedcba9876543210") // once more: the one before has leaked
	w.event(t, paid("evt_3", "pi_3", w.org.String(), 1, "usd")).Wants(t, http.StatusUnprocessableEntity,
		"payment_signature_invalid")
	w.setSecret(t, "whsec_aaaaaaaaaaaaaaaa")
	w.event(t, paid("evt_3", "pi_3", w.org.String(), 1, "usd")).Wants(t, http.StatusUnprocessableEntity,
		"payment_signature_invalid")
	var found int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs a WHERE to_jsonb(a)::text LIKE '%whsec%'`).
		Scan(&found); err != nil || found != 0 {
		t.Errorf("the secret is in %d rows, %v", found, err)
	}
}

// What is not ours is no failure, or the provider would stop sending.
func TestWhatIsNotOursIsIgnored(t *testing.T) {
	w := newWorld(t)
	before, _ := w.written(t)
	w.took(t, paid("e1", "p1", "", 5000, "usd"), payment.Ignored)
	connected := strings.Replace(paid("e2", "p2", w.org.String(), 5000, "usd"), `"livemode"`, `"account": "acct_1", "livemode"`, 1)
	w.took(t, connected, payment.Ignored)
	if after, balance := w.written(t); after != before || balance != 0 {
		t.Errorf("%d rows more, the balance is %d", after-before, balance)
	}
}

// A payment that was corrected has left the tenant: its refund takes nothing once more.
func TestARefundOfACorrectedPaymentTakesNothing(t *testing.T) {
	w := newWorld(t)
	w.took(t, paid("e1", "p1", w.org.String(), 5000, "usd"), payment.Booked)
	var entry id.LedgerEntry
	if err := w.owner.QueryRow(t.Context(), `SELECT entry_id FROM payment_events`).Scan(&entry); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.New(w.db).Correct(t.Context(), w.org, entry, "came for another tenant"); err != nil {
		t.Fatal(err)
	}
	w.took(t, refunded("e2", "r1", "p1", 5000), payment.Ignored)
	if _, balance := w.written(t); balance != 0 {
		t.Errorf("the balance is %d", balance)
	}
}
