package agentgateway

import (
	"net/http"

	"gpuaas/controlplane/internal/base/fault"
)

// serveRegistry answers a node that reads from the platform's registry.
func (g *Gateway) serveRegistry(w http.ResponseWriter, r *http.Request, c caller) error {
	if g.registry == nil {
		return fault.New(fault.NotFound, "registry_missing", "the platform has no registry of its own").
			WithRemedy("set registry.url on the control plane, or fetch from another registry")
	}
	return g.registry.ServeNode(w, r, c.Node)
}
