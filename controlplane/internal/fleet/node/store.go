package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

func nodeFrom(r nodedb.Node) Node {
	return Node{
		ID: r.ID, Status: Status(r.Status), Hostname: r.Hostname, Host: r.Host, Port: r.Port, SKU: r.SkuID,
		GPUsTotal:  r.GpusTotal,
		Grouping:   Grouping{Rack: r.Rack, Pool: r.Pool, Labels: labelsFrom(r.Labels)},
		RegionCode: r.RegionCode, OnboardingMode: Mode(r.OnboardingMode), SSHUsername: r.SshUsername,
		AccessMethod: r.AccessMethod,
		Schedulable:  r.Schedulable, HoldReason: r.HoldReason, HeldUnclean: r.HeldUnclean, HeldBy: r.HeldBy,
		TaintedAt: r.TaintedAt, CleanAt: r.CleanAt, Generation: r.Generation,
		Root: Root{
			At: r.RootAt, Cause: RootCause(r.RootCause), EndedAt: r.RootEndedAt, Risk: r.RootRisk, AcceptedBy: r.RootAcceptedBy,
		},
		Installation: Installation{MadeAt: r.InstalledAt, By: r.InstalledBy, Generation: r.InstalledGeneration},
		AgentChannel: Channel(r.AgentChannel), DesiredAgentVersion: r.DesiredAgentVersion,
		DesiredDeliveryMode:  Delivery(r.DesiredDeliveryMode),
		ReportedAgentVersion: r.ReportedAgentVersion, ReportedAgentCommit: r.ReportedAgentCommit,
		LastDeliveryAttemptAt: r.LastDeliveryAttemptAt, LastDeliveryResult: r.LastDeliveryResult,
		LastDeliveryCorrelationID: r.LastDeliveryCorrelationID, AgentInstance: r.AgentInstance,
		VerifierVersion: r.VerifierVersion,
		TrustBundle:     r.TrustBundle, TrustRefused: r.TrustRefused,
		CertificateNotAfter: r.CertificateNotAfter, AwaitedBy: r.AwaitedBy, FirstPollAt: r.FirstPollAt,
		IdentityVoid: r.IdentityVoid, HardwareSaid: r.HardwareSaid, Capabilities: r.Capabilities,
		Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, StatusChangedAt: r.StatusChangedAt,
	}
}

// labelsFrom reads the labels of a row. The database holds an object of words.
func labelsFrom(stored json.RawMessage) map[string]string {
	labels := map[string]string{}
	if err := json.Unmarshal(stored, &labels); err != nil || len(labels) == 0 {
		return nil
	}
	return labels
}

func labelsOf(labels map[string]string) (json.RawMessage, error) {
	if labels == nil {
		labels = map[string]string{}
	}
	stored, err := json.Marshal(labels)
	if err != nil {
		return nil, fmt.Errorf("encode labels: %w", err)
	}
	return stored, nil
}

// read turns a missing row into the fault that callers expect.
func read(row nodedb.Node, err error) (Node, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Node{}, notFound()
	}
	if err != nil {
		return Node{}, fmt.Errorf("read node: %w", err)
	}
	return nodeFrom(row), nil
}

// Get reads one node through a pool or a transaction.
func Get(ctx context.Context, db nodedb.DBTX, node id.Node) (Node, error) {
	row, err := nodedb.New(db).Node(ctx, node)
	found, err := read(row.Node, err)
	found.LastContactAt, found.verifiersWanted, found.channelWants = row.LastContactAt, row.VerifiersWanted,
		row.ChannelWants
	found.AgentMemory, found.AgentStartedAt = row.AgentMemory, row.AgentStartedAt
	return found, err
}

// Many reads nodes through a pool or a transaction, in the order of their ids.
// It leaves out nodes that do not exist.
func Many(ctx context.Context, db nodedb.DBTX, nodes []id.Node) ([]Node, error) {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.String()
	}
	rows, err := nodedb.New(db).Many(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	out := make([]Node, len(rows))
	for i, r := range rows {
		out[i] = nodeFrom(r.Node)
		out[i].LastContactAt, out[i].verifiersWanted, out[i].channelWants = r.LastContactAt, r.VerifiersWanted, r.ChannelWants
		out[i].AgentMemory, out[i].AgentStartedAt = r.AgentMemory, r.AgentStartedAt
	}
	return out, nil
}

// Share reads a node and prevents changes of its state and generation until the
// transaction ends.
func Share(ctx context.Context, tx pgx.Tx, node id.Node) (Node, error) {
	return read(nodedb.New(tx).ShareNode(ctx, node))
}

