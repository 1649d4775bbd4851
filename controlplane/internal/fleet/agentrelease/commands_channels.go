package agentrelease

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentpackage"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agentrelease/internal/agentreleasedb"
)

// Promote lets a channel want a release from now on.
func (s *Service) Promote(ctx context.Context, channel Channel, version, reason string) (Wanted, error) {
	if err := cmp.Or(checkVersion(version), checkReason(reason)); err != nil {
		return Wanted{}, err
	}
	var after Wanted
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := agentreleasedb.New(tx)
		before, err := q.LockChannel(ctx, string(channel))
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.NotFound, "agent_channel_not_found", "there is no channel %.40s", channel).
				WithRemedy("the channels are stable and candidate")
		}
		if err != nil {
			return fmt.Errorf("lock channel: %w", err)
		}
		row, err := q.ShareRelease(ctx, version)
		if errors.Is(err, pgx.ErrNoRows) {
			return missing(version)
		}
		if err != nil {
			return fmt.Errorf("read release: %w", err)
		}
		if err := s.giveable(ctx, q, from(row)); err != nil {
			return err
		}
		if text(before.Version) == version {
			after = wantedFrom(before)
			return nil
		}
		changed, err := q.SetChannel(ctx, agentreleasedb.SetChannelParams{
			Channel: string(channel), Version: &version, Previous: before.Version, Reason: reason, ChangedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("set channel: %w", err)
		}
		after = wantedFrom(changed)
		return record(ctx, tx, note{
			action: "agent_release.promote", version: version, channel: channel, reason: reason,
			change: eventwire.ReleasePromoted, more: map[string]any{"before": text(before.Version)},
		})
	})
	return after, err
}

// giveable refuses a release that no node may be given.
func (s *Service) giveable(ctx context.Context, q *agentreleasedb.Queries, r Release) error {
	if r.WithdrawnAt != nil {
		return withdrawn(r)
	}
	if !r.By(s.keys) {
		return fault.New(fault.Conflict, "agent_release_untrusted",
			"release %s of the agent is signed with the key %s, which is not among nodes.release_keys", r.Version(), r.KeyID).
			WithRemedy("give a release that is signed with a key of today; or add that key again, if nobody stole it")
	}
	if err := allowed(ctx, q, r.Version()); err != nil {
		return err
	}
	return s.speaks(r)
}

// allowed refuses a version that is blocked, or below the floor.
func allowed(ctx context.Context, q *agentreleasedb.Queries, version string) error {
	b, err := q.Blocked(ctx, version)
	if err == nil {
		return blocked(version, b.Reason)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("look for blocked version: %w", err)
	}
	f, err := q.Floor(ctx)
	if err != nil {
		return fmt.Errorf("read floor: %w", err)
	}
	return floorFrom(f).refuses(version)
}

