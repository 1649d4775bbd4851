package decommission_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// file is the record of an operation, as the database has it.
type file struct {
	d        decommission.Decommission
	evidence []decommission.Evidence
	epoch    int64
}

func fileOf(t *testing.T, mode decommission.Mode, erase decommission.Erase, systemID string) *file {
	t.Helper()
	of, err := id.Parse[id.Decommission]("0195a000-0000-7000-8000-000000000001")
	n, other := id.Parse[id.Node]("0195a000-0000-7000-8000-000000000002")
	if err := errors.Join(err, other); err != nil {
		t.Fatal(err)
	}
	started := noon.Add(time.Minute)
	return &file{epoch: 1, d: decommission.Decommission{
		ID: of, Mode: mode, Erase: erase, Reason: "end of lease", Job: job.Job{
			ID: of.String(), Node: n, RequestedBy: "operator-1", RequestedAt: noon, StartedAt: &started,
		},
		Machine: bringup.Machine{Hostname: "c0001", SystemID: systemID},
	}}
}

func (f *file) add(t *testing.T, stage, kind string, value any) {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	seq := int64(len(f.evidence) + 1)
	f.evidence = append(f.evidence, decommission.Evidence{
		Seq: seq, Stage: stage, Attempt: 1, Epoch: f.epoch, Kind: kind,
		Value: raw, RecordedAt: noon.Add(time.Duration(seq) * time.Minute),
	})
}

// task adds what a task brought.
func (f *file) task(t *testing.T, stage, kind, typ string, output any) {
	t.Helper()
	at := noon.Add(time.Duration(len(f.evidence)+1) * time.Minute)
	f.add(t, stage, kind, map[string]any{
		"task_id": "0195a000-0000-7000-8000-0000000000aa", "task_type": typ, "agent_version": "1.2.3",
		"asked_at": at, "started_at": at.Add(time.Second), "finished_at": at.Add(2 * time.Second),
		"output": during(output, at.Add(time.Second)),
	})
}

func (f *file) cleaned(t *testing.T) {
	t.Helper()
	f.task(t, decommission.StageDrain, decommission.EvidenceDrain, agentwire.TypeDrain, clean(agentwire.TypeDrain))
	f.task(t, decommission.StageStorage, decommission.EvidenceStorage, agentwire.TypeStorageCleanup,
		clean(agentwire.TypeStorageCleanup))
	f.task(t, decommission.StageScrub, decommission.EvidenceGPU, agentwire.TypeGPUScrub, clean(agentwire.TypeGPUScrub))
}

func (f *file) validated(t *testing.T) {
	t.Helper()
	f.task(t, decommission.StageValidate, decommission.EvidenceValidation, agentwire.TypeValidateClean,
		clean(agentwire.TypeValidateClean))
}

func (f *file) overrides(stage, why, risk string) {
	f.d.Overrides = append(f.d.Overrides, decommission.Override{
		Stage: stage, Reason: why, ResidualRisk: risk,
		Actor: "operator-2", At: noon.Add(time.Hour),
	})
}

// document is what the record supports, which must be fit to be signed.
func (f *file) document(t *testing.T) certificate.Document {
	t.Helper()
	n := node.Node{ID: f.d.Node, Hostname: "c0001", SKU: yardSKU, RegionCode: "eu-1", GPUsTotal: 8}
	doc, err := decommission.DocumentOf(f.d, n, f.evidence, noon.Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// valid is the document with what issuing adds.
func valid(doc certificate.Document) error {
	doc.Format, doc.ID, doc.Seq, doc.Issuer, doc.IssuedAt = certificate.Format, "0195a000-0000-7000-8000-0000000000ff", 1,
		"test", noon.Add(2*time.Hour)
	return doc.Validate()
}

func releaseOf(requested, achieved string) bringup.ReleaseFacts {
	began, ended := noon.Add(20*time.Minute), noon.Add(30*time.Minute)
	return bringup.ReleaseFacts{
		Requested: requested, Achieved: achieved, MinimumErase: "none", RequestedAt: &began, EndedAt: &ended,
		Reported: []string{"Releasing: erasing disks", "Ready"},
	}
}

// The documents that whole operations lead to, word by word.
func TestDocuments(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) *file{
		"soft_reset": func(t *testing.T) *file {
			t.Helper()
			f := fileOf(t, decommission.SoftReset, decommission.EraseNone, "")
			f.cleaned(t)
			f.validated(t)
			return f
		},
		"reimage_fallback": func(t *testing.T) *file {
			t.Helper()
			f := fileOf(t, decommission.Reimage, decommission.EraseSecure, "abc123")
			f.cleaned(t)
			r := releaseOf("secure", "none")
			r.FellBack, r.FallbackReason, r.DecidedBy = true, "sda: the drive does not support it", bringup.DecidedByPolicy
			f.add(t, bringup.ReleaseMAASNode, decommission.EvidenceRelease, r)
			f.validated(t)
			return f
		},
		"full_overrides": func(t *testing.T) *file {
			t.Helper()
			f := fileOf(t, decommission.FullDecommission, decommission.EraseQuick, "abc123")
			f.overrides(decommission.StageDrain, "the node is dead", "accounts of tenants stay on its disks")
			f.overrides(bringup.PowerOffMAASNode, "the BMC is dead, too", "it may run on")
			f.add(t, decommission.StageForceRelease, decommission.EvidenceNotApplicable,
				map[string]any{"why": "nothing allocates nodes yet"})
			f.add(t, decommission.StageDrain, decommission.EvidenceOverride, f.d.Overrides[0])
			f.add(t, bringup.ReleaseMAASNode, decommission.EvidenceRelease, releaseOf("quick", "quick"))
			f.add(t, bringup.PowerOffMAASNode, decommission.EvidenceOverride, f.d.Overrides[1])
			f.add(t, decommission.StageSecrets, decommission.EvidenceFollowUp,
				bringup.FollowUp{What: "delete a secret", Why: "the engine was away"})
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			doc := make(t).document(t)
			if err := valid(doc); err != nil {
				t.Errorf("cannot be signed: %v", err)
			}
			text, err := json.MarshalIndent(doc, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "document_"+name+".golden.json", append(text, '\n'))
		})
	}
}

