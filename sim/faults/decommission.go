package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/oapi-codegen/runtime/types"

	"gpuaas/contract/apiclient"
)

// prepare makes the machine of a run a node, lets a tenant in, and brings the
// node to where the mode begins.
func (r *run) prepare(ctx context.Context) error {
	if err := r.undisturbed(ctx, r.onboard); err != nil {
		return err
	}
	r.brought = r.job
	r.world.mu.Lock()
	other, known := r.world.nodes[r.node.String()]
	r.world.nodes[r.node.String()] = r.Name()
	r.world.mu.Unlock()
	if known {
		r.violate("the id of the node was used before, for %s", other)
	}
	if !r.wish.vacant {
		if err := r.tenant(ctx); err != nil {
			return err
		}
	}
	if r.Mode == reactivateMode || r.Mode == removeMode {
		if err := r.undisturbed(ctx, func(ctx context.Context) error { return r.ask(ctx, retireMode) }); err != nil {
			return err
		}
	}
	r.world.boots.forget(r.hostname)
	return r.alter(ctx)
}

// undisturbed carries out a job in which nothing goes wrong.
func (r *run) undisturbed(ctx context.Context, ask func(context.Context) error) error {
	if err := ask(ctx); err != nil {
		return err
	}
	r.world.Trap.set(r.job.String(), nil)
	v, err := r.settled(ctx)
	if err != nil {
		return err
	}
	if !ended(v.Status) {
		return errors.New(v.Explanation.Summary)
	}
	return nil
}

// alter changes the site of a run as the case needs it.
func (r *run) alter(ctx context.Context) error {
	var body apiclient.SiteProfileChangeBody
	set := func(into **string, value string) {
		if value != "" {
			*into = &value
		}
	}
	w := r.wish
	set(&body.DistroSeries, w.image)
	if w.bundle != "" {
		if err := r.world.upload(ctx, r); err != nil {
			return err
		}
	}
	set(&body.SiteBootstrapBundleRef, w.bundle)
	set(&body.NodePxeIface, w.pxeIface)
	if w.removeRecord {
		body.RemoveMaasRecord = &w.removeRecord
	}
	if w.keepErase {
		fallBack := false
		body.ReleaseFallbackNoErase = &fallBack
	}
	if w.scrub != "" {
		body.GpuScrubNvidia = (*apiclient.SiteProfileChangeBodyGpuScrubNvidia)(&w.scrub)
	}
	if body != (apiclient.SiteProfileChangeBody{}) {
		if err := r.world.change(ctx, r, body); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) decommission(ctx context.Context) error { return r.ask(ctx, r.Mode) }

// ask asks for a decommission of the node.
func (r *run) ask(ctx context.Context, mode string) error {
	job, err := r.asked(ctx, mode)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", mode, err)
	}
	r.job, r.doing = job, Decommission
	return nil
}

func (r *run) asked(ctx context.Context, mode string) (types.UUID, error) {
	api, end := r.world.api, true // what the tenant still has there ends with it
	because := apiclient.DecommissionReasonBody{Reason: "the tenant left", EndAllocation: &end}
	var view *apiclient.DecommissionNewView
	switch mode {
	case retireMode:
		made, err := api.RetireNodeWithResponse(ctx, r.node, &apiclient.RetireNodeParams{}, because)
		if _, err := apiclient.Read(made, err); err != nil {
			return types.UUID{}, err
		}
		view = made.JSON
	case reactivateMode:
		made, err := api.ReactivateNodeWithResponse(ctx, r.node, &apiclient.ReactivateNodeParams{}, because)
		if _, err := apiclient.Read(made, err); err != nil {
			return types.UUID{}, err
		}
		view = made.JSON
	case removeMode:
		made, err := api.RemoveNodeWithResponse(ctx, r.node, &apiclient.RemoveNodeParams{}, because)
		if _, err := apiclient.Read(made, err); err != nil {
			return types.UUID{}, err
		}
		view = made.JSON
	default:
		body := apiclient.DecommissionNewBody{
			Mode: apiclient.DecommissionNewBodyMode(mode), Reason: because.Reason, EndAllocation: &end,
		}
		if r.wish.erase != "" {
			erase := apiclient.DecommissionNewBodyErase(r.wish.erase)
			body.Erase = &erase
		}
		made, err := api.DecommissionNodeWithResponse(ctx, r.node, &apiclient.DecommissionNodeParams{}, body)
		if _, err := apiclient.Read(made, err); err != nil {
			return types.UUID{}, err
		}
		view = made.JSON
	}
	return view.DecommissionId, nil
}

// quarantine acts as an operator who takes the node out of service by hand.
func (r *run) quarantine(ctx context.Context) error {
	made, err := r.world.api.QuarantineNodeWithResponse(ctx, r.node, &apiclient.QuarantineNodeParams{},
		apiclient.NodeActionBody{Reason: "somebody does not trust it"})
	if _, err := apiclient.Read(made, err); err != nil {
		return fmt.Errorf("quarantine the node: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.distrusted = true
	return nil
}
