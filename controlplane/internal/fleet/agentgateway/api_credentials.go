package agentgateway

import (
	"net/http"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
)

// registryCredential mints a pull credential; it has a path of its own.
func (g *Gateway) registryCredential(w http.ResponseWriter, r *http.Request, c caller) error {
	var in agentwire.RegistryRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	if !repositoryForm.MatchString(in.Repository) || !digestForm.MatchString(in.Digest) {
		return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").WithFields(
			fault.Field{Path: "body.repository", Message: "must be a repository, and digest must be sha256:…"})
	}
	return g.credential(w, r, c, agentwire.MintRequest{
		Attempt: in.Attempt, StepID: in.StepID, CredentialType: agentwire.CredentialOCIPull,
		Intent: map[string]string{"repository": in.Repository, "digest": in.Digest},
	})
}

func (g *Gateway) mintCredential(w http.ResponseWriter, r *http.Request, c caller) error {
	var in agentwire.MintRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	return g.credential(w, r, c, in)
}

// credential answers with a credential for the task in the path, which must be
// one that this node is carrying out now.
func (g *Gateway) credential(w http.ResponseWriter, r *http.Request, c caller, in agentwire.MintRequest) error {
	id, err := taskOf(r)
	if err != nil {
		return err
	}
	if err := checkMint(in); err != nil {
		return err
	}
	ctx := r.Context()
	task, err := g.tasks.Bound(ctx, c.Node, id, in.Attempt)
	var made agentwire.Credential
	if err == nil {
		made, err = g.mint(ctx, c, task, in)
	}
	if err != nil {
		if recording := g.recordMint(ctx, c, id, in, err); recording != nil {
			g.logger.ErrorContext(ctx, "an attempt to mint a credential could not be audited", "task_id", id.String(), "error",
				recording)
		}
		return err
	}
	return answer(w, made)
}
