package signer

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/fleet/signer/internal/signerdb"
)

// Ensure makes the first signer. Any number of replicas may call it at once; if
// there is an active signer it does nothing.
func (s *Service) Ensure(ctx context.Context) error {
	ctx = system(ctx)
	now, err := current(ctx, s.reads)
	if err != nil || now.active != nil {
		return err
	}
	key, err := s.makeKey(ctx)
	if err != nil {
		return err
	}
	return s.inChange(ctx, func(ctx context.Context, c *change) error {
		if c.now.active != nil {
			return nil
		}
		made, err := c.add(ctx, key, Active)
		if err != nil {
			return err
		}
		c.note("create", made, "first signer", nil)
		return nil
	})
}

// Rotate begins to replace the signer: it stages a new one and makes it known
// to all nodes. Tend promotes it when all nodes accept it. With force, Rotate
// waits neither for nodes nor for the grace period of the signer before. If a
// rotation is under way already, force completes that one.
func (s *Service) Rotate(ctx context.Context, reason string, force bool) (Signer, error) {
	before, err := current(ctx, s.reads)
	if err != nil {
		return Signer{}, err
	}
	var key newKey
	switch {
	case before.staged != nil && !force:
		return Signer{}, errRotating
	case before.staged == nil:
		if key, err = s.makeKey(ctx); err != nil {
			return Signer{}, err
		}
	}
	var out Signer
	err = s.inChange(ctx, func(ctx context.Context, c *change) error {
		if err := c.stage(ctx, key, reason, force); err != nil {
			return err
		}
		if out = *c.now.staged; !force {
			return nil
		}
		if c.now.grace != nil {
			if err := c.retire(ctx, reason); err != nil {
				return err
			}
		}
		if err := c.promote(ctx, reason, force); err != nil {
			return err
		}
		out = *c.now.active
		return nil
	})
	return out, err
}

func (c *change) stage(ctx context.Context, key newKey, reason string, force bool) error {
	switch {
	case c.now.staged != nil && force:
		return nil
	case c.now.staged != nil:
		return errRotating
	case key.id == "":
		return errChanged // the staged signer that force meant is gone
	}
	made, err := c.add(ctx, key, Staged)
	if err != nil {
		return err
	}
	c.note("rotate", made, reason, map[string]any{"force": force, "verifier_version": made.VerifierVersion})
	return nil
}

// Rollback undoes the last rotation: the signer in grace signs again, and the
// signer that had replaced it goes into grace.
func (s *Service) Rollback(ctx context.Context, reason string) (Signer, error) {
	var out Signer
	err := s.inChange(ctx, func(ctx context.Context, c *change) error {
		if c.now.grace == nil {
			return errNothingToRollBack
		}
		back, replaced := *c.now.grace, c.now.active
		var err error
		if out, err = c.move(ctx, back, Rollback); err != nil {
			return err
		}
		metadata := map[string]any{}
		if replaced != nil {
			if _, err := c.move(ctx, *replaced, Supersede); err != nil {
				return err
			}
			metadata["replaces"] = replaced.ID
		}
		c.note("rollback", out, reason, metadata)
		return nil
	})
	return out, err
}

// Tend takes the steps that are due. It promotes a staged signer when every
// node accepts it and no other signer is in grace, and retires a signer whose
// grace has passed. Any number of replicas may call it now and then; each step
// is taken once.
func (s *Service) Tend(ctx context.Context) error {
	ctx = system(ctx)
	before, err := current(ctx, s.reads)
	if err != nil {
		return err
	}
	ready := ""
	if before.staged != nil {
		w, err := s.waiting(ctx, *before.staged, before)
		if err != nil {
			return err
		}
		if w.Over() {
			ready = before.staged.ID
		}
	}
	if ready == "" && (before.grace == nil || !before.graceOver(s.now())) {
		return nil
	}
	return s.inChange(ctx, func(ctx context.Context, c *change) error {
		if c.now.grace != nil && c.now.graceOver(c.at) {
			if err := c.retire(ctx, "grace period is over"); err != nil {
				return err
			}
		}
		if c.now.grace != nil || c.now.staged == nil || c.now.staged.ID != ready {
			return nil
		}
		return c.promote(ctx, "accepted by all nodes", false)
	})
}

// add writes the row of a new key.
func (c *change) add(ctx context.Context, key newKey, status Status) (Signer, error) {
	if err := c.acceptOtherwise(ctx); err != nil {
		return Signer{}, err
	}
	p := signerdb.InsertParams{
		ID: key.id, Status: string(status), KeyName: key.name, PublicKey: key.public, VerifierVersion: c.verifier,
		PublishedAt: c.at,
	}
	if status == Active {
		p.EffectiveAt = &c.at
	}
	row, err := c.Insert(ctx, p)
	if err != nil {
		return Signer{}, fmt.Errorf("insert signer %s: %w", key.id, err)
	}
	return c.became(fromRow(row)), nil
}

// promote makes the staged signer active. The active one goes into grace, where
// no other signer may be.
func (c *change) promote(ctx context.Context, reason string, force bool) error {
	staged, replaced := *c.now.staged, c.now.active
	made, err := c.move(ctx, staged, Promote)
	if err != nil {
		return err
	}
	metadata := map[string]any{"force": force}
	if replaced != nil {
		if _, err := c.move(ctx, *replaced, Supersede); err != nil {
			return err
		}
		metadata["replaces"] = replaced.ID
	}
	c.note("promote", made, reason, metadata)
	return nil
}

func (c *change) retire(ctx context.Context, reason string) error {
	gone, err := c.move(ctx, *c.now.grace, Retire)
	if err == nil {
		c.note("retire", gone, reason, nil)
	}
	return err
}

// move is the only function that changes the status of a signer.
func (c *change) move(ctx context.Context, s Signer, event Event) (Signer, error) {
	next, err := Lifecycle.Next(s.Status, event)
	if err != nil {
		return s, err
	}
	p := signerdb.MoveParams{ID: s.ID, Status: string(next)}
	switch next {
	case Active:
		p.EffectiveAt = &c.at
	case Grace:
		p.RetiresAt = until(c.at, c.graceFor)
	case Retired, Revoked:
		p.FinishedAt = &c.at
		if err := c.acceptOtherwise(ctx); err != nil {
			return s, err
		}
	case Staged:
	}
	row, err := c.Move(ctx, p)
	if err != nil {
		return s, fmt.Errorf("move signer %s to %s: %w", s.ID, next, err)
	}
	return c.became(fromRow(row)), nil
}

// became records in the change what a signer is now.
func (c *change) became(s Signer) Signer {
	for _, place := range []**Signer{&c.now.staged, &c.now.active, &c.now.grace} {
		if *place != nil && (*place).ID == s.ID {
			*place = nil
		}
	}
	switch s.Status {
	case Staged:
		c.now.staged = &s
	case Active:
		c.now.active = &s
	case Grace:
		c.now.grace = &s
	case Retired, Revoked:
	}
	c.touched = append(c.touched, s)
	return s
}

func until(from time.Time, d time.Duration) *time.Time {
	t := from.Add(d)
	return &t
}
