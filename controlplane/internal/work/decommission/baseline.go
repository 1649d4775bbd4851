package decommission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
)

// compared adds the differences between the installation and its baseline to
// what the agent found. If the baseline never arrived, it adds a named gap. If
// there is a baseline but the agent does not deliver the inventory to compare
// with, the node is not clean: somebody with root may have switched the
// comparison off.
func (s *Service) compared(ctx context.Context, d Decommission, out agentwire.ValidateCleanOutput,
	allowed []string,
) (agentwire.ValidateCleanOutput, error) {
	now := out.Inventory
	out.Inventory, out.Baseline, out.NotCompared = nil, agentwire.BaselineMissing, nil
	look := agentwire.CheckedKind{Kind: node.KindBaseline, Result: "not_applicable"}
	b, why, err := s.baselineFor(ctx, d, now)
	if err != nil {
		return out, err
	}
	switch {
	case why.finding != nil:
		look.Result, look.Detail = "findings", why.finding.Detail
		out.Findings = append(out.Findings, *why.finding)
	case why.gap != "":
		look.Detail = why.gap
	default:
		found := b.Compare(*now, node.Comparison{Allowed: allowed, Delivered: s.delivered})
		out.Findings, out.Baseline = append(out.Findings, found...), agentwire.ComparedWithBaseline
		look.Result, look.Detail = "clean", fmt.Sprintf("%d entries compared with the baseline of %s, %s", len(now.Entries),
			stamp(b.TakenAt), b.Digest)
		if out.NotCompared = b.Uncovered(); len(out.NotCompared) > 0 {
			look.Detail += "; taken by an agent that did not look at " + strings.Join(out.NotCompared, ", ")
		}
		if len(found) > 0 {
			look.Result = "findings"
		}
	}
	out.Clean = out.Clean && len(out.Findings) == 0
	out.Checked = append(out.Checked, look)
	return out, nil
}

// incomparable says why an installation cannot be compared with a baseline.
type incomparable struct {
	gap     string
	finding *agentwire.CleanFinding
}

// baselineFor returns the baseline of the installation, or why there is nothing
// to compare.
func (s *Service) baselineFor(ctx context.Context, d Decommission, now *agentwire.Inventory) (node.Baseline,
	incomparable, error,
) {
	withheld := func(why string) (node.Baseline, incomparable, error) {
		f := node.Withheld(why)
		return node.Baseline{}, incomparable{finding: &f}, nil
	}
	present, has, err := s.nodes.PresentBaseline(ctx, d.Node)
	switch {
	case err != nil:
		return node.Baseline{}, incomparable{}, err
	case now == nil && has:
		return withheld("there is a baseline of it, and its agent does not say any more what the installation is like")
	case now == nil:
		return node.Baseline{}, incomparable{gap: "its agent does not say what the installation is like"}, nil
	}
	if unusable := now.Validate(); unusable != nil {
		f := agentwire.CleanFinding{
			Kind: node.KindBaseline, Subject: "inventory",
			Detail: "what its agent says of the installation cannot be used: " + unusable.Error(),
		}
		return node.Baseline{}, incomparable{finding: &f}, nil //nolint:nilerr // it is a finding, which is worse
	}
	if has && now.Installation != present {
		return withheld("it is not the installation that the node enrolled from: its machine id, or its mainboard, is another one than in its baseline")
	}
	b, ok, err := s.nodes.BaselineOf(ctx, d.Node, now.Installation)
	if err == nil && !ok {
		return b, incomparable{gap: "no baseline of this installation was taken before tenants came"}, nil
	}
	return b, incomparable{}, err
}

// witnessedAs makes evidence of a task whose output the control plane has
// completed.
func witnessedAs(kind string, t agenttask.Task, out any) ([]job.Evidence, error) {
	s := seenOf(t)
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode evidence of task %s: %w", t.ID, err)
	}
	s.Output = raw
	return []job.Evidence{{Kind: kind, Value: s}}, nil
}

// withoutBaseline adds the gap that a validation without a baseline leaves.
func (b *builder) withoutBaseline(out agentwire.ValidateCleanOutput) {
	if out.Baseline == agentwire.ComparedWithBaseline {
		if len(out.NotCompared) > 0 {
			b.gap("what was added to "+strings.Join(out.NotCompared, ", "),
				"the agent that took the baseline did not look there; the next installation gets another one")
		}
		return
	}
	why := "the validation was made before baselines were kept"
	for _, c := range out.Checked {
		if c.Kind == node.KindBaseline {
			why = c.Detail
		}
	}
	b.gap("accounts, set-id files, units, jobs, keys, modules and sockets that were added to the installation",
		why+"; the next installation gets a baseline")
}
