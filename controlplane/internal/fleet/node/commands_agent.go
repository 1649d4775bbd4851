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

// Report notes what an agent says about itself and its machine, if it is new.
func (s *Service) Report(ctx context.Context, node id.Node, r agentwire.Report) error {
	seen, err := inspectionOf(r.Capabilities)
	if err != nil {
		return err
	}
	if err := checkSaid(r.Build, seen); err != nil {
		return err
	}
	if same, err := s.said(ctx, node, r, seen); err != nil || same {
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
		return c.record(ctx, after, entry{
			kind: KindAgentReported, cause: "the agent reported something new", action: "node.report", tell: eventwire.NodeUpdated,
			metadata: map[string]any{"agent_version": r.Build.Version, "verifier_version": r.VerifierVersion},
		})
	})
}

// maxInspection bounds what is kept about one machine, in every entry of its
// history that is about it: several times what the largest machines report.
const maxInspection = 64 << 10

// checkSaid refuses what an agent must not make the control plane keep.
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

// hasNUL finds the one character that JSON can carry and the database cannot.
func hasNUL(document json.RawMessage) bool {
	return strings.Contains(strings.ReplaceAll(string(document), `\\`, ""), `\u0000`)
}

// said compares a report with what is known. The database keeps JSON in a form
// of its own, so what it holds is read and written again first.
func (s *Service) said(ctx context.Context, node id.Node, r agentwire.Report, seen inspection) (bool, error) {
	n, err := s.Detail(ctx, node)
	if err != nil {
		return false, err
	}
	if n.ReportedAgentVersion != r.Build.Version || n.ReportedAgentCommit != r.Build.Commit || n.VerifierVersion != r.VerifierVersion ||
		n.Inspection == nil || n.HardwareSaid != (r.Hardware != nil) {
		return false, nil
	}
	var known agentwire.Capabilities
	if err := json.Unmarshal(n.Inspection, &known); err != nil {
		return false, fmt.Errorf("decode inspection of node %s: %w", node, err)
	}
	again, err := inspectionOf(known)
	return bytes.Equal(again.found, seen.found), err
}

// AcceptedVerifiers notes the version of the verifiers that an agent says it
// uses, if it is new. Compare it with Identity.VerifierVersion first.
func (s *Service) AcceptedVerifiers(ctx context.Context, node id.Node, version int64) error {
	if err := s.reads.SetVerifiers(ctx, nodedb.SetVerifiersParams{ID: node, VerifierVersion: version}); err != nil {
		return fmt.Errorf("note verifiers of node: %w", err)
	}
	return nil
}

// VerifiersBehind counts the nodes whose agents have not accepted a version of
// the verifiers, and names some. A node that never enrolled is none of them: it
// gets the newest verifiers with its certificate.
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

// NoteTrust notes what an agent verifies the control plane with and what it
// last refused to trust. A refusal that is new goes into the history and the
// audit log: somebody may have answered in place of the control plane.
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
			kind: KindAgentReported, cause: "the agent refused to trust what it was told: " + refused, action: "node.trust_refused",
			result: audit.Denied, tell: eventwire.NodeUpdated, metadata: map[string]any{"refused": refused, "trust_bundle": bundle},
		})
	})
}

// BundleBehind counts the nodes that have an agent, and those of them that do
// not verify the control plane with the bundle of a fingerprint; it names some.
func (s *Service) BundleBehind(ctx context.Context, fingerprint string) (nodes, behind int, sample []id.Node, err error) {
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
