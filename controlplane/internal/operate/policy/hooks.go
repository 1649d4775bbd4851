package policy

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
)

// Decider is a further decision, after the chain has allowed a request. It can only
// deny. Service is one: it asks the policy document that counts.
type Decider interface {
	// Decide answers what it has against the request, through the transaction of whoever
	// asks. A verdict without a document says that nobody decides further.
	Decide(ctx context.Context, tx pgx.Tx, r Request, e Effective) (Verdict, error)
}

// Check refuses a request that the policy or the further decision denies, and answers
// what the further decision was. A decider that fails denies. Without a decider the
// chain alone decides.
func Check(ctx context.Context, tx pgx.Tx, e Effective, r Request, further Decider) (Verdict, error) {
	if denials := e.Denials(r); len(denials) > 0 {
		fields := make([]fault.Field, len(denials))
		for i, d := range denials {
			fields[i] = fault.Field{Path: string(d.Key), Message: d.Message}
		}
		return Verdict{}, fault.New(fault.Forbidden, "operation_denied_by_policy", "the policy does not allow %s: %s",
			r.Operation, denials[0].Message).WithFields(fields...).
			WithRemedy("see which level decided what: gpuaas operation policy explain %s", r.Type+r.seenFrom())
	}
	if further == nil {
		return Verdict{}, nil
	}
	v, err := further.Decide(ctx, tx, r, e)
	switch {
	case err != nil:
		return v, fault.Wrap(err, fault.Forbidden, "operation_policy_undecided",
			"the policy document of the platform could not be asked about %s, so it is denied", r.Operation).
			WithRemedy("try again later; if it stays, a platform administrator must look after the policy document")
	case v.Undecided != "":
		return v, fault.New(fault.Forbidden, "operation_policy_undecided",
			"the policy document %s of the platform could not decide about %s, so it is denied: %s", v.Document, r.Operation,
			v.Undecided).
			WithRemedy("a platform administrator must fix the document, or take it back: " +
				"gpuaas operation policy document deactivate")
	case len(v.Denied) > 0:
		return v, fault.New(fault.Forbidden, "operation_denied_by_policy",
			"the policy document %s of the platform does not allow %s: %s", v.Document, r.Operation,
			strings.Join(v.Denied, "; ")).
			WithRemedy("change the request as it says, or ask a platform administrator, whose document it is")
	}
	return v, nil
}
