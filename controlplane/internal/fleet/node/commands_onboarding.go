package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// EnrolledSignal is the signal that tells a waiting workflow of the first poll
// of the agent. It has no payload.
const EnrolledSignal = "node_enrolled"

// Await registers the workflow that is signalled at the first poll. An earlier
// poll does not count: an agent that is running already polls again within a
// minute.
func Await(ctx context.Context, tx pgx.Tx, node id.Node, workflowID string) error {
	c := changeIn(tx)
	before, err := c.lock(ctx, node)
	if err != nil {
		return err
	}
	if before.AwaitedBy == workflowID && before.FirstPollAt == nil {
		return nil
	}
	row, err := c.SetAwaited(ctx, nodedb.SetAwaitedParams{ID: node, AwaitedBy: workflowID})
	if err != nil {
		return fmt.Errorf("note who awaits node: %w", err)
	}
	return c.record(ctx, nodeFrom(row), entry{
		kind: KindUpdated, cause: "a workflow awaits the first poll of the agent", action: "node.await",
		metadata: map[string]any{"workflow_id": workflowID},
	})
}

// Polled records the first poll of an agent with its identity, and signals the
// workflow that awaits it. For a node that is onboarded by hand, the first poll
// completes the enrolment: a bootstrap without a working poll is worth nothing.
// For other nodes the waiting workflow completes it. If nothing changes, Polled
// writes nothing.
func (s *Service) Polled(ctx context.Context, who Identity) error {
	if who.Polled && (who.Status != Enrolling || who.OnboardingMode != Manual) {
		return nil
	}
	return s.inChange(asAgent(ctx, who.Node), func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, who.Node)
		if err != nil || n.Status.fenced() {
			return err
		}
		first := n.FirstPollAt == nil
		if first {
			row, err := c.SetFirstPoll(ctx, n.ID)
			if err != nil {
				return fmt.Errorf("note first poll of node: %w", err)
			}
			n = nodeFrom(row)
		}
		switch {
		case n.Status == Enrolling && n.OnboardingMode == Manual && n.AwaitedBy == "":
			_, err = c.move(ctx, n, Enrolled, "the agent polled for tasks with its certificate")
		case first:
			err = c.tellFirstPoll(ctx, n)
		}
		return err
	})
}

func (c change) tellFirstPoll(ctx context.Context, n Node) error {
	err := c.record(ctx, n, entry{
		kind: KindUpdated, cause: "the agent polled for tasks for the first time", action: "node.first_poll",
		metadata: map[string]any{"agent_version": n.ReportedAgentVersion},
	})
	if err != nil || n.Status != Enrolling || n.AwaitedBy == "" {
		return err
	}
	return outbox.SignalWorkflow(ctx, c.tx, outbox.WorkflowSignal{WorkflowID: n.AwaitedBy, Name: EnrolledSignal})
}

// ExtendToken makes the newest unused bootstrap token valid for ttl from now
// on, even if it has expired, because the machine it was made for has it
// already. It returns the new expiry, and whether there was such a token.
func (s *Service) ExtendToken(ctx context.Context, node id.Node, ttl time.Duration) (
	expires time.Time, extended bool, err error,
) {
	if ttl < MinTokenTTL || ttl > MaxTokenTTL {
		return time.Time{}, false, badTTL(ttl)
	}
	until := s.now().Add(ttl).UTC().Truncate(time.Microsecond)
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		if !n.Status.takesToken(Bootstrap) {
			return tokenUseless(n.Status, Bootstrap)
		}
		expires, err = c.ExtendToken(ctx, nodedb.ExtendTokenParams{NodeID: node, ExpiresAt: until})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("extend token: %w", err)
		}
		extended = true
		return c.audit(ctx, n, entry{
			action:   "node.extend_token",
			metadata: map[string]any{"purpose": Bootstrap, "expires_at": expires},
		})
	})
	return expires, extended && err == nil, err
}

// Abandon removes a node that never got into service from the inventory, with
// its tokens and certificates. Its name becomes free, its id never does. The
// PKI is not told: every call refuses certificates of a deleted node, and they
// expire within a day.
func Abandon(ctx context.Context, tx pgx.Tx, node id.Node, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil {
		return Node{}, err
	}
	return c.leave(ctx, n, Abandoned, cause)
}

// SetHost changes the address by which a node is reached.
func SetHost(ctx context.Context, tx pgx.Tx, node id.Node, host, cause string) error {
	if !hostForm.MatchString(host) {
		return fault.New(fault.Invalid, "node_host_invalid", "a node is reached by a host name or an address, not %.64q",
			host)
	}
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || n.Host == host {
		return err
	}
	row, err := c.SetHost(ctx, nodedb.SetHostParams{ID: node, Host: host})
	if err != nil {
		return fmt.Errorf("note address of node: %w", err)
	}
	return c.record(ctx, nodeFrom(row), entry{
		kind: KindUpdated, cause: cause, action: "node.set_host", tell: eventwire.NodeUpdated,
		metadata: map[string]any{"host": host, "prior_host": n.Host},
	})
}
