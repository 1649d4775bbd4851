package httpapi

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// The cookies by which a browser is recognised. The prefix of the one for TLS
// forbids every other host to set it, and the browser never sends it in the
// clear.
const (
	sessionCookie       = "gpuaas_session"
	secureSessionCookie = "__Host-gpuaas_session"
)

// cookieName keeps control planes apart that run on one host: a browser sends
// the same cookies to all ports of a host.
func (x *exchange) cookieName() string {
	switch {
	case x.secure:
		return secureSessionCookie
	case x.port != "":
		return sessionCookie + "_" + x.port
	}
	return sessionCookie
}

// portOf returns the port that the browser named. It is empty for the default
// port.
func portOf(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return ""
	}
	return port
}

// cookie returns a Set-Cookie header. Without a value it makes the browser
// forget the cookie.
func (x *exchange) cookie(value string, expires time.Time) string {
	c := http.Cookie{ //nolint:gosec // without TLS there can be nothing secure: a browser would not keep it
		Name: x.cookieName(), Value: value, Expires: expires,
		Path: "/", Secure: x.secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c.String()
}

// NewSession returns the Set-Cookie header that lets a browser come back with a
// token. No script can read the cookie, and no other site can use it.
func NewSession(ctx context.Context, token redact.Secret, expires time.Time) string {
	return exchangeFrom(ctx).cookie(token.Reveal(), expires.UTC())
}

// EndSession returns the Set-Cookie header that makes a browser forget its
// session. It is empty if the request came without one.
func EndSession(ctx context.Context) string {
	x := exchangeFrom(ctx)
	if !x.session {
		return ""
	}
	return x.cookie("", time.Time{})
}

// endSession makes a browser forget a session that is over.
func endSession(w http.ResponseWriter, r *http.Request, err error) {
	if forget := EndSession(r.Context()); forget != "" && fault.KindOf(err) == fault.Unauthenticated {
		w.Header().Set("Set-Cookie", forget)
	}
}

// cameByTLS reports whether the browser's end of the connection is encrypted:
// our own connection is, or a trusted proxy says that its connection is.
func (a *API) cameByTLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	hops := strings.Split(r.Header.Get("X-Forwarded-Proto"), ",")
	return a.trusted(hostOf(r.RemoteAddr)) && strings.EqualFold(strings.TrimSpace(hops[0]), "https")
}

// sessionOf returns the token in the cookie of a request. It reads only the
// name that fits the connection: somebody may have planted the other one.
func sessionOf(r *http.Request) (redact.Secret, bool) {
	c, err := r.Cookie(exchangeFrom(r.Context()).cookieName())
	if err != nil || c.Value == "" {
		return redact.Secret{}, false
	}
	return redact.New(c.Value), true
}

// FormerSession returns the session that a browser has when it asks for a new
// one. It is empty if there is none, and for operations that open no session.
func FormerSession(ctx context.Context) redact.Secret { return exchangeFrom(ctx).former }

var origins = http.NewCrossOriginProtection()

// ownOrigin refuses requests that a page of another origin makes a browser send
// with the cookie of its user. A request that changes something must prove its
// origin: every browser sends it, and other programs should not use cookies.
func (a *API) ownOrigin(r *http.Request, op Operation) error {
	silent := r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == ""
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		if !op.Stream {
			return nil
		}
	default:
		if silent {
			return a.crossOrigin(r, op)
		}
	}
	asChange := r.WithContext(r.Context())
	asChange.Method = http.MethodPost // a stream lasts and can be overheard, so it is judged like a change
	if err := origins.Check(asChange); err != nil {
		return a.crossOrigin(r, op)
	}
	return nil
}

// mayOpenSession keeps pages of other origins from signing a browser in as
// somebody else. There is no cookie yet, so programs need not send an origin.
func (a *API) mayOpenSession(r *http.Request, op Operation) error {
	if !op.OpensSession {
		return nil
	}
	if origins.Check(r) != nil {
		return a.crossOrigin(r, op)
	}
	exchangeFrom(r.Context()).former, _ = sessionOf(r)
	return nil
}

func (a *API) crossOrigin(r *http.Request, op Operation) error {
	a.cfg.Logger.WarnContext(r.Context(), "request of another origin refused", "operation", op.ID)
	return fault.New(fault.Forbidden, "cross_origin_request",
		"the request comes from a page of another origin, or does not say where from").
		WithRemedy("use the console at its own address, or send a token in the header Authorization")
}
