package controlplane

import (
	"context"
	"encoding/json"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/registry"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/operate/agentrun"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/depot"
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/controlplane/internal/operate/policy"
	"gpuaas/controlplane/internal/operate/rollout"
	"gpuaas/controlplane/internal/work/decommission"
)

func (p *parts) registerOperations(api *httpapi.API) {
	definition.New(p.db).RegisterAPI(api)
	p.policies.Register(api)
	p.artifacts.RegisterAPI(api)
	p.operations.Register(api)
}

// newRuns puts together what is run on nodes.
func (p *parts) newRuns() {
	p.policies = policy.New(p.db)
	p.newArtifacts()
	p.newDepot()
	p.operations = operation.New(operation.Config{
		DB: p.db, Tasks: p.fleet.tasks, Members: p.identity, Decider: p.policies, Artifacts: p.artifacts,
		Ahead:       p.ahead,
		Logger:      p.logger,
		CheckInputs: func(v definition.Version, in json.RawMessage) (json.RawMessage, error) { return v.CheckInputs(in) },
	})
	p.fleet.logs = p.operations
	p.rollouts = rollout.New(rollout.Config{
		DB: p.db, Tasks: p.fleet.tasks, Prepare: p.fleet.packages.Prepare, Released: p.fleet.released,
		Giveable: p.fleet.giveable,
	})
	p.fleet.cameBack = p.rollouts.CameBack
	p.agentRuns = agentrun.New(agentrun.Config{
		DB: p.db, Tasks: p.fleet.tasks, Nodes: p.fleet.nodes, Prepare: p.fleet.packages.Prepare,
		Programs: p.fleet.packages.Programs, Reinstall: p.reinstall,
	})
}

// reinstall asks for the decommission that reinstalls a node.
func (p *parts) reinstall(ctx context.Context, of id.Node, reason string) (id.Decommission, error) {
	d, _, err := p.decommissions.Request(ctx, of, decommission.Request{
		Mode: decommission.Reimage, Reason: shortened(reason, 500),
	})
	return d.ID, err
}

// shortened cuts a text, so that it fits where it is kept.
func shortened(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// home is how the control plane reads from the platform's own registry.
func (p *parts) home() *registry.Home {
	if p.cfg.Registry.URL == "" {
		return nil
	}
	return &registry.Home{
		Name: agentwire.PlatformRegistry, URL: p.cfg.Registry.address(), User: p.cfg.Registry.User,
		PasswordFile: p.cfg.Registry.PasswordFile, CAFile: p.cfg.Registry.CAFile, CertFile: p.cfg.Registry.CertFile,
		KeyFile: p.cfg.Registry.KeyFile,
	}
}

// newDepot makes the way to the platform's own registry, if there is one.
func (p *parts) newDepot() {
	if p.cfg.Registry.URL == "" {
		return
	}
	p.depot = depot.New(depot.Config{
		DB: p.db, Places: p.artifacts, Tasks: p.fleet.queue, Tenants: p.identity, Logger: p.logger,
		Registry: p.home(), Folder: p.cfg.Registry.Folder,
	})
	p.fleet.registry = p.depot
}

// installDefinitions makes the operations available that are shipped with the
// program.
func (p *parts) installDefinitions(ctx context.Context) error {
	installed, differ, err := definition.New(p.db).Install(ctx)
	for _, name := range installed {
		p.logger.InfoContext(ctx, "operation definition installed", "definition", name.String())
	}
	for _, d := range differ {
		p.logger.WarnContext(ctx, "an operation definition differs from the one that is shipped; the one that is kept counts",
			"definition", d.String(), "kept", d.Kept, "shipped", d.Shipped)
	}
	return err
}
