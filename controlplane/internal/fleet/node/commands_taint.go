package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Taint records that a tenant got access to a node, or that it was found
// unclean. A node in service stays in service. Earlier records stay.
func Taint(ctx context.Context, tx pgx.Tx, node id.Node, cause string) error {
	return changeIn(tx).taint(ctx, node, "", entry{event: "taint", cause: cause})
}

// TaintRoot records that somebody had root on a node, in addition to Taint.
// Only a later installation, proven clean, or an accepted risk ends it.
func TaintRoot(ctx context.Context, tx pgx.Tx, node id.Node, by RootCause, cause string) error {
	return changeIn(tx).taint(ctx, node, by,
		entry{event: "taint_root", cause: cause, metadata: map[string]any{"root_cause": by}})
}

func (c change) taint(ctx context.Context, node id.Node, by RootCause, e entry) error {
	if _, err := c.lock(ctx, node); err != nil {
		return err
	}
	row, err := c.SetTainted(ctx, node)
	if err == nil && by != "" {
		row, err = c.SetRoot(ctx, nodedb.SetRootParams{ID: node, Cause: string(by)})
	}
	if err != nil {
		return fmt.Errorf("taint node: %w", err)
	}
	return c.noted(ctx, nodeFrom(row), e)
}

// RecordRoot records what an operator knows: somebody had root on a node by a
// way that the control plane did not open.
func (s *Service) RecordRoot(ctx context.Context, node id.Node, by RootCause, reason string) (Node, error) {
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		if err := n.gone(); err != nil {
			return err
		}
		return c.taint(ctx, node, by, entry{event: "taint_root", cause: reason, metadata: map[string]any{"root_cause": by}})
	})
	if err != nil {
		return Node{}, err
	}
	return s.Node(ctx, node)
}

// Installed records that one of our operations made the installation with which
// the node is about to enter service. Call it while the node is enrolling: it
// began to enrol when the machine was handed over for installation, so nothing
// in the installation is older than that.
func Installed(ctx context.Context, tx pgx.Tx, node id.Node, by string) error {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || n.Status != Enrolling {
		return err
	}
	row, err := c.SetInstalled(ctx, nodedb.SetInstalledParams{ID: node, InstalledBy: by})
	if err != nil {
		return fmt.Errorf("note installation of node: %w", err)
	}
	return c.noted(ctx, nodeFrom(row), entry{event: "installed", cause: by + " installed it"})
}

// NoteClean records a validation that found nothing. at is when the validation
// looked, by the clock of the database; when in doubt it must be too early,
// because access that a tenant gets later is not covered. NoteClean refuses the
// word of an installation that somebody had root on, and a validation that
// looked before a later installation was made.
func NoteClean(ctx context.Context, tx pgx.Tx, node id.Node, at time.Time, cause string) (Node, error) {
	c := changeIn(tx)
	before, err := c.lock(ctx, node)
	if err != nil {
		return Node{}, err
	}
	if err := before.Incredible(); err != nil {
		return Node{}, err
	}
	at = at.Truncate(time.Microsecond) // the precision of the database
	if before.Root.Stands() && !at.After(*before.Installation.MadeAt) {
		return Node{}, fault.New(fault.Conflict, CodeRoot,
			"node %s was looked at before the installation was made that it runs on, and somebody had root on the one before",
			before.Hostname).
			WithRemedy("validate it once more")
	}
	if before.CleanAt != nil && !at.After(*before.CleanAt) {
		return before, nil
	}
	row, err := c.SetClean(ctx, nodedb.SetCleanParams{ID: node, At: at})
	if err == nil && before.Root.Stands() && !nodeFrom(row).Tainted() {
		row, err = c.EndRoot(ctx, nodedb.EndRootParams{ID: node})
	}
	if err != nil {
		return Node{}, fmt.Errorf("note that node is clean: %w", err)
	}
	after := nodeFrom(row)
	if after.Root.Accepted() && !after.Tainted() {
		if err := c.BelieveWhatIsReported(ctx, node); err != nil {
			return Node{}, fmt.Errorf("keep host keys of node: %w", err)
		}
	}
	e := entry{
		event: "clean", cause: cause,
		metadata: map[string]any{"clean_at": after.CleanAt, "tainted": after.Tainted(), "root_ended": before.Root.Stands() &&
			!after.Root.Stands()},
	}
	if after.HoldReason != "" && !after.Tainted() {
		held := []Node{after}
		if err := readHolds(ctx, c.Queries, held); err != nil {
			return Node{}, err
		}
		if after = held[0]; after.holding(ForUnclean, "") {
			return c.rehold(ctx, after.without(ForUnclean, ""), e)
		}
	}
	return after, c.noted(ctx, after, e)
}

// AcceptRoot ends a root taint because somebody accepts the risk in words. It
// is for nodes that no operation of ours can reinstall. seen is the last root
// access they knew of: if there was a later one, AcceptRoot refuses. by names them.
func AcceptRoot(ctx context.Context, tx pgx.Tx, node id.Node, seen time.Time, risk, by, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || !n.Root.Stands() {
		return n, err
	}
	switch {
	case n.OnboardingMode == MAAS || strings.TrimSpace(risk) == "":
		return Node{}, n.Incredible()
	case !n.Root.At.Equal(seen):
		return Node{}, fault.New(fault.Conflict, CodeRoot,
			"somebody had root on node %s at %s, which is after the risk of it was accepted", n.Hostname,
			n.Root.At.UTC().Format(time.RFC3339)).
			WithRemedy("cancel, find out who that was, and ask again")
	}
	row, err := c.EndRoot(ctx, nodedb.EndRootParams{ID: node, Risk: risk, AcceptedBy: by})
	if err != nil {
		return Node{}, fmt.Errorf("note accepted risk of node: %w", err)
	}
	after := nodeFrom(row)
	return after, c.noted(ctx, after, entry{
		event: "accept_root", cause: cause,
		metadata: map[string]any{"residual_risk": risk, "accepted_by": by, "root_at": n.Root.At},
	})
}
