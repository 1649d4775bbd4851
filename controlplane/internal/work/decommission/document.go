package decommission

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// document builds the certificate that the evidence of an operation supports:
// it claims nothing that was not seen, and names everything that was not
// covered.
func document(d Decommission, n node.Node, evidence []Evidence, now time.Time) (certificate.Document, error) {
	b := builder{d: d, node: n, doc: certificate.Document{
		Kind:    certificate.Certificate,
		Node:    certificate.Node{ID: d.Node.String(), Hostname: n.Hostname, SKU: n.SKU, Region: n.RegionCode},
		Machine: certificate.Machine{SystemID: d.SystemID, Serials: []certificate.Serial{}},
		Operation: certificate.Operation{
			DecommissionID: d.ID.String(), Mode: string(d.Mode), Reason: d.Reason, RequestedBy: d.requester(),
			RequestedAt: d.RequestedAt.UTC(),
			StartedAt:   at(d.StartedAt, d.RequestedAt), EndedAt: now.UTC(),
			Actors: []certificate.Actor{{Name: d.requester(), Did: "asked for it: " + d.Reason, At: d.RequestedAt.UTC()}},
		},
		Subjects: []certificate.Subject{}, Reported: []certificate.Report{}, NotCovered: []certificate.Gap{},
		Downgrades: []certificate.Downgrade{}, Overrides: []certificate.Override{},
	}}
	if d.Mode == SoftReset {
		b.doc.Kind = certificate.HandoverReceipt
	}
	for _, o := range d.Overrides {
		b.doc.Overrides = append(b.doc.Overrides,
			certificate.Override{Stage: o.Stage, By: o.Actor, Why: o.Reason, ResidualRisk: o.ResidualRisk, At: o.At.UTC()})
		did := "went on without " + o.Stage
		if o.Stage == RootTaint {
			did = "accepted the risk of what somebody with root may have left"
		}
		b.doc.Operation.Actors = append(b.doc.Operation.Actors, certificate.Actor{Name: o.Actor, Did: did, At: o.At.UTC()})
		b.doc.Downgrades = append(b.doc.Downgrades, certificate.Downgrade{
			Subject: o.Stage, Requested: "done", Achieved: "passed over", Why: o.Reason, DecidedBy: o.Actor, At: o.At.UTC(),
			ResidualRisk: o.ResidualRisk,
		})
	}
	b.acceptedBefore()
	b.testimony()
	var err error
	if b.judged, err = judge(d, n, evidence); err != nil {
		return b.doc, err
	}
	for _, e := range latest(evidence) {
		if b.overtaken[e.Seq] != "" {
			continue
		}
		if err := b.hear(e); err != nil {
			return b.doc, err
		}
	}
	b.gaps()
	if err := b.diskGaps(); err != nil {
		return b.doc, err
	}
	b.doc.NoteShortfalls()
	return b.doc, nil
}

// requester names the person who asked for the operation, for readers who do
// not know our ids.
func (d Decommission) requester() string { return named(d.Requester, d.RequestedBy) }

func named(name, id string) string {
	if name == "" || name == id {
		return id
	}
	return fmt.Sprintf("%s (%s)", name, id)
}

// acted adds the actions that operators took during the operation, from its
// ledger, and names the operators behind decisions.
func acted(doc *certificate.Document, ledger []job.Event) {
	for _, e := range ledger {
		var by struct {
			Actor  string `json:"actor"`
			Action string `json:"action"`
		}
		if e.Status == job.OperatorAction && json.Unmarshal(e.Details, &by) == nil && by.Actor != "" {
			doc.Operation.Actors = append(doc.Operation.Actors,
				certificate.Actor{Name: by.Actor, Did: by.Action + " at " + e.Stage + ": " + e.Message, At: e.OccurredAt.UTC()})
			adopting(doc, by.Actor, by.Action)
		}
	}
}

// adopting names the last person who adopted the machine as it was.
func adopting(doc *certificate.Document, actor, action string) {
	if action != string(job.AdoptObserved) {
		return
	}
	for i, w := range doc.Downgrades {
		if strings.HasPrefix(w.DecidedBy, bringup.DecidedByAdopting) {
			doc.Downgrades[i].DecidedBy = bringup.DecidedByAdopting + ": " + actor
		}
	}
}

func at(t *time.Time, otherwise time.Time) time.Time {
	if t == nil {
		return otherwise.UTC()
	}
	return t.UTC()
}

// builder turns evidence into a document.
type builder struct {
	d    Decommission
	node node.Node
	doc  certificate.Document
	seen map[string]bool // the kinds of evidence found
	judged
	disks []disk // the disks that evidence mentions
}

func reference(e Evidence) ([]certificate.Evidence, error) {
	digest, err := certificate.DigestOf(e.Value)
	if err != nil {
		return nil, fmt.Errorf("digest evidence %d: %w", e.Seq, err)
	}
	return []certificate.Evidence{{Seq: e.Seq, Stage: e.Stage, Kind: e.Kind, Digest: digest}}, nil
}

