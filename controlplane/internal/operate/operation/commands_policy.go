package operation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/policy"
)

// policyRequest is what policies are asked about a run of a definition with its inputs,
// as far as it is the same for all who ask. What was revoked, or has no signature where
// the definition demands one, is refused. A definition is the platform's, and so is its
// demand. What its commands fetch by themselves, nobody verifies.
func (s *Service) policyRequest(ctx context.Context, tx pgx.Tx, d definition.Definition, inputs json.RawMessage,
	owner Owner,
) (policy.Request, error) {
	r := policy.Request{
		Operation: d.Ref().String(), Type: d.Type, Risk: string(d.Risk), Impact: string(impact(d)), At: time.Now().UTC(),
	}
	if !owner.platform() {
		r.OrgID, r.ProjectID = owner.Org.String(), owner.Project.String()
	}
	fetches, err := d.Fetches(inputs)
	if err != nil {
		return r, err
	}
	signed, err := s.signed(ctx, tx, owner, fetches)
	if err != nil {
		return r, err
	}
	for i, f := range fetches {
		if d.Artifacts != nil && d.Artifacts.SignatureRequired && signed[i] != policy.Global { // the platform's demand
			return r, fault.New(fault.Forbidden, "operation_artifact_unsigned",
				"%s fetches only what has a verified signature by a key of the platform, and %s has none", d.Ref(), f.Source).
				WithRemedy("sign it by a key that the platform trusts for that repository, register it, and see what was " +
					"found: gpuaas artifact register")
		}
		r.Artifacts = append(r.Artifacts, policy.Artifact{
			Source: f.Source, Bytes: f.Bytes, Signed: signed[i] == policy.Global, SignedForTenant: signed[i] == policy.Tenant,
		})
	}
	switch {
	case len(fetches) > 0:
		r.Open = d.Artifacts == nil
	case d.Artifacts != nil:
		for _, repository := range d.Artifacts.Repositories {
			r.Artifacts = append(r.Artifacts, policy.Artifact{Source: repository})
		}
	}
	return r, nil
}

// signed says of everything that is fetched at which level the key of its signature is.
func (s *Service) signed(ctx context.Context, tx pgx.Tx, owner Owner, fetches []agentwire.Fetch) (
	[]policy.Scope, error,
) {
	if s.known == nil || len(fetches) == 0 {
		return make([]policy.Scope, len(fetches)), nil
	}
	return s.known.Signed(ctx, tx, policy.Owner(owner), fetches)
}
