package onboarding

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// Claims reads which machines are claimed by running onboardings. It is
// separate from Service, because Service depends on those who ask it.
type Claims struct{ DB *postgres.DB }

// ClaimedMachines returns the onboardings that have not ended, by the system
// ids of their machines, without one given onboarding.
func (c Claims) ClaimedMachines(ctx context.Context, at id.Site, except string) (map[string]string, error) {
	job, err := id.Parse[id.Onboarding](except)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "onboarding_id_malformed", "%q is not the id of an onboarding", except)
	}
	rows, err := onboardingdb.New(c.DB).ClaimedMachines(ctx, onboardingdb.ClaimedMachinesParams{SiteID: at, Asking: job})
	if err != nil {
		return nil, fmt.Errorf("look for machines of other onboardings: %w", err)
	}
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[r.MaasSystemID] = r.ID.String()
	}
	return out, nil
}
