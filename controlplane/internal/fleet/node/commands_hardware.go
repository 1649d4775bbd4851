package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Origin says who told the control plane which machine a node is.
type Origin string

// The origins.
const (
	FromMAAS      Origin = "maas"
	FromEnrolment Origin = "enrolment" // the machine itself, when it first enrolled
	FromReport    Origin = "report"    // the machine itself, after its agent was updated
	FromOperator  Origin = "accepted"
)

// Machine says which machine a node is. In the zero value nothing is known.
type Machine struct {
	Known           agentwire.Hardware
	Origin          Origin
	LearnedAt       time.Time
	Addresses       []string // the addresses that MAAS gave it
	AddressRequired bool
	EnrolledFrom    string
	Refused         *agentwire.Hardware // the machine that was refused last
	RefusedWhy      string
	RefusedAt       *time.Time
}

func machineFrom(r nodedb.NodeHardware, err error) (Machine, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Machine{}, nil
	}
	if err != nil {
		return Machine{}, fmt.Errorf("read hardware of node: %w", err)
	}
	m := Machine{
		Origin: Origin(r.Origin), LearnedAt: r.LearnedAt, Addresses: r.Addresses, AddressRequired: r.AddressRequired,
		EnrolledFrom: r.EnrolledFrom, RefusedWhy: r.RefusedWhy, RefusedAt: r.RefusedAt,
	}
	if err := json.Unmarshal(r.Known, &m.Known); err != nil {
		return Machine{}, fmt.Errorf("decode hardware of node %s: %w", r.NodeID, err)
	}
	if len(r.Refused) > 0 {
		if err := json.Unmarshal(r.Refused, &m.Refused); err != nil {
			return Machine{}, fmt.Errorf("decode refused hardware of node %s: %w", r.NodeID, err)
		}
	}
	return m, nil
}

// MachineOf reads which machine a node is.
func (s *Service) MachineOf(ctx context.Context, node id.Node) (Machine, error) {
	return machineFrom(s.reads.Hardware(ctx, node))
}

// Expect stores what MAAS knows of the machine that will enrol as a node. It
// does not overwrite what an operator has accepted: MAAS may not have looked at
// the machine since.
func Expect(ctx context.Context, tx pgx.Tx, node id.Node, known agentwire.Hardware, addressRequired bool) error {
	c := changeIn(tx)
	if _, err := c.lock(ctx, node); err != nil {
		return err
	}
	before, err := machineFrom(c.Hardware(ctx, node))
	if err != nil {
		return err
	}
	if before.Origin != FromOperator {
		if err := c.setHardware(ctx, node, LearnHardware(known, agentwire.Hardware{}), FromMAAS); err != nil {
			return err
		}
	}
	if err := c.ExpectAddress(ctx, nodedb.ExpectAddressParams{
		NodeID:          node,
		AddressRequired: addressRequired,
	}); err != nil {
		return fmt.Errorf("note address that is expected: %w", err)
	}
	return nil
}

// ExpectFrom stores the addresses that MAAS gave the machine of a node. If
// nothing else is known of the node's machine, it stores nothing.
func (s *Service) ExpectFrom(ctx context.Context, node id.Node, addresses []string) error {
	if err := s.reads.SetAddresses(ctx, nodedb.SetAddressesParams{NodeID: node, Addresses: addresses}); err != nil {
		return fmt.Errorf("note addresses of machine: %w", err)
	}
	return nil
}

func (c change) setHardware(ctx context.Context, node id.Node, known agentwire.Hardware, by Origin) error {
	raw, err := json.Marshal(known)
	if err != nil {
		return fmt.Errorf("encode hardware: %w", err)
	}
	if err := c.SetHardware(ctx, nodedb.SetHardwareParams{NodeID: node, Known: raw, Origin: string(by)}); err != nil {
		return fmt.Errorf("note hardware of node: %w", err)
	}
	return nil
}

