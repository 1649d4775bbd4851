package agentgateway

import (
	"bytes"
	"encoding/json"
	"net/http"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
)

// baseline stores the inventory of an installation before any tenant uses it.
// The agent signs the inventory with the key of the certificate that it
// presents, so that the inventory is evidence that can be checked later.
func (g *Gateway) baseline(w http.ResponseWriter, r *http.Request, c caller) error {
	var in agentwire.BaselineRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	if err := agentwire.VerifyBaseline(r.TLS.PeerCertificates[0].PublicKey, c.Node.String(), in.Inventory,
		in.Signature); err != nil {
		return httpapi.InvalidRequest("the baseline is not signed by the key of the node: %v", err)
	}
	var taken agentwire.Inventory
	d := json.NewDecoder(bytes.NewReader(in.Inventory))
	d.DisallowUnknownFields()
	if err := d.Decode(&taken); err != nil {
		return httpapi.InvalidRequest("the baseline cannot be read: %s", decodeProblem(err))
	}
	if err := taken.Validate(); err != nil {
		return httpapi.InvalidRequest("the baseline is not one: %v", err)
	}
	out, err := g.nodes.KeepBaseline(r.Context(), c.Node, node.SignedBaseline{
		Inventory: taken, Raw: in.Inventory, Signature: in.Signature, Serial: c.presented.Serial,
	})
	if err != nil {
		return err
	}
	return answer(w, out)
}

// amendment returns what a task changed, with the key that signed it. If another
// key signed it, for example because the certificate was renewed meanwhile, the
// gateway drops it, and the next validation reports the change.
func (g *Gateway) amendment(r *http.Request, c caller, task string, a *agentwire.Amendment) *agentwire.Amendment {
	if a == nil {
		return nil
	}
	if err := agentwire.VerifyAmendment(r.TLS.PeerCertificates[0].PublicKey, c.Node.String(), task, *a); err != nil {
		g.logger.WarnContext(r.Context(), "amendment of a baseline dropped", "node_id", c.Node, "task_id", task, "error", err)
		return nil
	}
	a.Serial = c.presented.Serial
	return a
}
