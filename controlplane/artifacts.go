package controlplane

import (
	"context"
	"slices"
	"time"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/adapter/objects"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/agentgateway"
	"gpuaas/controlplane/internal/operate/artifact"
	"gpuaas/controlplane/internal/operate/policy"
)

// newArtifacts puts together what reads artifacts, in registries and elsewhere.
func (p *parts) newArtifacts() {
	allowed, _ := networks(p.cfg.Registries.AllowedNetworks) // validated
	// What webhooks never reach, registries do not reach either: tenants name both.
	forbidden, _ := networks(slices.Concat(p.cfg.Registries.ForbiddenNetworks, p.cfg.Webhooks.ForbiddenNetworks))
	may := guard.Config{
		Allowed: allowed, Forbidden: forbidden,
		ForbiddenHosts: slices.Concat(p.cfg.Registries.ForbiddenHosts, p.cfg.Webhooks.ForbiddenHosts),
	}
	client := registry.New(registry.Config{
		Guard: may, PlainHTTP: p.cfg.Registries.PlainHTTP, SendTo: p.cfg.Registries.SendTo, Home: p.home(),
	})
	p.artifacts = artifact.New(artifact.Config{
		DB: p.db, Secrets: p.secrets, Objects: stores{objects.NewHub(may, nil)},
		Registries: func(l artifact.Login) artifact.Registry { return client.As(l.User, l.Password) },
	})
}

// stores are where files are that are no artifacts of registries.
type stores struct{ *objects.Hub }

// Sign implements artifact.Objects.
func (stores) Sign(ctx context.Context, address, region string, key artifact.Login, now time.Time, life time.Duration) (
	redact.Secret, error,
) {
	return objects.Sign(ctx, address, objects.Keys{ID: key.User, Secret: key.Password, Region: region}, now, life)
}

// reads gives a node what reads the artifact that a step of its task fetches.
type reads struct{ parts *parts }

// Mint implements agentgateway.Minter.
func (r reads) Mint(ctx context.Context, in agentgateway.Mint) (agentgateway.Minted, error) {
	owner, err := r.parts.operations.OwnerOfTask(ctx, in.Task)
	if err != nil {
		return agentgateway.Minted{}, err
	}
	source := in.Intent["source"]
	if repository := in.Intent["repository"]; repository != "" {
		source = "https://" + repository + "@" + in.Intent["digest"]
	}
	g, err := r.parts.artifacts.Grant(ctx, policy.Owner(owner), source, in.Intent["digest"])
	return agentgateway.Minted{Values: g.Values, ExpiresAt: g.ExpiresAt}, err
}
