package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oapi-codegen/runtime/types"

	"gpuaas/contract/apiclient"
)

// home returns the project that tenants of the cases rent for. The first case that
// asks has it made.
func (w *World) home(ctx context.Context) (types.UUID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.project != (types.UUID{}) {
		return w.project, nil
	}
	org, err := w.api.CreateTenantWithResponse(ctx, &apiclient.CreateTenantParams{},
		apiclient.IdentityNamingBody{Slug: "tenant", Name: "Tenant of the cases"})
	if _, err := apiclient.Read(org, err); err != nil {
		return types.UUID{}, fmt.Errorf("make a tenant: %w", err)
	}
	project, err := w.api.CreateProjectWithResponse(ctx, org.JSON.OrgId, &apiclient.CreateProjectParams{},
		apiclient.IdentityNamingBody{Slug: "cases", Name: "Cases"})
	if _, err := apiclient.Read(project, err); err != nil {
		return types.UUID{}, fmt.Errorf("make a project: %w", err)
	}
	w.project = project.JSON.ProjectId
	return w.project, nil
}

// rents asks for the node of the run as an allocation.
func (r *run) rents(ctx context.Context) (types.UUID, error) {
	project, err := r.world.home(ctx)
	if err != nil {
		return types.UUID{}, err
	}
	made, err := r.world.api.PlaceAllocationWithResponse(ctx, &apiclient.PlaceAllocationParams{},
		apiclient.AllocationAdminAskBody{ProjectId: project, Sku: sku, NodeId: &r.node})
	if _, err := apiclient.Read(made, err); err != nil {
		return types.UUID{}, fmt.Errorf("rent the node: %w", err)
	}
	return made.JSON.AllocationId, nil
}

// tenant lets somebody rent the node, and waits until they have an account on it.
func (r *run) tenant(ctx context.Context) error {
	of, err := r.rents(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		a, err := r.world.api.GetAllocationFlatWithResponse(ctx, of)
		if _, err := apiclient.Read(a, err); err != nil {
			return fmt.Errorf("read allocation: %w", err)
		}
		if a.JSON.Status == apiclient.AllocationViewStatusActive {
			r.guest = a.JSON.Username
			return nil
		}
		if a.JSON.Status == apiclient.AllocationViewStatusFailed {
			return fmt.Errorf("the tenant did not get the node: %s", text(a.JSON.FailureReason))
		}
		again := time.NewTimer(tenantLook)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("the tenant does not get the node: it is %s", a.JSON.Status)
		}
	}
}

// tenantLook is how long to wait between two looks at an allocation.
const tenantLook = 50 * time.Millisecond

// lockedOut lets a tenant try to come in while the node is worked on: by renting it,
// and by a terminal of the account that is there.
func (r *run) lockedOut(ctx context.Context) error {
	_, rented := r.rents(ctx)
	opened, err := r.world.api.CreateTerminalTokenWithResponse(ctx, r.node, &apiclient.CreateTerminalTokenParams{},
		apiclient.TerminalNewSession{Username: r.guest})
	_, terminal := apiclient.Read(opened, err)
	for code, err := range map[string]error{"sku_unavailable": rented, "node_held": terminal} {
		if err == nil {
			return errors.New("a tenant was let in while an operation holds the node")
		}
		if refusal := (*apiclient.Problem)(nil); !errors.As(err, &refusal) || refusal.Code != code {
			return fmt.Errorf("a tenant was refused otherwise than with %s: %w", code, err)
		}
	}
	return nil
}
