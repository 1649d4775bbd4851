package site

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// checkLimit bounds the check of a token: a caller waits for it.
const checkLimit = 15 * time.Second

// SetCredentials writes credentials of a site: a MAAS token only after MAAS has
// accepted it as one of an administrator. Nothing is written before all of
// them are known to be good.
func (s *Service) SetCredentials(ctx context.Context, site id.Site, given Credentials) (Site, error) {
	if err := given.check(); err != nil {
		return Site{}, err
	}
	given.APIToken = redact.New(strings.TrimSpace(given.APIToken.Reveal()))
	before, err := s.Site(ctx, site)
	if err != nil {
		return Site{}, err
	}
	if !given.APIToken.IsZero() {
		if err := s.checkToken(ctx, before, given.APIToken); err != nil {
			return Site{}, err
		}
	}
	noted, written, err := s.store(ctx, before, given)
	if err != nil {
		return Site{}, err
	}
	var after Site
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		now, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		if now.credentialsVersion != before.credentialsVersion || now.Settings.APIBaseURL != before.Settings.APIBaseURL {
			return raced()
		}
		row, err := c.SetCredentials(ctx, noted)
		if err != nil {
			return fmt.Errorf("note credentials: %w", err)
		}
		after = siteFrom(row)
		return c.recordWith(ctx, siteEntry("site.credentials_write", after, map[string]any{"credentials": written}),
			rotated(site, id.PowerOverride{}, s.now(), written...))
	})
	return after, err
}

func (s *Service) checkToken(ctx context.Context, site Site, token redact.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	access, err := accessTo(site, token)
	if err != nil {
		return err
	}
	region, err := s.regions.Open(access)
	if err != nil {
		return uncheckable(err)
	}
	defer region.Close()
	if _, err := region.Version(ctx); err != nil {
		return uncheckable(err)
	}
	user, err := region.User(ctx)
	if err != nil {
		return uncheckable(err)
	}
	if !user.Admin {
		return uncheckable(notAdmin(user.Name))
	}
	return nil
}

func notAdmin(user string) *fault.Error {
	return fault.New(fault.Forbidden, "maas_not_admin", "the API key belongs to %q, who is not an administrator of MAAS",
		user).
		WithRemedy("use an API key of a MAAS administrator")
}

// store puts credentials into the secrets engine and answers what to note of
// them. Each is good by itself, so that stopping half-way harms nothing.
func (s *Service) store(
	ctx context.Context, site Site, given Credentials,
) (sitedb.SetCredentialsParams, []string, error) {
	now := s.now().UTC()
	noted := sitedb.SetCredentialsParams{
		ID:                  site.ID,
		ApiTokenFingerprint: site.APIToken.Fingerprint, ApiTokenRotatedAt: site.APIToken.RotatedAt,
		PowerFingerprint: site.Power.Fingerprint, PowerRotatedAt: site.Power.RotatedAt,
		DeployPasswordFingerprint: site.Deploy.Fingerprint, DeployPasswordRotatedAt: site.Deploy.RotatedAt,
	}
	var written []string
	put := func(what, path string, values map[string]redact.Secret) error {
		if err := s.secrets.Put(ctx, path, values); err != nil {
			return err
		}
		written = append(written, what)
		return nil
	}
	if !given.APIToken.IsZero() {
		values := map[string]redact.Secret{fieldToken: given.APIToken, fieldURL: redact.New(site.Settings.APIBaseURL)}
		if err := put("api_token", tokenPath(site.ID), values); err != nil {
			return noted, nil, err
		}
		noted.ApiTokenFingerprint, noted.ApiTokenRotatedAt = s.fingerprint(site.salt, given.APIToken.Reveal()), &now
	}
	if given.Power != nil {
		if err := put("power", powerPath(site.ID), given.Power.fields()); err != nil {
			return noted, nil, err
		}
		noted.PowerFingerprint = s.fingerprint(site.salt, given.Power.parts()...)
		noted.PowerRotatedAt = &now
	}
	if !given.DeployPassword.IsZero() {
		if err := put("deploy_password", deployPasswordPath(site.ID),
			map[string]redact.Secret{fieldPass: given.DeployPassword}); err != nil {
			return noted, nil, err
		}
		noted.DeployPasswordFingerprint = s.fingerprint(site.salt, given.DeployPassword.Reveal())
		noted.DeployPasswordRotatedAt = &now
	}
	return noted, written, nil
}

