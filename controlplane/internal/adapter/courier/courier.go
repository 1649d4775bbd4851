// Package courier posts messages to addresses that tenants choose. It must not
// become their way into networks that only the control plane reaches: it resolves a
// name itself, checks every address, dials the checked address and follows no
// redirect.
package courier

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/base/fault"
)

// Codes of refusals.
const (
	CodeURLInvalid     = "webhook_url_invalid"
	CodeAddressRefused = "webhook_address_refused"
	CodeUnreachable    = "webhook_unreachable"
)

const (
	// MaxAnswer is how much of an answer is read.
	MaxAnswer = 1024
	maxURL    = 2000
	patience  = 15 * time.Second
)

// Config is what a courier may do besides the ordinary.
type Config struct {
	// Allowed are networks that may be called although they are not public.
	Allowed []netip.Prefix
	// Forbidden are networks that are never called, public and allowed ones among them.
	Forbidden []netip.Prefix
	// ForbiddenHosts are names that are never called, with all names below them.
	ForbiddenHosts []string
	// PlainHTTP allows addresses without TLS.
	PlainHTTP bool
	// Roots are the CAs that receivers are verified with; nil: those of the system.
	Roots *x509.CertPool
}

// Courier posts messages. Any number of calls may run side by side.
type Courier struct {
	guard  *guard.Guard
	plain  bool
	client *http.Client
}

// New makes a courier. It connects to nothing.
func New(cfg Config) *Courier {
	c := &Courier{
		guard: guard.New(guard.Config{Allowed: cfg.Allowed, Forbidden: cfg.Forbidden, ForbiddenHosts: cfg.ForbiddenHosts}),
		plain: cfg.PlainHTTP,
	}
	c.client = &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{ // no proxy of the environment: it would connect where nobody checks
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return c.guard.Dial(ctx, network, address)
			},
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
			TLSHandshakeTimeout: 5 * time.Second, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
		},
	}
	return c
}

// Check refuses an address that can never be posted to. What a name resolves to is
// checked at each posting.
func (c *Courier) Check(raw string) error {
	refuse := func(why string) error { // the URL may hold a secret, so no error quotes it
		return fault.New(fault.Invalid, CodeURLInvalid, "the URL of the webhook %s", why).
			WithRemedy("use the form https://host.example/path").
			WithFields(fault.Field{Path: "body.url", Message: why})
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return refuse("cannot be parsed")
	case len(raw) > maxURL:
		return refuse("is longer than " + strconv.Itoa(maxURL) + " characters")
	case u.Scheme != "https" && u.Scheme != "http":
		return refuse("must begin with https://")
	case u.Scheme == "http" && !c.plain:
		return refuse("must begin with https://: whoever runs the platform has not allowed http")
	case u.User != nil:
		return refuse("must not hold a user or password")
	case u.Fragment != "":
		return refuse("must not hold a fragment")
	case u.Hostname() == "" || strings.ContainsAny(u.Host, " \t"):
		return refuse("names no host")
	}
	if !c.guard.MayName(u.Hostname()) {
		return refused()
	}
	return nil
}

func refused() error {
	return fault.New(fault.Invalid, CodeAddressRefused, "the webhook leads to a network that webhooks may not call").
		WithRemedy("use an address on the public internet; whoever runs the platform can allow a network with the setting " +
			"webhooks.allowed_networks").
		WithFields(fault.Field{Path: "body.url", Message: "leads to a network that may not be called"})
}

// Post sends a message and returns the status of the answer and how it begins. The
// error says why there is no answer.
func (c *Courier) Post(ctx context.Context, to string, header map[string]string, body []byte) (status int,
	begins string, _ error,
) {
	if err := c.Check(to); err != nil {
		return 0, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("make request: %w", err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, "", unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }() // what was read of it is what counts
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer))
	if err != nil {
		text = nil // the status has arrived, and that decides
	}
	return resp.StatusCode, strings.ToValidUTF8(strings.ReplaceAll(string(text), "\x00", ""), "\uFFFD"), nil
}

// unreachable says what happened without the URL, which may hold a secret.
func unreachable(err error) error {
	if errors.Is(err, guard.ErrRefused) {
		return refused()
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		if wrapped.Timeout() {
			return fault.New(fault.Unavailable, CodeUnreachable, "the receiver did not answer within %s", patience)
		}
		err = wrapped.Err
	}
	if unknown := (*net.DNSError)(nil); errors.As(err, &unknown) { // its text names our own name server
		return fault.New(fault.Unavailable, CodeUnreachable, "the name of the receiver cannot be resolved")
	}
	return fault.New(fault.Unavailable, CodeUnreachable, "the receiver cannot be reached: %v", err)
}