// take adds what one piece of evidence supports.
func (b *builder) take(e Evidence) error {
	ref, err := reference(e)
	if err != nil {
		return err
	}
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	b.seen[e.Kind] = true
	switch e.Kind {
	case EvidenceDrain:
		return fromTask(e, func(s seen, out agentwire.DrainOutput) {
			outcome := certificate.Done
			if len(out.UsersLeft) > 0 {
				outcome = certificate.Failed
			}
			b.did(outcome, "accounts", "accounts of tenants",
				fmt.Sprintf("%d sessions ended, %d accounts removed, %d left", out.SessionsClosed, len(out.UsersRevoked),
					len(out.UsersLeft)), s, ref)
		})
	case EvidenceStorage:
		return fromTask(e, func(s seen, out agentwire.StorageCleanupOutput) { b.storage(s, out, ref) })
	case EvidenceGPU:
		return fromTask(e, func(s seen, out agentwire.GPUScrubOutput) { b.gpus(s, out, ref) })
	case EvidenceWeaker:
		return decoded(e, func(w WeakerScrub) { b.weaker(w, e.Stage, ref) })
	case EvidenceValidation:
		return fromTask(e, func(s seen, out agentwire.ValidateCleanOutput) { b.validation(s, out, ref) })
	case EvidenceUninstall:
		return fromTask(e, func(s seen, out agentwire.UninstallOutput) {
			outcome := certificate.Done
			if len(out.Residue) > 0 {
				outcome = certificate.Failed
			}
			b.did(outcome, "agent", "the agent of gpuaas",
				fmt.Sprintf("%d parts removed, %d left", len(out.Removed), len(out.Residue)), s, ref)
		})
	case EvidenceRelease:
		return decoded(e, func(f bringup.ReleaseFacts) { b.release(f, e, ref) })
	case EvidencePower:
		return decoded(e, func(f bringup.PowerFacts) {
			outcome := certificate.Failed
			if f.Confirmed {
				outcome = certificate.Done
			}
			b.add(certificate.Subject{
				Kind: "power", Identifier: "power of " + b.d.SystemID, ObservedBy: certificate.ControlPlane, Outcome: outcome,
				Detail: "the BMC told MAAS: " + f.State,
				Method: "power off through MAAS", StartedAt: f.ObservedAt, EndedAt: f.ObservedAt, Evidence: ref,
			})
		})
	case EvidenceFollowUp:
		return decoded(e, func(f bringup.FollowUp) { b.gap("left to be done: "+f.What, or(f.Why, "it was not done")) })
	case EvidenceSecrets:
		b.add(certificate.Subject{
			Kind: "secrets", Identifier: "secrets of the node", ObservedBy: certificate.ControlPlane, Outcome: certificate.Done,
			Method:    "deleted in the secrets engine",
			StartedAt: e.RecordedAt.UTC(), EndedAt: e.RecordedAt.UTC(), Evidence: ref,
		})
	}
	return nil
}

func decoded[T any](e Evidence, use func(T)) error {
	var v T
	if err := json.Unmarshal(e.Value, &v); err != nil {
		return unreadable(e, err)
	}
	use(v)
	return nil
}

func fromTask[T any](e Evidence, use func(seen, T)) error {
	var s seen
	var out T
	if err := json.Unmarshal(e.Value, &s); err != nil {
		return unreadable(e, err)
	}
	if err := json.Unmarshal(s.Output, &out); err != nil {
		return unreadable(e, err)
	}
	use(s, out)
	return nil
}

func unreadable(e Evidence, err error) error {
	return fmt.Errorf("decode evidence %d (%s): %w", e.Seq, e.Kind, err)
}

func (b *builder) add(s certificate.Subject) {
	if s.Level == "" {
		s.Level = certificate.None
	}
	if s.Verification.Result == "" {
		s.Verification.Result = certificate.NotVerifiable
	}
	s.StartedAt, s.EndedAt = s.StartedAt.UTC(), s.EndedAt.UTC()
	b.doc.Subjects = append(b.doc.Subjects, s)
}

// did adds an action of an agent, or its failure, without a sanitization level.
func (b *builder) did(outcome certificate.Outcome, kind, identifier, detail string, s seen,
	ref []certificate.Evidence,
) {
	b.add(certificate.Subject{
		Kind: kind, Identifier: identifier, ObservedBy: certificate.Agent, Outcome: outcome, Detail: detail,
		Method: s.TaskType, Tool: agentTool, ToolVersion: s.AgentVersion,
		StartedAt: at(s.StartedAt, s.AskedAt), EndedAt: at(s.FinishedAt, s.AskedAt), Evidence: ref,
	})
}

const agentTool = "gpuaas-agent"

