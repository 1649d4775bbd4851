package controlplane

import (
	"context"

	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/policy"
)

func (p *parts) registerOperations(api *httpapi.API) {
	definition.New(p.db).RegisterAPI(api)
	policy.New(p.db).Register(api)
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
			"definition", d.Ref.String(), "kept", d.Kept, "shipped", d.Shipped)
	}
	return err
}
