package allocation

import (
	"encoding/json"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/sku"
)

// codeNotReady is the code of a node that must not be handed to a tenant.
const codeNotReady = "node_not_ready"

// unready says why a node must not be handed to a tenant, by what its agent found;
// zero: it may.
func unready(output json.RawMessage, _ sku.Terms) Failure {
	var found agentwire.HealthProbeOutput
	if err := json.Unmarshal(output, &found); err != nil {
		return Failure{Code: codeNotReady, Reason: "what the node says about its health cannot be read"}
	}
	var bad []string
	for _, c := range found.Checks {
		if c.Status == "failed" {
			bad = append(bad, c.Name+": "+c.Detail)
		}
	}
	if len(bad) == 0 && found.Healthy {
		return Failure{}
	}
	return Failure{
		Code: codeNotReady, Reason: "the node is not healthy: " + strings.Join(bad, "; "),
		Remedy: "ask again; an operator looks at the node",
	}
}