func (b *builder) storage(s seen, out agentwire.StorageCleanupOutput, ref []certificate.Evidence) {
	for _, f := range out.Folders {
		if f.Outcome == agentwire.OutcomeNotThere {
			continue
		}
		outcome, detail := certificate.Done, fmt.Sprintf("%d entries removed, %d bytes freed", f.EntriesRemoved, f.BytesFreed)
		switch f.Outcome {
		case agentwire.OutcomeIncomplete:
			outcome, detail = certificate.Failed, or(f.Reason, "something is left")
		case agentwire.OutcomeSkipped:
			outcome, detail = certificate.Refused, or(f.Reason, "not touched")
		}
		b.add(certificate.Subject{
			Kind: "folder", Identifier: f.Path, ObservedBy: certificate.Agent, Outcome: outcome, Detail: detail,
			Method: "entries removed", Tool: agentTool, ToolVersion: s.AgentVersion,
			StartedAt: at(s.StartedAt, s.AskedAt), EndedAt: at(s.FinishedAt, s.AskedAt), Evidence: ref,
		})
	}
	for _, v := range out.Devices {
		b.device(s, v, ref)
	}
	if len(out.ConfigRemoved) > 0 {
		b.did(certificate.Done, "mounts", strings.Join(out.ConfigRemoved, ", "),
			"removed: by it the node could reach file systems of a tenant", s, ref)
	}
	if len(out.Unmounted) > 0 {
		b.did(certificate.Done, "mounts", strings.Join(out.Unmounted, " "), "unmounted; what lies on them was not touched", s,
			ref)
	}
}

func (b *builder) validation(s seen, out agentwire.ValidateCleanOutput, ref []certificate.Evidence) {
	v := &certificate.Validation{
		At: at(s.FinishedAt, s.AskedAt), ObservedBy: certificate.Agent, Clean: out.Clean, Looked: []certificate.Look{},
		Findings: []certificate.Finding{}, Evidence: ref,
	}
	for _, c := range out.Checked {
		v.Looked = append(v.Looked, certificate.Look{Kind: c.Kind, Result: c.Result, Detail: c.Detail})
	}
	for _, f := range out.Findings {
		v.Findings = append(v.Findings, certificate.Finding{Kind: f.Kind, Subject: f.Subject, Detail: f.Detail})
	}
	b.doc.Validation = v
	b.withoutBaseline(out)
}

// release adds what MAAS said about the release. Nobody observed it.
func (b *builder) release(f bringup.ReleaseFacts, e Evidence, ref []certificate.Evidence) {
	when := at(f.EndedAt, e.RecordedAt)
	statements := f.Reported
	if len(statements) == 0 {
		statements = []string{"the machine is released"}
	}
	for _, text := range statements {
		b.doc.Reported = append(b.doc.Reported,
			certificate.Report{By: "MAAS", Subject: b.d.SystemID, Statement: text, At: when, Evidence: ref})
	}
	asked := fmt.Sprintf("MAAS was asked to erase them (%s); what it did to them was not observed",
		or(f.Requested, "none"))
	if f.RequestedAt == nil {
		asked = "somebody else released the machine, and this operation asked MAAS for no erasing"
	}
	b.gap("disks of the machine", asked)
	if f.FellBack {
		b.doc.Downgrades = append(b.doc.Downgrades, certificate.Downgrade{
			Subject: "erase of " + b.d.SystemID, Requested: f.Requested, Achieved: or(f.Achieved, "none"),
			Why:       or(f.FallbackReason, "erasing failed"),
			DecidedBy: or(f.DecidedBy, "not on record"), At: when, ResidualRisk: "data of tenants may be readable on the disks",
		})
	}
}

func (b *builder) gap(what, why string) {
	b.doc.NotCovered = append(b.doc.NotCovered, certificate.Gap{What: what, Why: why})
}

// gaps names what was not done, and what an operation of this mode never
// covers.
func (b *builder) gaps() {
	if !b.seen[EvidenceDrain] {
		b.gap("accounts and sessions of tenants",
			b.lacking(EvidenceDrain, "this operation did not remove them through the agent"))
	}
	if !b.seen[EvidenceStorage] {
		b.gap("folders and data disks", b.lacking(EvidenceStorage, "they were not cleaned through the agent"))
	}
	if !b.seen[EvidenceGPU] {
		b.gap(fmt.Sprintf("memory of GPUs (%d by the inventory)", b.node.GPUsTotal),
			b.lacking(EvidenceGPU, "it was not scrubbed"))
	}
	if b.d.Mode == FullDecommission && !b.seen[EvidenceSecrets] {
		b.gap("secrets of the node", "they were not all removed")
	}
	if b.d.Mode == FullDecommission && b.d.managed() && !b.seen[EvidencePower] {
		b.gap("power of "+b.d.SystemID, "it was not seen to be off")
	}
	b.rootGaps()
	if b.d.Mode == SoftReset || b.d.Mode == Retire {
		b.gap("the system disk", "the installation stays; only what is named was removed from it")
	}
}