// refuses says why a machine may not enrol as a node. It returns nil if nothing
// that is known contradicts the machine. The refusal names the field but not
// its known value; why is for operators.
func (m Machine) refuses(said *agentwire.Hardware, from string) (refusal error, why string) { //nolint:revive,staticcheck // the refusal is what it is about
	if said == nil {
		if !identifies(m.Known) {
			return nil, "" // an agent of an earlier release; reconciliation reports a finding about it
		}
		return fault.New(fault.Forbidden, agentwire.CodeHardwareMissing,
				"the agent does not say which machine it runs on, and for this node that is known").
				WithRemedy("install the agent that this control plane publishes: run the bootstrap command of the node"),
			"its agent does not say which machine it runs on"
	}
	if wrong := CompareHardware(m.Known, *said); len(wrong) > 0 {
		return fault.New(fault.Forbidden, agentwire.CodeHardwareMismatch, "this is not the machine that the node is: %s",
			fieldsOf(wrong)).
			WithRemedy("an operator reads what differs with gpuaas node hardware NODE, and accepts a part that was replaced " +
				"with the command that is shown there"), told(wrong)
	}
	switch at, err := netip.ParseAddr(from); {
	case !m.AddressRequired:
	case len(m.Addresses) == 0:
		return fault.New(fault.Unavailable, "node_address_unknown",
			"the site demands that nodes enrol from their own address, and MAAS has not said yet which that is").
			WithRemedy("it is asked again by itself"), ""
	case err != nil || !slices.Contains(m.Addresses, at.Unmap().String()):
		return fault.New(fault.Forbidden, agentwire.CodeAddressMismatch,
				"this is not the machine that the node is: source address").
				WithRemedy("an operator reads what differs with gpuaas node hardware NODE"),
			fmt.Sprintf("its source address is %s, and MAAS gave it %s", from, someOf(m.Addresses))
	}
	return nil, ""
}

// strange reports whether a machine enrols from an address that is not known
// for it. That is only recorded, because a load balancer may stand in between.
func (m Machine) strange(n Node, from string) bool {
	at, err := netip.ParseAddr(from)
	if err != nil {
		return false
	}
	if len(m.Addresses) > 0 {
		return !slices.Contains(m.Addresses, at.Unmap().String())
	}
	return strays(n.Host, []netip.Addr{at.Unmap()})
}

// claim is a machine that wants to enrol as a node.
type claim struct {
	token nodedb.NodeToken
	said  *agentwire.Hardware
	from  string
}

// refuseMachine stores which machine was refused. It also revokes the token,
// because a machine that should not have it has shown it.
func (s *Service) refuseMachine(ctx context.Context, c change, n Node, k claim, why string) error {
	raw, err := claimed(k.said)
	if err != nil {
		return err
	}
	if err := c.RefuseHardware(ctx, nodedb.RefuseHardwareParams{NodeID: n.ID, Refused: raw, RefusedWhy: why}); err != nil {
		return fmt.Errorf("note refused hardware: %w", err)
	}
	cause := fmt.Sprintf("another machine came with the token of the node from %s: %s", k.from, why)
	if n.joining() {
		return s.void(ctx, c, n, "hardware:"+k.from, cause)
	}
	if err := c.RevokeToken(ctx, k.token.TokenHash); err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	return c.conflict(ctx, n, "hardware:"+k.from, cause)
}

// claimed returns what an operator may accept of a machine's claim. It returns
// nil if there is nothing; then the earlier claim stays, which an operator may
// be reading.
func claimed(said *agentwire.Hardware) (json.RawMessage, error) {
	if said == nil || !identifies(*said) {
		return nil, nil
	}
	raw, err := json.Marshal(LearnHardware(agentwire.Hardware{}, *said))
	if err != nil {
		return nil, fmt.Errorf("encode hardware: %w", err)
	}
	return raw, nil
}

// joining reports whether the node is on its way into the fleet, so that no
// machine is established as the node yet.
func (n Node) joining() bool { return n.Status.Is(Joining) }

// void revokes everything by which a machine could become a node that is still
// enrolling: two machines claim to be it, and nobody can tell which one is. It
// wakes the workflow that awaits the node.
func (s *Service) void(ctx context.Context, c change, n Node, what, cause string) error {
	if _, err := c.disown(ctx, n.ID, cause); err != nil {
		return err
	}
	if err := s.onRevoked(ctx, c.tx, n.ID); err != nil {
		return fmt.Errorf("end what node %s holds: %w", n.ID, err)
	}
	row, err := c.VoidIdentity(ctx, nodedb.VoidIdentityParams{ID: n.ID, IdentityVoid: cause})
	if err != nil {
		return fmt.Errorf("void identity of node: %w", err)
	}
	err = c.record(ctx, nodeFrom(row), entry{
		kind: KindIdentityConflict, event: what, cause: cause, action: "node.void_identity", result: audit.Denied,
		tell: eventwire.NodeIdentityConflict,
	})
	if err != nil || n.AwaitedBy == "" {
		return err
	}
	return outbox.SignalWorkflow(ctx, c.tx, outbox.WorkflowSignal{WorkflowID: n.AwaitedBy, Name: EnrolledSignal})
}

// tookBack asks the PKI to revoke the certificates that void revoked. The
// control plane refuses them already, so a failure of the PKI is only logged.
func (s *Service) tookBack(ctx context.Context, node id.Node) {
	serials, err := s.reads.RevokedSerials(ctx, node)
	if err == nil {
		err = s.takeBack(ctx, serials)
	}
	if err != nil {
		s.logger.WarnContext(ctx, "certificates of a voided identity were not taken back by the PKI, and are refused here "+
			"all the same", "node_id", node.String(), "error", err)
	}
}