// retreat puts each channel that wants a version no node may be given any more back to
// the release before, or to none.
func (s *Service) retreat(ctx context.Context, tx pgx.Tx, because string) error {
	q := agentreleasedb.New(tx)
	rows, err := q.LockChannels(ctx)
	if err != nil {
		return fmt.Errorf("lock channels: %w", err)
	}
	for _, row := range rows {
		ok, err := s.stillGiveable(ctx, q, row.Version)
		if err != nil {
			return err
		}
		if row.Version == nil || ok {
			continue
		}
		next := row.Previous
		if ok, err = s.stillGiveable(ctx, q, next); err != nil {
			return err
		}
		if !ok {
			next = nil
		}
		if _, err := q.SetChannel(ctx, agentreleasedb.SetChannelParams{
			Channel: row.Channel, Version: next, Reason: because, ChangedBy: auth.From(ctx).ID,
		}); err != nil {
			return fmt.Errorf("set channel back: %w", err)
		}
		if err := record(ctx, tx, note{
			action: "agent_release.retreat", version: text(next), channel: Channel(row.Channel), reason: because,
			change: eventwire.ReleasePromoted, more: map[string]any{"before": text(row.Version)},
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) stillGiveable(ctx context.Context, q *agentreleasedb.Queries, version *string) (bool, error) {
	if version == nil {
		return false, nil
	}
	row, err := q.Release(ctx, *version)
	if err != nil {
		return false, fmt.Errorf("read release: %w", err)
	}
	err = s.giveable(ctx, q, from(row))
	if fault.KindOf(err) == fault.Conflict {
		return false, nil
	}
	return err == nil, err
}

// Withdraw gives a release to nobody any more. It never comes back.
func (s *Service) Withdraw(ctx context.Context, version, reason string) (Release, error) {
	if err := cmp.Or(checkVersion(version), checkReason(reason)); err != nil {
		return Release{}, err
	}
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := agentreleasedb.New(tx)
		if _, err := q.LockChannels(ctx); err != nil { // in the order in which promotions lock
			return fmt.Errorf("lock channels: %w", err)
		}
		row, err := q.LockRelease(ctx, version)
		if errors.Is(err, pgx.ErrNoRows) {
			return missing(version)
		}
		if err != nil {
			return fmt.Errorf("lock release: %w", err)
		}
		if row.WithdrawnAt != nil {
			return nil // somebody was quicker
		}
		if _, err := q.WithdrawRelease(ctx, agentreleasedb.WithdrawReleaseParams{
			Version: version, WithdrawnBy: auth.From(ctx).ID, WithdrawnBecause: reason,
		}); err != nil {
			return fmt.Errorf("withdraw release: %w", err)
		}
		if err := record(ctx, tx, note{
			action: "agent_release.withdraw", version: version, reason: reason, change: eventwire.ReleaseWithdrawn,
		}); err != nil {
			return err
		}
		return s.retreat(ctx, tx, "release "+version+" was withdrawn: "+reason)
	})
	if err != nil {
		return Release{}, err
	}
	return s.Get(ctx, version)
}

// Block lets no node have a version, whether it was released or not.
func (s *Service) Block(ctx context.Context, version, reason string) (Block, error) {
	if err := cmp.Or(checkVersion(version), checkReason(reason)); err != nil {
		return Block{}, err
	}
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		fresh, err := agentreleasedb.New(tx).Block(ctx, agentreleasedb.BlockParams{
			Version: version, Reason: reason, BlockedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("block version: %w", err)
		}
		if fresh == 0 {
			return nil
		}
		if err := record(ctx, tx, note{
			action: "agent_release.block", version: version, reason: reason, change: eventwire.ReleaseBlocked,
		}); err != nil {
			return err
		}
		return s.retreat(ctx, tx, "version "+version+" was blocked: "+reason)
	})
	if err != nil {
		return Block{}, err
	}
	row, err := agentreleasedb.New(s.db).Blocked(ctx, version)
	if err != nil {
		return Block{}, fmt.Errorf("read blocked version: %w", err)
	}
	return blockFrom(row), nil
}

// Unblock lets nodes have a version again. It gives it to none.
func (s *Service) Unblock(ctx context.Context, version, reason string) error {
	if err := cmp.Or(checkVersion(version), checkReason(reason)); err != nil {
		return err
	}
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		gone, err := agentreleasedb.New(tx).Unblock(ctx, version)
		if err != nil {
			return fmt.Errorf("unblock version: %w", err)
		}
		if gone == 0 {
			return fault.New(fault.NotFound, "agent_version_not_blocked", "version %.80s is not blocked", version).
				WithRemedy("see which are: gpuaas agent release blocked")
		}
		return record(ctx, tx, note{
			action: "agent_release.unblock", version: version, reason: reason, change: eventwire.ReleaseUnblocked,
		})
	})
}

// SetFloor says which version is the oldest that nodes are given; empty: any.
func (s *Service) SetFloor(ctx context.Context, version, reason string) (Floor, error) {
	if _, ok := agentpackage.ParseVersion(version); !ok && version != "" {
		return Floor{}, fault.New(fault.Invalid, "agent_version_invalid", "%.80q is no version that has an order", version).
			WithRemedy("give one such as 1.4.0, or none")
	}
	if err := checkReason(reason); err != nil {
		return Floor{}, err
	}
	var after Floor
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := agentreleasedb.New(tx).SetFloor(ctx, agentreleasedb.SetFloorParams{
			Version: version, Reason: reason, ChangedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("set floor: %w", err)
		}
		after = floorFrom(row)
		if err := record(ctx, tx, note{
			action: "agent_release.floor", version: version, reason: reason, change: eventwire.ReleaseFloor,
		}); err != nil {
			return err
		}
		return s.retreat(ctx, tx, "the floor is "+version+" now: "+reason)
	})
	return after, err
}
