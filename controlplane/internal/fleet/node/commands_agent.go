package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Report stores what an agent says about itself and its machine, if it is new.
func (s *Service) Report(ctx context.Context, node id.Node, r agentwire.Report) error {
	if err := s.report(ctx, node, r); err != nil {
		return err
	}
	n, err := s.Node(ctx, node)
	if err != nil {
		return err
	}
	return s.onReport(ctx, node, n.Generation, r.Capabilities)
}

func (s *Service) report(ctx context.Context, node id.Node, r agentwire.Report) error {
	seen, err := inspectionOf(r.Capabilities)
	if err != nil {
		return err
	}
	if err := checkSaid(r.Build, seen); err != nil {
		return err
	}
	known, err := s.Detail(ctx, node)
	if err != nil {
		return err
	}
	if same, err := said(known, r, seen); err != nil || same {
		return err
	}
	return s.inChange(asAgent(ctx, node), func(ctx context.Context, c change) error {
		before, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		if err := s.doubtReport(ctx, c, before, r.Capabilities.Addresses); err != nil {
			return err
		}
		if err := s.doubtHardware(ctx, c, before, r.Hardware); err != nil {
			return err
		}
		row, err := c.SetReport(ctx, nodedb.SetReportParams{
			ID: node, ReportedAgentVersion: r.Build.Version, ReportedAgentCommit: r.Build.Commit,
			VerifierVersion: r.VerifierVersion, Capabilities: seen.facts, HardwareSaid: r.Hardware != nil,
		})
		if err != nil {
			return fmt.Errorf("note report of agent: %w", err)
		}
		after, err := c.inspected(ctx, nodeFrom(row), seen)
		if err != nil {
			return err
		}
		if err := c.tellDrift(ctx, known, after, s.now()); err != nil {
			return err
		}
		return c.record(ctx, after, entry{
			kind: KindAgentReported, cause: "the agent reported something new", action: "node.report",
			tell:     eventwire.NodeUpdated,
			metadata: map[string]any{"agent_version": r.Build.Version, "verifier_version": r.VerifierVersion},
		})
	})
}

// maxInspection bounds what the node and each history entry about it keep of
// one machine: several times what the largest machines report.
const maxInspection = 64 << 10

// checkSaid refuses content that an agent must not make the control plane
// store.
func checkSaid(b agentwire.Build, seen inspection) error {
	var fields []fault.Field
	refuse := func(field, message string) {
		fields = append(fields, fault.Field{Path: "body." + field, Message: message})
	}
	for _, part := range []struct{ field, value string }{{"build.version", b.Version}, {"build.commit", b.Commit}} {
		if !versionForm.MatchString(part.value) {
			refuse(part.field, "must be letters, digits and . _ + -, 64 characters at most")
		}
	}
	if len(seen.found) > maxInspection {
		refuse("capabilities", fmt.Sprintf("must have %d bytes at most as JSON, not %d", maxInspection, len(seen.found)))
	}
	if hasNUL(seen.found) {
		refuse("capabilities", "must not hold a NUL character")
	}
	return rejected(fields)
}

// hasNUL finds NUL, the one character that JSON can carry and the database
// cannot.
func hasNUL(document json.RawMessage) bool {
	return strings.Contains(strings.ReplaceAll(string(document), `\\`, ""), `\u0000`)
}

// said says whether a report differs from what is stored. The database
// normalises JSON, so said decodes and encodes the stored JSON before it
// compares.
func said(n Node, r agentwire.Report, seen inspection) (bool, error) {
	if n.ReportedAgentVersion != r.Build.Version || n.ReportedAgentCommit != r.Build.Commit ||
		n.VerifierVersion != r.VerifierVersion ||
		n.Inspection == nil || n.HardwareSaid != (r.Hardware != nil) {
		return false, nil
	}
	var known agentwire.Capabilities
	if err := json.Unmarshal(n.Inspection, &known); err != nil {
		return false, fmt.Errorf("decode inspection of node %s: %w", n.ID, err)
	}
	again, err := inspectionOf(known)
	return bytes.Equal(again.found, seen.found), err
}

// AcceptedVerifiers stores the version of the verifiers that an agent says it
// uses, if it is new. Callers compare it with Identity.VerifierVersion first,
// to save the write.
func (s *Service) AcceptedVerifiers(ctx context.Context, node id.Node, version int64) error {
	if err := s.reads.SetVerifiers(ctx, nodedb.SetVerifiersParams{ID: node, VerifierVersion: version}); err != nil {
		return fmt.Errorf("note verifiers of node: %w", err)
	}
	return nil
}

// VerifiersBehind counts the nodes whose agents have not accepted a version of
// the verifiers, and names some. It does not count nodes that never enrolled:
// they get the newest verifiers with their certificate.
func (s *Service) VerifiersBehind(ctx context.Context, version int64) (count int, sample []id.Node, err error) {
	const most = 20
	rows, err := s.reads.VerifiersBehind(ctx, nodedb.VerifiersBehindParams{VerifierVersion: version, Limit: most})
	if err != nil {
		return 0, nil, fmt.Errorf("list nodes with older verifiers: %w", err)
	}
	for _, r := range rows {
		count = int(r.Total)
		sample = append(sample, r.ID)
	}
	return count, sample, nil
}

// NoteTrust stores with what an agent verifies the control plane, and what it
// last refused to trust. A new refusal goes into the history and the audit log,
// because somebody may have answered in place of the control plane.
func (s *Service) NoteTrust(ctx context.Context, i Identity, bundle, refused string) error {
	return s.inChange(asAgent(ctx, i.Node), func(ctx context.Context, c change) error {
		row, err := c.SetTrust(ctx, nodedb.SetTrustParams{ID: i.Node, TrustBundle: bundle, TrustRefused: refused})
		if err != nil {
			return fmt.Errorf("note what node trusts: %w", err)
		}
		if refused == "" || refused == i.TrustRefused {
			return nil
		}
		return c.record(ctx, nodeFrom(row), entry{
			kind: KindAgentReported, cause: "the agent refused to trust what it was told: " + refused,
			action: "node.trust_refused",
			result: audit.Denied, tell: eventwire.NodeUpdated,
			metadata: map[string]any{"refused": refused, "trust_bundle": bundle},
		})
	})
}

// BundleBehind counts the nodes that have an agent, and those of them that do
// not yet verify the control plane with the bundle of this fingerprint. It
// names some of the latter.
func (s *Service) BundleBehind(ctx context.Context, fingerprint string) (
	nodes, behind int, sample []id.Node, err error,
) {
	const most = 20
	all, err := s.reads.Enrolled(ctx)
	if err != nil {
		return 0, 0, nil, fmt.Errorf("count nodes: %w", err)
	}
	rows, err := s.reads.BundleBehind(ctx, nodedb.BundleBehindParams{TrustBundle: fingerprint, Limit: most})
	if err != nil {
		return 0, 0, nil, fmt.Errorf("list nodes with another bundle: %w", err)
	}
	for _, r := range rows {
		behind = int(r.Total)
		sample = append(sample, r.ID)
	}
	return int(all), behind, sample, nil
}
