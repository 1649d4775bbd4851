package allocation

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// uidRefused are the codes with which an agent refuses a uid that somebody else has
// or had on its installation. The control plane does not know of it where accounts
// were made by hand, or its database is older than the installation.
var uidRefused = []string{"id_used_before", "uid_in_use"}

// mostUIDs is how many uids are tried on one node.
const mostUIDs = 16

// nextUID is the event of the timeline that says that another uid was taken.
const nextUID = "next_uid"

// retake gives an allocation the next uid of its node if it still has the one that was
// refused, and says to ask again. What the agent says names other tenants, so it is
// passed on to nobody.
func (a *Activities) retake(ctx context.Context, e Errand, uid int32, refused Failure) (Answer, error) {
	again := Answer{Signal: "ask-again", Most: time.Millisecond} // nobody sends it: the node is asked at once
	err := a.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		of, _, err := hold(ctx, tx, e.ID)
		if err != nil || of.Status != Provisioning || of.Placements != e.Placement || of.cancelled() {
			return err // asking again says why not
		}
		if of.UID != uid {
			return nil // this is being repeated, or its workflow met the same refusal: the next uid is taken once
		}
		q := allocationdb.New(tx)
		tried, err := q.CountEvents(ctx, allocationdb.CountEventsParams{AllocationID: of.ID, Event: nextUID})
		if err != nil {
			return fmt.Errorf("count uids that were tried: %w", err)
		}
		if tried >= mostUIDs {
			again = Answer{Failure: Failure{
				Code: refused.Code, Reason: fmt.Sprintf("the node refused %d uids for the account", tried+1),
				Remedy: askAgain,
			}}
			return nil
		}
		next, username, err := account(ctx, q, of.Node)
		if err != nil {
			return err
		}
		now, err := found(q.SetAccount(ctx, allocationdb.SetAccountParams{ID: of.ID, Uid: next, Username: username}))
		if err != nil {
			return err
		}
		return note(ctx, tx, now, nextUID, "the node had the account's uid before; it gets another one",
			map[string]any{"code": refused.Code, "refused_uid": of.UID, "uid": next})
	})
	return again, err
}

// codeNoLogin is the code of an account that nobody can log in to.
const codeNoLogin = "login_not_possible"

// unusable says why the account that a node made cannot be used; zero: it can.
// Agents that are told what was handed over look; earlier ones do not.
func unusable(t agenttask.Task) Failure {
	var asked agentwire.ProvisionUserParams
	var made agentwire.ProvisionUserOutput
	if json.Unmarshal(t.Params, &asked) != nil || asked.Handover == nil {
		return Failure{}
	}
	if json.Unmarshal(t.Output, &made) == nil && made.LoginChecked {
		return Failure{}
	}
	return Failure{
		Code: codeNoLogin, Reason: "the account was made, and the agent found that nobody can log in to it",
		Remedy: askAgain,
	}
}
