package payment

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
)

// Provider names a payment provider.
type Provider string

// Stripe is the one that there is.
const Stripe Provider = "stripe"

var (
	providers = []Provider{Stripe}
	kinds     = []Kind{Payment, Refund}
)

// Adapter is what a payment provider needs to be taken in. Both methods are pure.
type Adapter interface {
	// Verify checks the signature of a body as it came, by one of the secrets, in constant
	// time. It reads nothing of the body. It refuses signatures made longer ago than the
	// tolerance, or later than that.
	Verify(now time.Time, signature string, body []byte, secrets []redact.Secret) error
	// Read says what an event is about; it is called after Verify only. False: it is about
	// nothing that is booked.
	Read(body []byte) (Notice, bool, error)
}

var adapters = map[Provider]Adapter{Stripe: stripe{}}

// Kind is what happened to money.
type Kind string

// The kinds, as the ledger calls them.
const (
	Payment Kind = "payment"
	Refund  Kind = "refund"
)

// Notice is what an event tells.
type Notice struct {
	Event    string // its id at the provider
	Kind     Kind
	Object   string // id of the payment or the refund
	Payment  string // id of the payment
	Tenant   string // id of the tenant, of a payment
	Minor    int64
	Currency string
}

// Booking is a payment or a refund that was booked.
type Booking struct {
	Provider Provider
	Kind     Kind
	Object   string // id of the payment or the refund at the provider
	Payment  string // id of the payment there
	Org      id.Org
	Currency string
	Minor    int64
	Entry    id.LedgerEntry
	At       time.Time
}

// tolerance is how old a signature may be, and how far ahead a clock.
const tolerance = 5 * time.Minute

// mostBody is how long an event may be, in bytes.
const mostBody = 256 << 10

func badSignature(because string) error {
	return fault.New(fault.Invalid, "payment_signature_invalid",
		"the signature of the event is not accepted: %s", because).
		WithRemedy("check that the signing secret is that of this endpoint: gpuaas billing payment secret")
}

func staleSignature() error {
	return fault.New(fault.Invalid, "payment_signature_expired",
		"the signature of the event was not made within the last %s: it may be a replay", tolerance).
		WithRemedy("have the provider send the event again, and check the clocks")
}

func malformed(because string) error {
	return fault.New(fault.Invalid, "payment_event_malformed", "the event cannot be read: %s", because).
		WithRemedy("see which events and fields are read: docs/how-to/add-a-payment-provider.md")
}

func notSet(of Provider) error {
	return fault.New(fault.NotFound, "payment_provider_not_set_up", "no signing secret of %s is set", of).
		WithRemedy("an administrator sets it: gpuaas billing payment secret --provider %s --secret-file FILE", of)
}

func unknownTenant() error {
	return fault.New(fault.NotFound, "payment_tenant_unknown",
		"the payment names a tenant that does not exist or has no billing account").
		WithRemedy("give the money back at the provider, or open the account and have it send the event again")
}

func testMode() error {
	return fault.New(fault.Invalid, "payment_test_mode", "the event is of the provider's test mode: no money was paid").
		WithRemedy("let only an endpoint of the live mode send events here; nothing was booked")
}

func outOfBounds() error {
	return fault.New(fault.Invalid, "payment_amount_out_of_bounds",
		"the amount of the event is not 1 to 10^15 minor units").
		WithRemedy("look at the payment at the provider; nothing was booked")
}
