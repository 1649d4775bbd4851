package allocation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/people/sshkey"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// Keyrings hears that keys were removed and that people lost rights. What they open
// is looked at by a workflow, which begins with the change or not at all.
type Keyrings struct{}

// KeyRemoved implements sshkey.Follower.
func (Keyrings) KeyRemoved(ctx context.Context, tx pgx.Tx, key id.SSHKey) error {
	return startReview(ctx, tx, Review{Key: key})
}

// RightsChanged implements identity.Follower.
func (Keyrings) RightsChanged(ctx context.Context, tx pgx.Tx, user id.User) error {
	return startReview(ctx, tx, Review{User: user})
}

func startReview(ctx context.Context, tx pgx.Tx, of Review) error {
	return startReviewAs(ctx, tx, id.NewString(), of)
}

// startReviewAs begins a review, unless one of that name has begun.
func startReviewAs(ctx context.Context, tx pgx.Tx, name string, of Review) error {
	return outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{
		Type: reviewType, ID: "allocation-keys-review-" + name, Queue: queue, Input: of,
	})
}

// ReviewHourly begins a review of all keys, one an hour whatever the number of replicas:
// replicas of an earlier release, and whoever changes rows by hand, begin none.
func (s *Service) ReviewHourly(ctx context.Context) error {
	hour := time.Now().UTC().Truncate(time.Hour)
	if s.reviewedAt.Load() == hour.Unix() {
		return nil
	}
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return startReviewAs(ctx, tx, hour.Format("2006010215"), Review{})
	})
	if err == nil {
		s.reviewedAt.Store(hour.Unix())
	}
	return err
}

// reviewed is how many allocations are looked at in one activity.
const reviewed = 200

// review drops keys that may not open allocations in use any more: of one page, and
// says what is left to look at. An allocation that cannot be looked at does not keep
// the others.
func (s *Service) review(ctx context.Context, of Review) (Review, error) {
	found, err := allocationdb.New(s.db).LiveWithKeys(ctx, allocationdb.LiveWithKeysParams{
		SshKey: textOf(of.Key), Person: textOf(of.User), After: textOf(of.After), Most: reviewed,
	})
	if err != nil {
		return of, fmt.Errorf("look what a key opens: %w", err)
	}
	of.After = id.Allocation{}
	for _, which := range found {
		err := s.reviewOne(ctx, which)
		if ctx.Err() != nil {
			return of, fmt.Errorf("review keys: %w", ctx.Err())
		}
		if err != nil {
			of.Failed = true
			s.logger.WarnContext(ctx, "the keys of an allocation could not be reviewed; they are reviewed again",
				"allocation_id", which, "error", err)
		}
	}
	if len(found) == reviewed {
		of.After = found[reviewed-1]
	}
	return of, nil
}

// reviewOne drops keys of one allocation. One that is not active yet drops them itself
// when it becomes so.
func (s *Service) reviewOne(ctx context.Context, of id.Allocation) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, _, err := hold(ctx, tx, of)
		if err != nil || a.Status != Active {
			return err
		}
		_, err = s.dropKeys(ctx, tx, a)
		return err
	})
}

// dropKeys takes those keys of an allocation away that are gone, or whose owner may
// not use allocations of the project any more.
func (s *Service) dropKeys(ctx context.Context, tx pgx.Tx, a Allocation) (Allocation, error) {
	ids := make([]id.SSHKey, len(a.Keys))
	for i, k := range a.Keys {
		ids[i] = k.ID
	}
	owners, err := sshkey.Owners(ctx, tx, ids)
	if err != nil {
		return a, err
	}
	keys := []Key{}
	for _, k := range a.Keys {
		owner, there := owners[k.ID]
		may := there && owner.Project == a.Project
		if there && !owner.User.IsZero() {
			if may, err = s.mayStillUse(ctx, tx, owner.User.String(), a); err != nil {
				return a, err
			}
		}
		if may {
			keys = append(keys, k)
		}
	}
	if len(keys) == len(a.Keys) {
		return a, nil
	}
	return setKeys(ctx, tx, a, keys)
}

func (s *Service) mayStillUse(ctx context.Context, tx pgx.Tx, who string, a Allocation) (bool, error) {
	if s.members == nil {
		return true, nil
	}
	return s.members.StillMay(ctx, tx, who, auth.AllocationUse, auth.Target{Org: a.Org, Project: a.Project})
}

// The event of the timeline that the keys shall be others, and that the node says so.
const (
	keysChange  = "keys_change"
	keysChanged = "keys_changed"
)

// setKeys records which keys shall open an allocation that is in use, and has its
// node told. What the node was to be told before is withdrawn, so that no more than
// one such task waits, however often the keys change.
func setKeys(ctx context.Context, tx pgx.Tx, a Allocation, keys []Key) (Allocation, error) {
	raw, err := json.Marshal(keys)
	if err != nil {
		return a, fmt.Errorf("encode keys of allocation %s: %w", a.ID, err)
	}
	now, err := found(allocationdb.New(tx).SetKeys(ctx, allocationdb.SetKeysParams{
		ID: a.ID, SshKeys: raw, KeysWaitingFor: keysAsked,
	}))
	if err != nil {
		return a, err
	}
	removed, added := without(a.Keys, keys), without(keys, a.Keys)
	details := map[string]any{"removed": removed, "added": added}
	message := fmt.Sprintf("%d keys are taken away and %d added; its node is told", len(removed), len(added))
	if err := note(ctx, tx, now, keysChange, message, details); err != nil {
		return now, err
	}
	if err := record(ctx, tx, "allocation.change_keys", now, "", details); err != nil {
		return now, err
	}
	if err := (agenttask.Commands{}).Withdraw(ctx, tx, now.Node, now.keyTasks(), "its keys changed again"); err != nil {
		return now, err
	}
	return now, outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{
		Type: keysType, ID: fmt.Sprintf("allocation-keys-%s-%d", now.ID, now.Keyring.Revision), Queue: queue,
		Input: KeyErrand{ID: now.ID, Revision: now.Keyring.Revision},
	})
}

