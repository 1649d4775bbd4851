package payment

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/payment/internal/paymentdb"
)

// SecretsPrefix is where the secrets engine keeps signing secrets.
const SecretsPrefix = "payments/"

const (
	keySecret   = "secret"
	keyPrevious = "previous"
	keyUntil    = "previous_until"
	// remembered is how long a secret is remembered, so that strangers do not make the
	// secrets engine work.
	remembered = time.Minute
)

// Secrets keeps signing secrets; the secrets engine does.
type Secrets interface {
	Put(ctx context.Context, path string, values map[string]redact.Secret) error
	Get(ctx context.Context, path string) (map[string]redact.Secret, error)
}

// Service holds the commands of the package.
type Service struct {
	db      *postgres.DB
	secrets Secrets
	now     func() time.Time

	mu    sync.Mutex
	known map[Provider]known
}

type known struct {
	secrets []redact.Secret
	until   time.Time
}

// New makes the service. It connects to nothing. A nil clock is that of the process.
func New(db *postgres.DB, secrets Secrets, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{db: db, secrets: secrets, now: now, known: map[Provider]known{}}
}

// overlap is how long the secret before is accepted after another one was set.
const overlap = 24 * time.Hour

// SetSecret sets the secret that a provider signs with. The one before is accepted for a
// day, so that it can be changed without losing events. Who sets the same one again ends
// that at once, for a secret that leaked.
func (s *Service) SetSecret(ctx context.Context, of Provider, secret redact.Secret) error {
	if n := len(secret.Reveal()); n < 16 || n > 200 {
		return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fault.Field{Path: "body.secret", Message: "must be 16 to 200 characters long"})
	}
	values := map[string]redact.Secret{keySecret: secret}
	kept, err := s.secrets.Get(ctx, SecretsPrefix+string(of))
	switch {
	case err == nil && subtle.ConstantTimeCompare([]byte(kept[keySecret].Reveal()), []byte(secret.Reveal())) == 0:
		values[keyPrevious], values[keyUntil] = kept[keySecret], redact.New(s.now().Add(overlap).UTC().Format(time.RFC3339))
	case err == nil:
	case fault.KindOf(err) != fault.NotFound:
		return err
	}
	if err := s.secrets.Put(ctx, SecretsPrefix+string(of), values); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.known, of)
	s.mu.Unlock()
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			Action: "payment.set_secret", TargetKind: "payment_provider", TargetID: string(of), Result: audit.Success,
		})
	})
}

// signers are the secrets that a provider may have signed with.
func (s *Service) signers(ctx context.Context, of Provider) ([]redact.Secret, error) {
	now := s.now()
	s.mu.Lock()
	k, there := s.known[of]
	s.mu.Unlock()
	if !there || now.After(k.until) {
		kept, err := s.secrets.Get(ctx, SecretsPrefix+string(of))
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		k = known{until: now.Add(remembered)}
		if err == nil {
			k.secrets = []redact.Secret{kept[keySecret]}
			until, err := time.Parse(time.RFC3339, kept[keyUntil].Reveal())
			if err == nil && now.Before(until) {
				k.secrets = append(k.secrets, kept[keyPrevious])
			}
		}
		s.mu.Lock()
		s.known[of] = k
		s.mu.Unlock()
	}
	if len(k.secrets) == 0 {
		return nil, notSet(of)
	}
	return k.secrets, nil
}

// Outcome is what became of an event.
type Outcome string

// What becomes of events that are accepted.
const (
	Booked  Outcome = "booked"
	Already Outcome = "already_booked"
	Ignored Outcome = "ignored"
)

var outcomes = []Outcome{Booked, Already, Ignored}

// Take takes an event in: signature first, then what it says.
func (s *Service) Take(ctx context.Context, of Provider, signature string, body []byte) (Outcome, error) {
	if len(body) > mostBody {
		return "", fault.New(fault.Invalid, "payment_event_too_large", "the event is larger than %d bytes", mostBody).
			WithRemedy("have the provider send events of payments and refunds only")
	}
	secrets, err := s.signers(ctx, of)
	if err != nil {
		return "", err
	}
	if err := adapters[of].Verify(s.now(), signature, body, secrets); err != nil {
		return "", err
	}
	n, concerns, err := adapters[of].Read(body) // not before: strangers give nothing to read
	if err != nil || !concerns {
		return Ignored, err
	}
	ctx = auth.With(ctx, auth.System("payments"))
	out := Booked
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := paymentdb.New(tx)
		if err := q.LockPayment(ctx, string(of)+" "+n.Payment); err != nil {
			return fmt.Errorf("lock payment: %w", err)
		}
		told, err := q.Told(ctx, paymentdb.ToldParams{
			Provider: string(of), EventID: n.Event, Kind: string(n.Kind), ObjectID: n.Object,
		})
		if err != nil {
			return fmt.Errorf("look for event: %w", err)
		}
		if told {
			out = Already
			return nil
		}
		err = s.book(ctx, tx, q, of, n)
		if errors.Is(err, errReversed) {
			out, err = Ignored, nil
		}
		return err
	})
	return out, err
}

