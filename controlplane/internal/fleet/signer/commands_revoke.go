package signer

import "context"

// Revoke takes all trust from a signer at once. If it is the active one,
// another takes over in the same transaction: the staged one if all nodes
// accept it, otherwise the one in grace. With force, Revoke accepts a successor
// that nodes do not know yet, and makes a new one if necessary. Such nodes
// refuse tasks until they learn of it by renewing their certificate or by a new
// bootstrap.
func (s *Service) Revoke(ctx context.Context, signer, reason string, force bool) (Signer, error) {
	h, err := s.heirOf(ctx, signer, force)
	if err != nil {
		return Signer{}, err
	}
	var out Signer
	err = s.inChange(ctx, func(ctx context.Context, c *change) error {
		target, err := get(ctx, c.Queries, signer)
		if err != nil {
			return err
		}
		metadata := map[string]any{"prior_status": string(target.Status), "force": force}
		if out, err = c.move(ctx, target, Revoke); err != nil {
			return err
		}
		if target.Status == Active {
			next, err := c.succeed(ctx, h, force)
			if err != nil {
				return err
			}
			metadata["successor"] = next.ID
		}
		c.note("revoke", out, reason, metadata)
		return nil
	})
	return out, err
}

// heir is what is known, before the lock is taken, about possible successors of
// the active signer.
type heir struct {
	ready string // the staged signer, if every node accepts it
	key   newKey // a new key, made if there is no other successor
}

func (s *Service) heirOf(ctx context.Context, signer string, force bool) (heir, error) {
	var h heir
	now, err := current(ctx, s.reads)
	if err != nil || now.active == nil || now.active.ID != signer {
		return h, err
	}
	if now.staged != nil {
		w, err := s.waiting(ctx, *now.staged, now)
		if err != nil {
			return h, err
		}
		if w.NodesBehind == 0 {
			h.ready = now.staged.ID
		}
	}
	if force && now.staged == nil && now.grace == nil {
		h.key, err = s.makeKey(ctx)
	}
	return h, err
}

// succeed makes another signer active after the active one was revoked.
func (c *change) succeed(ctx context.Context, h heir, force bool) (Signer, error) {
	staged, grace := c.now.staged, c.now.grace
	switch {
	case staged != nil && staged.ID == h.ready:
		return c.move(ctx, *staged, Promote)
	case grace != nil:
		return c.move(ctx, *grace, Rollback)
	case !force:
		return Signer{}, errNoSuccessor
	case staged != nil:
		return c.move(ctx, *staged, Promote)
	case h.key.id == "":
		return Signer{}, errChanged
	default:
		return c.add(ctx, h.key, Active)
	}
}