// What a repeated stage saw replaces what it saw before, and only that.
func TestTheNewestEvidenceCounts(t *testing.T) {
	f := fileOf(t, decommission.SoftReset, decommission.EraseNone, "")
	f.task(t, decommission.StageStorage, decommission.EvidenceStorage, agentwire.TypeStorageCleanup, kept())
	f.task(t, decommission.StageValidate, decommission.EvidenceValidation, agentwire.TypeValidateClean, dirty())
	if err := valid(f.document(t)); err == nil {
		t.Error("a node that is not clean got a receipt")
	}
	f.cleaned(t)
	f.validated(t)
	doc := f.document(t)
	if err := valid(doc); err != nil {
		t.Error(err)
	}
	disks := 0
	for _, s := range doc.Subjects {
		if s.Kind == "disk" {
			disks++
			if s.Outcome != certificate.Sanitized || s.Evidence[0].Seq != 4 {
				t.Errorf("the disk is %s by evidence %d", s.Outcome, s.Evidence[0].Seq)
			}
		}
	}
	if disks != 1 || !doc.Validation.Clean {
		t.Errorf("%d disks, validation %+v", disks, doc.Validation)
	}
}

// Only what was done and verified is a level.
func TestLevelsNeedProof(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*agentwire.DeviceSanitized)
		want   certificate.Outcome
	}{
		"verified":     {func(*agentwire.DeviceSanitized) {}, certificate.Sanitized},
		"not verified": {func(d *agentwire.DeviceSanitized) { d.Verified = false }, certificate.Failed},
		"failed but verified": {func(d *agentwire.DeviceSanitized) {
			d.Outcome = agentwire.OutcomeFailed
		}, certificate.Failed},
		"refused": {func(d *agentwire.DeviceSanitized) {
			d.Outcome, d.Verified = agentwire.OutcomeRefused, false
		}, certificate.Refused},
		"a canary came back":  {func(d *agentwire.DeviceSanitized) { d.CanariesFound = 1 }, certificate.Failed},
		"a sample is unclean": {func(d *agentwire.DeviceSanitized) { d.SamplesUnclean = 1 }, certificate.Failed},
		"nothing was read":    {func(d *agentwire.DeviceSanitized) { d.SampleBytes = 0 }, certificate.Failed},
		"nothing was covered": {func(d *agentwire.DeviceSanitized) { d.BytesCovered = 0 }, certificate.Failed},
		"no level":            {func(d *agentwire.DeviceSanitized) { d.Level = "" }, certificate.Failed},
		"a level of its own":  {func(d *agentwire.DeviceSanitized) { d.Level = "destroyed" }, certificate.Failed},
		"most of it was done": {func(d *agentwire.DeviceSanitized) { d.BytesCovered = 4000 }, certificate.Sanitized},
		"without serial":      {func(d *agentwire.DeviceSanitized) { d.Serial = "" }, certificate.Sanitized},
		"without any name": {func(d *agentwire.DeviceSanitized) {
			d.Serial, d.Device, d.Outcome = "", "", agentwire.OutcomeRefused
		}, certificate.Refused},
		"more than everything": {func(d *agentwire.DeviceSanitized) { d.BytesCovered = 5000 }, certificate.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			f := fileOf(t, decommission.SoftReset, decommission.EraseNone, "")
			out := cleaned()
			c.change(&out.Devices[0])
			f.task(t, decommission.StageStorage, decommission.EvidenceStorage, agentwire.TypeStorageCleanup, out)
			f.validated(t)
			doc := f.document(t)
			var disk certificate.Subject
			for _, s := range doc.Subjects {
				if s.Kind == "disk" {
					disk = s
				}
			}
			if disk.Outcome != c.want || (disk.Level != certificate.None) != (c.want == certificate.Sanitized) {
				t.Errorf("the disk is %s, level %s", disk.Outcome, disk.Level)
			}
			if err := valid(doc); err != nil {
				t.Errorf("the document cannot be signed: %v", err)
			}
		})
	}
}

// Evidence that cannot be read is a failure, not an omission.
func TestUnreadableEvidenceStopsACertificate(t *testing.T) {
	f := fileOf(t, decommission.SoftReset, decommission.EraseNone, "")
	f.task(t, decommission.StageStorage, decommission.EvidenceStorage, agentwire.TypeStorageCleanup,
		map[string]any{"devices": "many"})
	_, err := decommission.DocumentOf(f.d, node.Node{}, f.evidence, noon)
	if err == nil || !strings.Contains(err.Error(), "evidence 1") {
		t.Errorf("failure is %v", err)
	}
}