// raced is the failure of credentials that somebody else wrote, too: which of
// them is in the engine cannot be told, so they must be written once more.
func raced() error {
	return fault.New(fault.Conflict, "site_credentials_raced",
		"the site or its credentials were changed at the same time by somebody else").
		WithRemedy("agree on the credentials and write them again")
}

func rotated(site id.Site, override id.PowerOverride, at time.Time, what ...string) outbox.Event {
	payload := eventwire.SiteCredentials{SiteID: site.String(), Credentials: what, RotatedAt: at.UTC()}
	if !override.IsZero() {
		payload.PowerOverrideID = override.String()
	}
	return outbox.Event{
		Type: eventwire.SiteCredentialsRotated, AggregateKind: "site", AggregateID: site.String(),
		Payload: payload,
	}
}

func accessTo(site Site, token redact.Secret) (Access, error) {
	a := Access{Site: site, Token: token, URL: site.Settings.APIBaseURL, CA: []byte(site.Settings.CACertificate)}
	for _, text := range site.Settings.AllowedNetworks {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return Access{}, fmt.Errorf("read allowed network of site %s: %w", site.ID, err)
		}
		a.AllowedNetworks = append(a.AllowedNetworks, prefix)
	}
	return a, nil
}

// Access reads what is needed to call the region of a site, the token
// included. Ask for it at every use: then a new token needs no restart.
func (s *Service) Access(ctx context.Context, site id.Site) (Access, error) {
	found, err := s.Site(ctx, site)
	if err != nil {
		return Access{}, err
	}
	token, err := s.token(ctx, found)
	if err != nil {
		return Access{}, err
	}
	return accessTo(found, token)
}

func (s *Service) token(ctx context.Context, site Site) (redact.Secret, error) {
	values, err := s.secret(ctx, site, tokenPath(site.ID), "MAAS token", "--maas-token-file FILE")
	if err != nil {
		return redact.Secret{}, err
	}
	if values[fieldURL].Reveal() != site.Settings.APIBaseURL {
		return redact.Secret{}, fault.New(fault.Conflict, "site_token_of_other_url",
			"the MAAS token of site %s was given for another URL and is not sent to this one", site.Name).
			WithRemedy("write the token again: gpuaas site credentials set %s --maas-token-file FILE", site.Name)
	}
	return values[fieldToken], nil
}

// DeployPassword reads the password that all machines of the site were reached by
// before each had a login of its own. It is for those of that form alone.
func (s *Service) DeployPassword(ctx context.Context, site id.Site) (redact.Secret, error) {
	found, err := s.Site(ctx, site)
	if err != nil {
		return redact.Secret{}, err
	}
	values, err := s.secret(ctx, found, deployPasswordPath(site), "deploy password", "--deploy-password-file FILE")
	return values[fieldPass], err
}

// PowerFor chooses and reads the BMC credentials of a machine. Record the
// choice with the work, never the credentials.
func (s *Service) PowerFor(ctx context.Context, site id.Site, m Machine) (PowerCredentials, Choice, error) {
	found, choice, err := s.choosePower(ctx, site, m)
	if err != nil {
		return PowerCredentials{}, Choice{}, err
	}
	path := powerPath(site)
	if !choice.Override.IsZero() {
		path = overridePath(site, choice.Override)
	}
	values, err := s.secret(ctx, found, path, "BMC credentials", "--power-file FILE")
	return powerFrom(values), choice, err
}

func (s *Service) secret(ctx context.Context, site Site, path, what, flag string) (map[string]redact.Secret, error) {
	values, err := s.secrets.Get(ctx, path)
	if fault.KindOf(err) == fault.NotFound && err != nil {
		return nil, noCredential(site, what, flag)
	}
	if err != nil {
		return nil, err
	}
	return values, nil
}
