package decommission

import (
	"fmt"
	"slices"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
)

// neverOnHardware is the caveat that documents carry for AMD GPUs.
const neverOnHardware = "how GPUs of AMD are overwritten, reset and inspected is written from AMD's published interfaces and was " +
	"never run on hardware by the makers of gpuaas"

func (b *builder) gpus(s seen, out agentwire.GPUScrubOutput, ref []certificate.Evidence) {
	if out.Outcome == outcomeNoGPU {
		why := or(out.Reason, "the agent found no GPU")
		b.gap("memory of GPUs", why)
		if b.node.GPUsTotal > 0 {
			b.doc.Downgrades = append(b.doc.Downgrades, certificate.Downgrade{
				Subject: fmt.Sprintf("memory of %d GPUs", b.node.GPUsTotal), Requested: "overwrite", Achieved: "none", Why: why,
				DecidedBy: "policy gpu_scrub", At: at(s.FinishedAt, s.AskedAt),
				ResidualRisk: "data of tenants may be left in the memory of GPUs that were not seen",
			})
		}
		return
	}
	if out.Vendor == "amd" {
		b.gap("experience with GPUs of AMD", neverOnHardware)
	}
	for _, g := range out.GPUs {
		b.doc.Machine.Serials = append(b.doc.Machine.Serials,
			certificate.Serial{Part: "gpu", Name: g.UUID, Value: g.UUID, Source: "gpuaas-gpu"})
		subject := certificate.Subject{
			Kind: "gpu", Identifier: g.UUID, Description: "memory of the GPU; reset " + g.Reset, ObservedBy: certificate.Agent,
			Outcome: certificate.Failed, Detail: g.Error, Method: g.Method,
			CoveredBytes: g.BytesCovered, TotalBytes: g.BytesTotal, Tool: "gpuaas-gpu", ToolVersion: s.AgentVersion,
			StartedAt: at(s.StartedAt, s.AskedAt), EndedAt: at(s.FinishedAt, s.AskedAt), Evidence: ref,
			Verification: certificate.Verification{
				How: "every word that was overwritten was read back on the GPU", Samples: 1,
				BytesRead: g.BytesCovered, SamplesUnclean: g.WordsNonzero, Result: certificate.NotPassed,
			},
		}
		if out.Outcome == outcomeScrubbed && doubtOfGPU(g) == "" {
			subject.Outcome, subject.Level, subject.Verification.Result = certificate.Sanitized, certificate.Clear,
				certificate.Passed
		}
		subject.CoveredBytes = min(max(subject.CoveredBytes, 0), subject.TotalBytes)
		b.add(subject)
	}
	if found := int32(len(out.GPUs)); found < b.node.GPUsTotal { //nolint:gosec // a machine has few
		b.gap(fmt.Sprintf("memory of %d of the %d GPUs of the inventory", b.node.GPUsTotal-found, b.node.GPUsTotal),
			"the agent did not find them")
	}
}

// weaker adds how GPUs were cleaned that the profile accepted without proof,
// and what that does not prove.
func (b *builder) weaker(w WeakerScrub, stage string, ref []certificate.Evidence) {
	for i, s := range b.doc.Subjects {
		if s.Kind != "gpu" || !slices.Contains(w.GPUs, s.Identifier) || s.Evidence[0].Stage != stage {
			continue
		}
		s.Outcome, s.Method, s.CoveredBytes = certificate.Done, string(w.Method), 0
		s.Detail = fmt.Sprintf("%s. It proves %s. It does not prove %s.", w.Did, w.Proves, w.ProvesNot)
		s.Verification = certificate.Verification{How: "nobody looked", Result: certificate.NotVerifiable}
		s.Evidence = append(s.Evidence, ref...)
		b.doc.Subjects[i] = s
	}
	b.doc.Downgrades = append(b.doc.Downgrades, certificate.Downgrade{
		Subject: fmt.Sprintf("memory of %d GPUs", len(w.GPUs)), Requested: "overwrite", Achieved: string(w.Method),
		Why: w.Why, DecidedBy: "policy " + w.Setting, At: w.RecordedAt.UTC(),
		ResidualRisk: "data of tenants may be left in the memory of these GPUs: nothing was read back",
	})
}
