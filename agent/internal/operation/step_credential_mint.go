package operation

import (
	"context"
	"errors"
	"fmt"

	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = carries(agentwire.StepCredentialMint, func(m machine) Kind { return credentialMint{m} })

// credentialMint gets a credential from the control plane under the identity of
// the task. It is held in memory, later steps get handles, and it is wiped when
// the task ends.
type credentialMint struct{ machine }

// Check implements Kind.
func (h credentialMint) Check(_ context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.CredentialMintWith](s)
	if err != nil {
		return Look{}, err
	}
	return Look{Summary: "asks for a credential of the type " + w.CredentialType}, nil
}

// Apply implements Kind.
func (h credentialMint) Apply(ctx context.Context, s *Step) (Result, error) {
	w, err := params[agentwire.CredentialMintWith](s)
	if err != nil {
		return Result{}, err
	}
	minter, ok := s.run.task.Credentials.(task.StepCredentials)
	if !ok {
		return Result{}, errors.New("this agent cannot ask for credentials of steps")
	}
	c, err := minter.MintForStep(ctx, s.run.params.OperationID, s.ID, w.CredentialType, w.Intent)
	if err != nil {
		return Result{}, fail(agentwire.FailureTransient, "mint_failed", "the control plane gave no credential of the type "+
			w.CredentialType, "see what its refusal says; the audit log has it, too", err)
	}
	out := agentwire.CredentialMintResult{
		CredentialType: c.CredentialType, ExpiresAt: c.ExpiresAt, Values: map[string]agentwire.Secret{},
	}
	// All of it is kept, so that all of it is hidden.
	for name, value := range c.Values {
		out.Values[name] = s.run.secrets.keep(s.ID, name, value)
	}
	for _, name := range w.Values {
		if _, there := out.Values[name]; !there {
			return Result{}, fail(agentwire.FailurePermanent, "mint_incomplete", fmt.Sprintf("the credential has no %q", name),
				"name in values what credentials of this type consist of", nil)
		}
	}
	return Result{Output: out, Summary: "got a credential of the type " + w.CredentialType}, nil
}