func (s *Service) book(ctx context.Context, tx pgx.Tx, q *paymentdb.Queries, of Provider, n Notice) error {
	org, err := payer(ctx, q, of, n)
	if err != nil {
		return err
	}
	a, err := account.Get(ctx, tx, org)
	if fault.KindOf(err) == fault.NotFound {
		return unknownTenant()
	}
	if err != nil {
		return err
	}
	if a.Currency != n.Currency {
		return fault.New(fault.Conflict, "currency_mismatch", "the tenant pays in %s, the %s is in %.3q", a.Currency, n.Kind,
			n.Currency).WithRemedy("give the money back at the provider, and ask for %s", a.Currency)
	}
	entry, err := ledger.Pay(ctx, tx, org, a.Currency, n.Minor, n.Kind == Refund, string(of)+" "+n.Object)
	if err != nil {
		return err
	}
	if err := q.Add(ctx, paymentdb.AddParams{
		Provider: string(of), EventID: n.Event, Kind: string(n.Kind), ObjectID: n.Object, PaymentID: n.Payment, OrgID: org,
		Currency: a.Currency, AmountMinor: n.Minor, EntryID: entry.ID,
	}); err != nil {
		return fmt.Errorf("note event: %w", err)
	}
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: "payment." + string(n.Kind), TargetKind: "ledger_entry", TargetID: entry.ID.String(), Org: org,
		Result: audit.Success, Metadata: map[string]any{
			"provider": string(of), "event": n.Event, "amount_minor": n.Minor, "currency": a.Currency,
		},
	}); err != nil {
		return err
	}
	if n.Kind == Refund {
		return nil
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.BalanceCredited, AggregateKind: "billing_account", AggregateID: org.String(), Org: org,
		Payload: eventwire.Credit{
			OrgID: org.String(), EntryID: entry.ID.String(), AmountMinor: n.Minor, Currency: a.Currency,
			Reference: string(of) + " " + n.Object,
		},
	})
}

var errReversed = errors.New("the payment was corrected")

// payer is the tenant whose money it is. A refund gives back at most what came.
func payer(ctx context.Context, q *paymentdb.Queries, of Provider, n Notice) (id.Org, error) {
	if n.Kind == Payment {
		org, err := id.Parse[id.Org](n.Tenant)
		if err != nil {
			return id.Org{}, fault.New(fault.Invalid, "payment_tenant_missing", "the payment names no tenant").
				WithRemedy("put the id of the tenant into the metadata %s of the payment", tenantKey)
		}
		return org, nil
	}
	p, err := q.Paid(ctx, paymentdb.PaidParams{Provider: string(of), ObjectID: n.Payment})
	if errors.Is(err, pgx.ErrNoRows) {
		return id.Org{}, fault.New(fault.Conflict, "payment_unknown", "the refund is of a payment that was never booked").
			WithRemedy("have the provider send the event of the payment first, then this one again")
	}
	if err != nil {
		return id.Org{}, fmt.Errorf("read payment: %w", err)
	}
	if p.Reversed { // it left the tenant already: booking the refund, too, would take it twice
		return id.Org{}, errReversed
	}
	if n.Minor > p.AmountMinor-p.RefundedMinor {
		return id.Org{}, fault.New(fault.Conflict, "refund_too_large",
			"the refund is larger than what is left of its payment").
			WithRemedy("look at the payment at the provider; nothing was booked")
	}
	return p.OrgID, nil
}

// List lists what came to a tenant through payment providers and went back, the newest
// first.
func (s *Service) List(ctx context.Context, org id.Org, page postgres.Slice[id.LedgerEntry]) ([]Booking, error) {
	if _, err := account.Get(ctx, s.db, org); err != nil {
		return nil, err
	}
	p := paymentdb.ListParams{OrgID: org, PageSize: page.Limit}
	if !page.After.IsZero() {
		p.Before = new(page.After.String())
	}
	rows, err := paymentdb.New(s.db).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	out := make([]Booking, len(rows))
	for i, r := range rows {
		out[i] = Booking{
			Provider: Provider(r.Provider), Kind: Kind(r.Kind), Object: r.ObjectID, Payment: r.PaymentID, Org: r.OrgID,
			Currency: r.Currency, Minor: r.AmountMinor, Entry: r.EntryID, At: r.ReceivedAt,
		}
	}
	return out, nil
}
