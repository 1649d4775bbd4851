package identity

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// OIDCConfig says how people sign in. Without an issuer nobody can sign in, and
// only tokens work.
type OIDCConfig struct {
	Issuer       string
	ClientID     string
	ClientSecret redact.Secret // empty for a public client, which only PKCE protects
	// RedirectURIs are accepted exactly as written. Loopback addresses are
	// accepted as well.
	RedirectURIs []string
	// AllowUnknownUsers admits people who were not invited. They hold no role
	// until somebody gives them one.
	AllowUnknownUsers bool
	// SessionTTL is how long a sign-in lasts, also that of a browser with a
	// token.
	SessionTTL time.Duration // 0: 12 hours
	Scopes     []string      // nil: openid, email, profile
}

const defaultSessionTTL = 12 * time.Hour

// Enabled reports whether people can sign in.
func (c OIDCConfig) Enabled() bool { return c.Issuer != "" }

func (c OIDCConfig) withDefaults() OIDCConfig {
	if c.SessionTTL == 0 {
		c.SessionTTL = defaultSessionTTL
	}
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"openid", "email", "profile"}
	}
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c OIDCConfig) Validate() []error {
	var errs []error
	if c.SessionTTL != 0 && (c.SessionTTL < MinTokenLife || c.SessionTTL > MaxTokenLife) {
		errs = append(errs, fmt.Errorf("oidc.session_ttl must be between %s and %s", MinTokenLife, MaxTokenLife))
	}
	if !c.Enabled() {
		if c.ClientID != "" || !c.ClientSecret.IsZero() {
			errs = append(errs, errors.New("oidc.issuer is missing although a client is configured"))
		}
		return errs
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.Host == "" || u.Scheme != "https" &&
		(u.Scheme != "http" || !isLoopback(u)) {
		errs = append(errs, errors.New("oidc.issuer must be an https URL (http only on a loopback address)"))
	}
	if c.ClientID == "" {
		errs = append(errs, errors.New("oidc.client_id is missing"))
	}
	for _, uri := range c.RedirectURIs {
		if u, err := url.Parse(uri); err != nil || !u.IsAbs() || u.Host == "" || u.Fragment != "" {
			errs = append(errs, fmt.Errorf("oidc.redirect_uris: %q is not an absolute URL without fragment", uri))
		}
	}
	if len(c.Scopes) > 0 && !slices.Contains(c.Scopes, "openid") {
		errs = append(errs, errors.New("oidc.scopes must include openid"))
	}
	return errs
}

// checkRedirect keeps codes from being sent to strangers. It accepts a program
// on the caller's own machine at any port (RFC 8252), or exactly what is
// configured.
func (c OIDCConfig) checkRedirect(uri string) error {
	if slices.Contains(c.RedirectURIs, uri) {
		return nil
	}
	u, err := url.Parse(uri)
	if err == nil && u.Scheme == "http" && isLoopback(u) && u.User == nil && u.Fragment == "" && u.Opaque == "" {
		return nil
	}
	return rejected([]fault.Field{{
		Path:    "body.redirect_uri",
		Message: "must be http://127.0.0.1:<port>/…, http://[::1]:<port>/… or one of the configured addresses",
	}})
}

// isLoopback accepts addresses only: the name localhost can be made to point
// elsewhere.
func isLoopback(u *url.URL) bool { return u.Hostname() == "127.0.0.1" || u.Hostname() == "::1" }
