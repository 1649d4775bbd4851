package site

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
)

// Credential is what may be known of a secret: that there is one, since when,
// and whether it is the same as another.
type Credential struct {
	Fingerprint string
	RotatedAt   *time.Time
}

// Present reports whether there is a secret at all.
func (c Credential) Present() bool { return c.Fingerprint != "" }

// PowerCredentials are what a BMC lets in.
type PowerCredentials struct {
	User string
	Pass redact.Secret
	PowerParameters
}

// Credentials are secrets to be written; what is absent stays.
type Credentials struct {
	APIToken       redact.Secret
	Power          *PowerCredentials
	DeployPassword redact.Secret
}

// The fields of secrets, as they are in the secrets engine.
const (
	fieldToken = "token"
	fieldURL   = "api_base_url" // what the token was checked against, and the only address it is sent to
	fieldUser  = "user"
	fieldPass  = "pass"
)

// SecretsPrefix begins the paths of all secrets of sites.
const SecretsPrefix = "maas-sites/"

func tokenPath(site id.Site) string { return SecretsPrefix + site.String() + "/api-token" }
func powerPath(site id.Site) string { return SecretsPrefix + site.String() + "/power/default" }
func deployPasswordPath(site id.Site) string {
	return SecretsPrefix + site.String() + "/deploy-password"
}

// IsOverridePath says whether a path holds BMC credentials of one machine.
func IsOverridePath(path string) bool {
	return strings.HasPrefix(path, SecretsPrefix) && strings.Contains(path, "/power/overrides/")
}

func overridePath(site id.Site, override id.PowerOverride) string {
	return SecretsPrefix + site.String() + "/power/overrides/" + override.String()
}

// fingerprintRounds is how often a secret is hashed for its fingerprint.
const fingerprintRounds = 200_000

// fingerprint tells secrets of one site apart and says nothing else of them. It
// is slow on purpose: BMC passwords are short, and whoever reads the database
// must not be able to try them all.
func (s *Service) fingerprint(salt []byte, parts ...string) string {
	sum, err := pbkdf2.Key(sha256.New, strings.Join(parts, "\x00"), salt, s.rounds, 6)
	if err != nil {
		panic("site: make fingerprint: " + err.Error()) // only for lengths that are never asked for
	}
	return hex.EncodeToString(sum)
}

func (c Credentials) check() error {
	var p problems
	if c.APIToken.IsZero() && c.Power == nil && c.DeployPassword.IsZero() {
		p.add("body", "must hold at least one of api_token, power and deploy_password")
	}
	if !c.APIToken.IsZero() && strings.Count(strings.TrimSpace(c.APIToken.Reveal()), ":") != 2 {
		p.add("body.api_token", "must be of the form consumer:token:secret, as MAAS shows it")
	}
	if c.Power != nil {
		c.Power.check(&p, "body.power.")
	}
	if !c.DeployPassword.IsZero() {
		p.note("body.deploy_password", readable(c.DeployPassword.Reveal(), 256))
	}
	return p.rejected()
}

func (c PowerCredentials) check(p *problems, at string) {
	if c.User == "" {
		p.add(at+"user", "must not be empty")
	}
	p.note(at+"user", readable(c.User, 64))
	if c.Pass.IsZero() {
		p.add(at+"pass", "must not be empty")
	}
	p.note(at+"pass", readable(c.Pass.Reveal(), 256))
	c.PowerParameters.check(p, at)
}

func (c PowerCredentials) fields() map[string]redact.Secret {
	out := map[string]redact.Secret{fieldUser: redact.New(c.User), fieldPass: c.Pass}
	if c.PowerType != "" {
		out[fieldPowerType] = redact.New(c.PowerType)
	}
	for name, value := range c.Extra() {
		out[name] = redact.New(value)
	}
	return out
}

// uncheckable turns what MAAS did during the check of a credential into the
// refusal of that credential: the request is at fault, not the service.
func uncheckable(err error) error {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Unavailable, "maas_unreachable", "MAAS did not answer in time").
			WithRemedy("check the site's URL and that MAAS is running")
	}
	return fault.Wrap(err, fault.Invalid, f.Code, "%s; nothing was written", f.Message).WithRemedy("%s", f.Remedy).
		WithFields(fault.Field{Path: "body.api_token", Message: f.Message})
}

func noCredential(site Site, what, flag string) error {
	return fault.New(fault.Conflict, "site_credentials_missing", "the site %s has no %s", site.Name, what).
		WithRemedy("write it: gpuaas site credentials set %s %s", site.Name, flag)
}