// without names the keys of one list that another does not have.
func without(of, others []Key) []string {
	out := []string{}
	for _, k := range of {
		if !slices.ContainsFunc(others, func(o Key) bool { return o.ID == k.ID }) {
			out = append(out, k.Fingerprint)
		}
	}
	return out
}

// ChangeKeys adds keys to an allocation that is in use, and takes others away. Whoever
// asks adds keys of their own and of the project.
func (s *Service) ChangeKeys(ctx context.Context, of id.Allocation, add, remove []id.SSHKey) (Allocation, error) {
	var now Allocation
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, _, err := hold(ctx, tx, of)
		if now = a; err != nil {
			return err
		}
		if a.Status != Active {
			return fault.New(fault.Conflict, "allocation_state_conflict",
				"allocation %s is %s: keys are changed of one that is active", a.called(), a.Status).
				WithRemedy("see what it waits for: gpuaas allocation show %s", a.ID)
		}
		// The request may have waited for the lock, and its rights were read before.
		may, err := s.mayStillUse(ctx, tx, auth.From(ctx).ID, a)
		if err != nil {
			return err
		}
		if !may {
			return notYours(a)
		}
		keys, err := s.changedKeys(ctx, tx, a, add, remove)
		if err != nil || len(without(keys, a.Keys))+len(without(a.Keys, keys)) == 0 {
			return err
		}
		now, err = setKeys(ctx, tx, a, keys)
		return err
	})
	return now, err
}

// changedKeys are the keys of an allocation with some more and without others.
func (s *Service) changedKeys(ctx context.Context, tx pgx.Tx, a Allocation, add, remove []id.SSHKey) ([]Key, error) {
	keys := slices.Clone(a.Keys)
	for _, which := range remove {
		n := len(keys)
		if keys = slices.DeleteFunc(keys, func(k Key) bool { return k.ID == which }); len(keys) == n {
			return nil, fault.New(fault.NotFound, "ssh_key_not_found", "allocation %s does not open to the key %s", a.called(),
				which).WithRemedy("see its keys: gpuaas allocation keys %s", a.ID)
		}
	}
	add = slices.DeleteFunc(slices.Clone(add), func(which id.SSHKey) bool {
		return slices.ContainsFunc(keys, func(k Key) bool { return k.ID == which })
	})
	if len(add) > 0 {
		who := auth.From(ctx)
		more, err := keysOf(ctx, tx, Ask{Project: a.Project, Keys: add}, plot{
			by:  askerOf(who),
			own: who.Decide(auth.AllocationUse, auth.Target{Org: a.Org, Project: a.Project}) == auth.Allowed,
		})
		if err != nil {
			return nil, err
		}
		keys = append(keys, more...)
	}
	if len(keys) > sshkey.MaxKeys {
		return nil, fault.New(fault.Conflict, "ssh_keys_too_many", "an allocation opens to at most %d keys", sshkey.MaxKeys).
			WithRemedy("take some away: gpuaas allocation keys %s --remove KEY", a.ID)
	}
	return keys, nil
}

// keyringOf locks an allocation whose node is behind with this change of its keys. ok
// is false where nobody needs it any more: the allocation ended, or a later change
// has a workflow of its own.
func keyringOf(ctx context.Context, tx pgx.Tx, e KeyErrand) (a Allocation, tells, ok bool, err error) {
	a, n, err := hold(ctx, tx, e.ID)
	return a, n.TakesHandover(), err == nil && a.opensTo(e), err
}

// opensTo says whether an allocation in use waits for this change of its keys.
func (a Allocation) opensTo(e KeyErrand) bool {
	return a.Status == Active && a.Keyring.ChangingSince != nil && a.Keyring.Revision == e.Revision
}

// noteKeys records how a change of the keys stands: empty where the node has done it.
func (s *Service) noteKeys(ctx context.Context, e KeyErrand, waitsFor string) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, _, ok, err := keyringOf(ctx, tx, e)
		if err != nil || !ok {
			return err
		}
		q := allocationdb.New(tx)
		if waitsFor != "" {
			if err := q.SetKeysWaiting(ctx, allocationdb.SetKeysWaitingParams{
				ID: a.ID, KeysWaitingFor: waitsFor,
			}); err != nil {
				return fmt.Errorf("note what the keys of allocation %s wait for: %w", a.ID, err)
			}
			return nil
		}
		now, err := found(q.SetKeysChanged(ctx, a.ID))
		if err != nil {
			return err
		}
		message := fmt.Sprintf("its node opens to its %d keys, and to no others", len(now.Keys))
		return note(ctx, tx, now, keysChanged, message, nil)
	})
}

// keeper owns the task that changes the keys of an allocation in use.
type keeper KeyErrand

// Owns implements agenttask.Owner.
func (k keeper) Owns(ctx context.Context, tx pgx.Tx, on id.Node, typ string) error {
	a, err := lock(ctx, tx, k.ID)
	if err == nil && (a.Node != on || !a.opensTo(KeyErrand(k))) {
		err = fault.New(fault.Conflict, "allocation_state_conflict", "allocation %s does not ask for %s on this node", k.ID,
			typ)
	}
	return err
}
