package decommission

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
)

// look reads the situation of a node.
func (s *Service) look(ctx context.Context, of id.Node) (situation, error) {
	n, err := s.nodes.Node(ctx, of)
	if err != nil {
		return situation{}, err
	}
	out := situation{node: n, silence: silenceOf(n, s.now())}
	if out.vendor, err = s.vendorOf(ctx, of); err != nil {
		return out, err
	}
	if out.live, out.onboarding, err = owners(ctx, s.reads, of); err != nil {
		return out, err
	}
	if out.tenancy, err = s.allocations.Of(ctx, s.db, of); err != nil {
		return out, err
	}
	b, err := binding.OfNode(ctx, s.db, of)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return out, nil
	case err != nil:
		return out, err
	}
	out.binding = &b
	where, err := s.sites.Site(ctx, b.Site)
	if err != nil {
		return out, err
	}
	by, err := s.sites.Profile(ctx, b.Site, b.Profile)
	if err != nil {
		return out, err
	}
	out.site, out.profile = &where, &by
	prior, err := s.prior(ctx, of)
	out.disksMade = initializes(prior)
	return out, err
}

// lookFor reads the situation of a node for a request, which may name another
// profile than the node's own.
func (s *Service) lookFor(ctx context.Context, of id.Node, r Request) (situation, error) {
	now, err := s.look(ctx, of)
	if err != nil || r.ProfileID == nil || !now.managed() || *r.ProfileID == now.profile.ID {
		return now, err
	}
	by, err := s.sites.Profile(ctx, now.binding.Site, *r.ProfileID)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		now.misfit = fault.New(fault.Conflict, "profile_of_another_site", "the site %s of node %s has no profile %s",
			now.site.Name,
			now.node.Hostname, r.ProfileID).
			WithRemedy("name a profile of that site: gpuaas site profile list %s", now.site.Name)
		return now, nil
	case err != nil:
		return now, err
	}
	now.former, now.profile = now.profile, &by
	if now.misfit = site.RequireProfileEnabled(by); now.misfit == nil {
		now.misfit = cleansLess(*now.former, by, now.vendor)
	}
	return now, nil
}

// cleansLess refuses a profile that asks for less cleaning than the node's own:
// what tenants left was promised to be cleaned by that one.
func cleansLess(former, by site.Profile, vendor string) error {
	was, is := former.Policy, by.Policy
	weakest, setting := was.ScrubMethod(vendor)
	weaker, _ := is.ScrubMethod(vendor)
	less := is.MinimumErase.Less(was.MinimumErase) ||
		was.MinimumSanitization == site.LevelPurge && is.MinimumSanitization != site.LevelPurge ||
		is.ReleaseFallbackNoErase && !was.ReleaseFallbackNoErase ||
		was.GPUScrub == site.ScrubRequired && is.GPUScrub != site.ScrubRequired || !weakest.Allows(weaker)
	if !less {
		return nil
	}
	return fault.New(fault.Conflict, "profile_cleans_less",
		"the profile %s asks for less cleaning than %s, to which the node belongs", by.Name, former.Name).
		WithRemedy("give the profile at least the same minimum_erase, minimum_sanitization, gpu_scrub%s and release_fallback_no_erase",
			map[bool]string{true: ", " + setting}[setting != ""])
}

// again reads the situation once more, inside the transaction that relies on
// it. The rows it reads are locked until the transaction ends. The unique index
// decides whether another operation was faster.
func (s situation) again(ctx context.Context, tx pgx.Tx, allocations Allocations) (situation, error) {
	seen, err := node.Share(ctx, tx, s.node.ID)
	if err != nil {
		return s, err
	}
	if seen.Status != s.node.Status || seen.Generation != s.node.Generation {
		return s, fault.New(fault.Conflict, CodePlanStale, "node %s became %s meanwhile", seen.Hostname,
			seen.Status).WithRemedy("ask again")
	}
	s.node = seen
	if s.tenancy, err = allocations.Of(ctx, tx, s.node.ID); err != nil {
		return s, err
	}
	q := decommissiondb.New(tx)
	if _, s.onboarding, err = owners(ctx, q, s.node.ID); err != nil {
		return s, err
	}
	b, err := binding.OfNode(ctx, tx, s.node.ID)
	switch {
	case fault.KindOf(err) == fault.NotFound && !s.managed():
		return s, nil
	case fault.KindOf(err) == fault.NotFound:
		return s, stale()
	case err != nil:
		return s, err
	case !s.managed() || b.Site != s.binding.Site || b.Profile != s.binding.Profile || b.SystemID != s.binding.SystemID:
		return s, stale()
	}
	s.binding = &b
	v, err := q.ShareSite(ctx, decommissiondb.ShareSiteParams{SiteID: b.Site, ProfileID: s.profile.ID})
	if err != nil {
		return s, fmt.Errorf("look at site of node: %w", err)
	}
	if v.SiteVersion != s.site.Version || v.ProfileVersion != s.profile.Version {
		return s, stale()
	}
	return s, nil
}

// owners returns the operation and the onboarding that own a node.
func owners(ctx context.Context, q *decommissiondb.Queries, of id.Node) (live *Decommission, onboarding string,
	err error,
) {
	r, err := q.LiveOfNode(ctx, of)
	switch {
	case err == nil:
		d, err := fromRow(r)
		if err != nil {
			return nil, "", err
		}
		live = &d
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, "", fmt.Errorf("look for operations of node: %w", err)
	}
	o, err := q.OnboardingOfNode(ctx, of)
	switch {
	case err == nil:
		onboarding = o.ID.String()
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, "", fmt.Errorf("look for onboardings of node: %w", err)
	}
	return live, onboarding, nil
}