type change struct {
	tx pgx.Tx
	*nodedb.Queries
}

// inChange runs a command. Its changes, history, audit entry and events commit
// together or not at all.
func (s *Service) inChange(ctx context.Context, fn func(ctx context.Context, c change) error) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return fn(ctx, changeIn(tx)) })
}

func changeIn(tx pgx.Tx) change { return change{tx: tx, Queries: nodedb.New(tx)} }

// inspected stores what was found on a machine, and adds it to the node for the
// history.
func (c change) inspected(ctx context.Context, n Node, i inspection) (Node, error) {
	if err := c.SetInspection(ctx, nodedb.SetInspectionParams{NodeID: n.ID, Found: i.found}); err != nil {
		return Node{}, fmt.Errorf("note inspection of node: %w", err)
	}
	n.Inspection = i.found
	return n, nil
}

func (c change) lock(ctx context.Context, node id.Node) (Node, error) {
	return read(c.LockNode(ctx, node))
}

// Kind says what a history entry is about.
type Kind string

// The kinds.
const (
	KindCreated            Kind = "created"
	KindStateChanged       Kind = "state_changed"
	KindUpdated            Kind = "updated"
	KindEnrolled           Kind = "enrolled"
	KindCertificateRenewed Kind = "certificate_renewed"
	KindCertificateRevoked Kind = "certificate_revoked"
	KindIdentityConflict   Kind = "identity_conflict"
	KindAgentReported      Kind = "agent_reported"
	KindObserved           Kind = "observed"
)

// kinds lists them for the contract.
var kinds = []Kind{
	KindCreated, KindStateChanged, KindUpdated, KindEnrolled, KindCertificateRenewed, KindCertificateRevoked,
	KindIdentityConflict, KindAgentReported, KindObserved,
}

// entry is one change of a node for the history, the audit log and the events.
type entry struct {
	kind     Kind
	event    string // event of the lifecycle, or what tells conflicts apart
	from     Status // the state before, if it changed
	cause    string
	action   string         // of the audit entry
	result   audit.Result   // empty: success
	metadata map[string]any // of the audit entry
	tell     eventwire.Type // empty: no event
}

// record writes a change of a node to its history and to the audit log, and
// publishes its event.
func (c change) record(ctx context.Context, n Node, e entry) error {
	snapshot, err := snapshotOf(n, e.kind)
	if err != nil {
		return err
	}
	who := auth.From(ctx)
	row := nodedb.InsertEventParams{
		NodeID: n.ID, Kind: string(e.kind), Event: e.event, Cause: e.cause, ActorKind: string(who.Kind), ActorID: who.ID,
		CorrelationID: telemetry.Correlation(ctx), Snapshot: snapshot,
	}
	if e.from != "" {
		row.FromStatus, row.ToStatus = string(e.from), string(n.Status)
	}
	if err := c.InsertEvent(ctx, row); err != nil {
		return fmt.Errorf("write history of node: %w", err)
	}
	if err := c.audit(ctx, n, e); err != nil || e.tell == "" {
		return err
	}
	return outbox.Append(ctx, c.tx, outbox.Event{
		Type: e.tell, AggregateKind: "node", AggregateID: n.ID.String(),
		Payload: eventwire.Node{
			NodeID: n.ID.String(), Hostname: n.Hostname, RegionCode: n.RegionCode, SKUID: n.SKU, Status: string(n.Status),
			PriorStatus: string(e.from), Schedulable: n.Schedulable, Cause: e.cause, Version: n.Version,
		},
	})
}

func (c change) audit(ctx context.Context, n Node, e entry) error {
	metadata := map[string]any{"hostname": n.Hostname, "status": n.Status}
	for k, v := range e.metadata {
		metadata[k] = v
	}
	if e.from != "" {
		metadata["prior_status"] = e.from
	}
	result := e.result
	if result == "" {
		result = audit.Success
	}
	return audit.Record(ctx, c.tx, audit.Entry{
		Action: e.action, TargetKind: "node", TargetID: n.ID.String(), Result: result, Reason: e.cause, Metadata: metadata,
	})
}

// snapshotOf returns the state of a node for the history. For a renewed
// certificate it keeps nothing: that changes nothing of the node and happens
// every day.
func snapshotOf(n Node, kind Kind) (json.RawMessage, error) {
	if kind == KindCertificateRenewed {
		return json.RawMessage(`{}`), nil
	}
	b, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot of node: %w", err)
	}
	return b, nil
}