// learn stores what a machine that was admitted says about itself.
func (c change) learn(ctx context.Context, node id.Node, before Machine, said *agentwire.Hardware, by Origin) error {
	if said == nil || !identifies(*said) {
		return nil
	}
	after := LearnHardware(before.Known, *said)
	if before.Origin != "" && identifies(before.Known) {
		by = before.Origin
	}
	if same, err := equalHardware(before.Known, after); err != nil || same && before.Origin == by {
		return err
	}
	return c.setHardware(ctx, node, after, by)
}

func equalHardware(a, b agentwire.Hardware) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, fmt.Errorf("encode hardware: %w", err)
	}
	y, err := json.Marshal(b)
	return string(x) == string(y), err
}

// doubtHardware raises an alarm when the agent of a node reports another
// machine than the node is known to be. The node keeps its identity, because
// somebody may have replaced a part.
func (s *Service) doubtHardware(ctx context.Context, c change, n Node, said *agentwire.Hardware) error {
	if said == nil {
		return nil
	}
	m, err := machineFrom(c.Hardware(ctx, n.ID))
	if err != nil {
		return err
	}
	wrong := CompareHardware(m.Known, *said)
	if len(wrong) == 0 {
		return c.learn(ctx, n.ID, m, said, FromReport)
	}
	raw, err := claimed(said)
	if err != nil {
		return err
	}
	why := told(wrong)
	if err := c.RefuseHardware(ctx, nodedb.RefuseHardwareParams{NodeID: n.ID, Refused: raw, RefusedWhy: why}); err != nil {
		return fmt.Errorf("note refused hardware: %w", err)
	}
	return c.conflict(ctx, n, "report:"+fieldsOf(wrong), "the agent reports another machine than the node is: "+why)
}

// AcceptHardware makes the machine that was refused last the one that the node
// is, such as after its mainboard was replaced. The claim is the one that the
// operator has read: another machine may have been refused since. It gives nobody
// an identity: the machine enrols with a new token.
func (s *Service) AcceptHardware(ctx context.Context, node id.Node, claim, reason string) (Machine, error) {
	var after Machine
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		m, err := machineFrom(c.Hardware(ctx, node))
		if err != nil {
			return err
		}
		if err := m.acceptable(n, claim); err != nil {
			return err
		}
		raw, err := json.Marshal(*m.Refused)
		if err != nil {
			return fmt.Errorf("encode hardware: %w", err)
		}
		if err := c.AcceptHardware(ctx, nodedb.AcceptHardwareParams{NodeID: node, Known: raw}); err != nil {
			return fmt.Errorf("accept hardware of node: %w", err)
		}
		if after, err = machineFrom(c.Hardware(ctx, node)); err != nil {
			return err
		}
		return c.record(ctx, n, entry{
			kind: KindUpdated, event: "accept_hardware", cause: reason, action: "node.accept_hardware",
			tell:     eventwire.NodeUpdated,
			metadata: map[string]any{"was": m.Known, "is": after.Known, "was_refused_because": m.RefusedWhy, "claim": claim},
		})
	})
	return after, err
}

// acceptable says why the claim that an operator names cannot be accepted.
func (m Machine) acceptable(n Node, claim string) error {
	if m.Refused == nil {
		return fault.New(fault.Conflict, "hardware_not_refused",
			"no machine was refused as %s, so there is none to accept", n.Hostname).
			WithRemedy("let the machine enrol first: gpuaas node bootstrap NODE --recovery; " +
				"what it says is kept when it is refused")
	}
	const read = "read which machine was refused with gpuaas node hardware NODE, and accept it with the command " +
		"that is shown there; a command line that has no --claim must be updated"
	if claim == "" {
		return fault.New(fault.Invalid, "hardware_claim_missing",
			"the request does not say which claim of a machine it accepts for %s", n.Hostname).WithRemedy(read).
			WithFields(fault.Field{Path: "body.claim", Message: "must be the refused_claim of the hardware of the node"})
	}
	now, err := claimOf(*m.Refused)
	if err != nil || claim == now {
		return err
	}
	at := "meanwhile"
	if m.RefusedAt != nil {
		at = "at " + m.RefusedAt.UTC().Format(time.RFC3339)
	}
	return fault.New(fault.Conflict, "hardware_claim_changed",
		"the claim that you accept is not the one that was refused last as %s: %s a machine was refused that says %s; %s",
		n.Hostname, at, described(*m.Refused), m.RefusedWhy).
		WithRemedy(read)
}
