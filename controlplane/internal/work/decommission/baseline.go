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

// kindBaseline is how a validation tells of the comparison with the baseline.
const kindBaseline = "baseline"

// compared adds to what an agent found in what its installation differs from its
// baseline. An agent that does not say what the installation is like, and an
// installation without a baseline, leave a gap that is named.
func (s *Service) compared(ctx context.Context, d Decommission, out agentwire.ValidateCleanOutput, allowed []string) (agentwire.ValidateCleanOutput, error) {
	now := out.Inventory
	out.Inventory, out.Baseline, out.NotCompared = nil, agentwire.BaselineMissing, nil
	look := agentwire.CheckedKind{Kind: kindBaseline, Result: "not_applicable", Detail: "its agent does not say what the installation is like"}
	if now != nil {
		b, ok, err := s.nodes.BaselineOf(ctx, d.Node, now.Installation)
		switch invalid := now.Validate(); {
		case err != nil:
			return out, err
		case invalid != nil:
			look.Detail = "what its agent says of the installation cannot be used"
			out.Findings = append(out.Findings, agentwire.CleanFinding{Kind: kindBaseline, Subject: "inventory", Detail: invalid.Error()})
		case !ok:
			look.Detail = "no baseline of this installation was taken before tenants came"
		default:
			found := b.Compare(*now, node.Comparison{Allowed: allowed, Delivered: s.delivered})
			out.Findings, out.Baseline = append(out.Findings, found...), agentwire.ComparedWithBaseline
			look.Result, look.Detail = "clean", fmt.Sprintf("%d entries compared with the baseline of %s, %s", len(now.Entries), stamp(b.TakenAt), b.Digest)
			if out.NotCompared = b.Uncovered(); len(out.NotCompared) > 0 {
				look.Detail += "; taken by an agent that did not look at " + strings.Join(out.NotCompared, ", ")
			}
			if len(found) > 0 {
				look.Result = "findings"
			}
		}
	}
	out.Clean = out.Clean && len(out.Findings) == 0
	out.Checked = append(out.Checked, look)
	return out, nil
}

// witnessedAs is the evidence of a task with what the control plane made of its
// output.
func witnessedAs(kind string, t agenttask.Task, out any) ([]job.Evidence, error) {
	s := seenOf(t)
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode evidence of task %s: %w", t.ID, err)
	}
	s.Output = raw
	return []job.Evidence{{Kind: kind, Value: s}}, nil
}

// withoutBaseline names what a validation could not see.
func (b *builder) withoutBaseline(out agentwire.ValidateCleanOutput) {
	if out.Baseline == agentwire.ComparedWithBaseline {
		if len(out.NotCompared) > 0 {
			b.gap("what was added to "+strings.Join(out.NotCompared, ", "), "the agent that took the baseline did not look there; the next installation gets another one")
		}
		return
	}
	why := "the validation was made before baselines were kept"
	for _, c := range out.Checked {
		if c.Kind == kindBaseline {
			why = c.Detail
		}
	}
	b.gap("accounts, set-id files, units, jobs, keys, modules and sockets that were added to the installation", why+"; the next installation gets a baseline")
}
