package artifact

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/operate/artifact/internal/artifactdb"
	"gpuaas/controlplane/internal/operate/policy"
)

// Grant is what lets a node read one artifact for a short time.
type Grant struct {
	Values    map[string]redact.Secret
	ExpiresAt time.Time
}

const (
	// signedFor is how long an address that we sign is good.
	signedFor = 15 * time.Minute
	// hubSays is how long addresses of the hub count as good: it does not say it, and keeps
	// them for about an hour.
	hubSays = 55 * time.Minute
)

// Grant makes what lets a node read an artifact, for a run of somebody. Source is as the
// step that fetches it names it. Only what is registered is read with a login, and only
// with that of whoever registered it: otherwise whoever may start a run could read with the
// logins of others whatever these reach.
func (s *Service) Grant(ctx context.Context, by policy.Owner, source, digest string) (Grant, error) {
	as := source
	if repository, _, oci := parts(strings.TrimPrefix(source, "https://")); oci {
		as = repository + "@" + digest
	}
	owners, err := artifactdb.New(s.db).OwnersOf(ctx, artifactdb.OwnersOfParams{
		Source: as, Digest: digest, OrgID: by.Org, ProjectID: by.Project,
	})
	if err != nil {
		return Grant{}, fmt.Errorf("read who registered an artifact: %w", err)
	}
	if len(owners) == 0 {
		return Grant{}, fault.New(fault.Invalid, "artifact_not_registered", "%s with the digest %s is not registered here, "+
			"and only what is registered is read with a login", as, digest).
			WithRemedy("register it where its artifact source is: gpuaas artifact register")
	}
	for _, o := range owners {
		of, found, err := s.sourceFor(ctx, Owner{o.OrgID, o.ProjectID}, as)
		if err != nil {
			return Grant{}, err
		}
		if found {
			return s.grant(ctx, of, as, digest)
		}
	}
	return Grant{}, fault.New(fault.Invalid, "artifact_source_missing", "no artifact source of whoever registered %s "+
		"reaches it", as).WithRemedy("add one: gpuaas artifact source add; one that is of the tenant, and shared, serves its projects too")
}

func (s *Service) grant(ctx context.Context, of Source, what, digest string) (Grant, error) {
	login, err := s.login(ctx, of)
	if err != nil {
		return Grant{}, err
	}
	switch of.Kind {
	case SourceRegistry:
		repository, _, _ := parts(what)
		token, expires, err := s.registries(login).Token(ctx, repository, digest)
		return Grant{map[string]redact.Secret{agentwire.ValueToken: token}, expires}, err
	case SourceS3, SourceGCS:
		now := s.clock()
		signed, err := s.objects.Sign(ctx, what, of.Region, login, now, signedFor)
		return Grant{map[string]redact.Secret{agentwire.ValueURL: signed}, now.Add(signedFor)}, err
	case SourceHuggingFace:
		found, err := s.objects.Resolve(ctx, what, digest, login.Password)
		return Grant{map[string]redact.Secret{agentwire.ValueURL: found}, s.clock().Add(hubSays)}, err
	}
	return Grant{}, fmt.Errorf("artifact source %s is of the unknown kind %s", of.ID, of.Kind)
}
