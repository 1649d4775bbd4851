package decommission_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// intrude lets a tenant in, once, before a stage.
func (y *yard) intrude(of id.Node, stage string) {
	once := false
	y.before = func(call durable.StageCall) error {
		if call.Stage != stage || once {
			return nil
		}
		once = true
		return y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
			return node.Taint(ctx, tx, of, "a tenant got in")
		})
	}
}

func subjectsOf(doc certificate.Document, kind string) (out []certificate.Subject) {
	for _, s := range doc.Subjects {
		if s.Kind == kind {
			out = append(out, s)
		}
	}
	return out
}

// lacks says whether a document names something as not covered, and why.
func lacks(doc certificate.Document, what, why string) bool {
	return slices.ContainsFunc(doc.NotCovered, func(g certificate.Gap) bool {
		return strings.Contains(g.What, what) && strings.Contains(g.Why, why)
	})
}

// An operation that goes through its stages again after it was certified states
// what it did then, not what it did before.
func TestARerunAfterTheReceiptGetsAReceiptOfItsOwn(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.intrude(n, decommission.StageEnable)
	var first *certificate.Signed
	end := y.run(t, d.ID, y.act(t, d.ID, job.Rerun, func() {
		first = y.paper(t, d.ID)
		y.agent.on(agentwire.TypeStorageCleanup, succeeds(kept()))
	}), y.override(t, d.ID, decommission.StageStorage))
	wants(t, end, job.Completed, decommission.StageEnable, "")
	second := y.paper(t, d.ID)
	if first == nil || first.Document.Seq != 1 || second.Document.Seq != 2 ||
		second.Document.Previous.Digest != first.Digest() {
		t.Fatalf("%+v, then %+v", first, second)
	}
	doc := second.Document
	if doc.Validation.At.Before(*y.see(t, n).TaintedAt) {
		t.Errorf("validated at %s, before the tenant got in", doc.Validation.At)
	}
	if disks := subjectsOf(doc, "disk"); len(disks) != 1 || disks[0].Outcome != certificate.Failed ||
		len(doc.Overrides) != 1 {
		t.Errorf("disks %+v, overrides %+v", disks, doc.Overrides)
	}
}

// What a stage did in an earlier pass is no claim beside the decision to go on
// without it in a later one.
func TestAnOverrideLeavesNothingOfTheStage(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.agent.on(agentwire.TypeStorageCleanup, succeeds(cleaned()), fails("broken", "the disk died"))
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()), succeeds(clean(agentwire.TypeValidateClean)))
	end := y.run(t, d.ID, y.act(t, d.ID, job.Resume), y.override(t, d.ID, decommission.StageStorage))
	wants(t, end, job.Completed, decommission.StageEnable, "")
	doc := y.paper(t, d.ID).Document
	if got := append(subjectsOf(doc, "disk"), subjectsOf(doc, "folder")...); len(got) != 0 || len(doc.Overrides) != 1 ||
		!lacks(doc, "folders and data disks", "not cleaned") {
		t.Errorf("it claims %+v beside %+v", got, doc.Overrides)
	}
	if len(subjectsOf(doc, "gpu")) == 0 || len(subjectsOf(doc, "accounts")) != 1 {
		t.Errorf("what the second pass did is not in it: %+v", doc.Subjects)
	}
}

// Somebody who gets in between the cleaning and the validation makes the
// cleaning worthless, although the validation finds nothing.
func TestCleaningBeforeTheLastTaintIsNoClaim(t *testing.T) {
	t.Parallel()
	for stage, mode := range map[string]decommission.Mode{
		decommission.StageValidate: decommission.SoftReset, decommission.StageScrub: decommission.SoftReset,
		decommission.StageCertificate: decommission.Retire,
	} {
		t.Run(stage, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, false)
			d := y.request(t, n, mode)
			y.intrude(n, stage)
			stopped := false
			end := y.run(t, d.ID, y.act(t, d.ID, job.Rerun, func() {
				stopped = true
				parked := y.read(t, d.ID)
				wants(t, parked, job.FailedManualIntervention, decommission.StageCertificate, "node_tainted")
				if y.paper(t, d.ID) != nil || decommission.Recommended(parked) != job.Rerun || y.see(t, n).Schedulable {
					t.Errorf("there is a paper, or %s is recommended, or %s", decommission.Recommended(parked), y.stands(t, n))
				}
			}))
			if !stopped || end.Status != job.Completed || y.see(t, n).Tainted() {
				t.Errorf("it is %s, and the node %s", end.Status, y.stands(t, n))
			}
			paper := y.paper(t, d.ID)
			if paper == nil {
				t.Fatalf("there is no paper: it is %s at %s with %q (%s), after %q", end.Status, end.Stage, end.ErrorCode,
					end.ErrorMessage, y.ledger(t, d.ID))
			}
			since := *y.see(t, n).TaintedAt
			for _, s := range paper.Document.Subjects {
				if s.StartedAt.Before(since) {
					t.Errorf("%s %s was dealt with at %s, before the tenant got in", s.Kind, s.Identifier, s.StartedAt)
				}
			}
		})
	}
}

// A node that somebody got into after its certificate is not retired as clean.
func TestATaintedNodeIsNotRetired(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.Retire)
	y.intrude(n, decommission.StageRetire)
	end := y.run(t, d.ID, y.act(t, d.ID, job.Rerun, func() {
		wants(t, y.read(t, d.ID), job.FailedManualIntervention, decommission.StageRetire, "node_tainted")
		if now := y.see(t, n); now.Status != node.Draining {
			t.Errorf("the node is %s", now.Status)
		}
	}))
	wants(t, end, job.Completed, decommission.StageRetire, "")
	if now := y.see(t, n); now.Tainted() || now.Status != node.Retired || y.paper(t, d.ID).Document.Seq != 2 {
		t.Errorf("the node is %s, tainted %t", now.Status, now.Tainted())
	}
}

// What a validation refuted is not claimed, also where the cleaning is not
// repeated: the machine was installed anew.
func TestWhatAValidationRefutedIsNoClaim(t *testing.T) {
	f := fileOf(t, decommission.Reimage, decommission.EraseNone, "abc123")
	f.cleaned(t)
	f.add(t, bringup.ReleaseMAASNode, decommission.EvidenceRelease, releaseOf("none", "none"))
	f.task(t, decommission.StageValidate, decommission.EvidenceValidation, agentwire.TypeValidateClean, dirty())
	f.validated(t)
	doc := f.document(t)
	for _, kind := range []string{"disk", "gpu", "accounts"} {
		if got := subjectsOf(doc, kind); len(got) != 0 {
			t.Errorf("it claims %+v", got)
		}
	}
	if !lacks(doc, "folders and data disks", "found the node unclean") || !doc.Validation.Clean || len(doc.Reported) == 0 {
		t.Errorf("validation %+v, gaps %+v", doc.Validation, doc.NotCovered)
	}
}

// A stage that is passed over because there is nothing to do any more leaves
// what it did.
func TestAStageWithNothingToDoKeepsItsClaims(t *testing.T) {
	f := fileOf(t, decommission.Reimage, decommission.EraseNone, "abc123")
	f.cleaned(t)
	f.add(t, decommission.StageStorage, decommission.EvidenceNotApplicable,
		map[string]any{"why": "the installation is gone"})
	f.validated(t)
	if got := subjectsOf(f.document(t), "disk"); len(got) != 1 || got[0].Outcome != certificate.Sanitized {
		t.Errorf("disks %+v", got)
	}
}

// A partition is certified as a partition, and the rest of its disk is a gap.
func TestAPartitionIsNotItsDisk(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*agentwire.StorageCleanupOutput)
		identifier string
		gap        string // empty: none
	}{
		"a whole disk": {func(*agentwire.StorageCleanupOutput) {}, "S4X1", ""},
		"one partition": {func(o *agentwire.StorageCleanupOutput) {
			o.Devices[0].Device, o.Devices[0].WholeBytes = "/dev/nvme1n1p1", 10000
		}, "S4X1 partition nvme1n1p1", "5904 of 10000 bytes of disk S4X1 outside of nvme1n1p1"},
		"of unknown rest": {func(o *agentwire.StorageCleanupOutput) {
			o.Devices[0].Device = "/dev/sdb2"
		}, "S4X1 partition sdb2", "disk S4X1 outside of sdb2"},
		"without serial": {func(o *agentwire.StorageCleanupOutput) {
			o.Devices[0].Device, o.Devices[0].Serial, o.Devices[0].WholeBytes = "/dev/sdb2", "", 5000
		}, "/dev/sdb2", "904 of 5000 bytes of disk sdb outside of sdb2"},
		"two partitions": {func(o *agentwire.StorageCleanupOutput) {
			o.Devices[0].Device, o.Devices[0].WholeBytes = "/dev/nvme1n1p1", 10000
			other := o.Devices[0]
			other.Device, other.MountPoint = "/dev/nvme1n1p2", "/share1"
			o.Devices = append(o.Devices, other)
		}, "S4X1 partition nvme1n1p1", "1808 of 10000 bytes of disk S4X1 outside of nvme1n1p1, nvme1n1p2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fileOf(t, decommission.SoftReset, decommission.EraseNone, "")
			out := cleaned()
			c.change(&out)
			f.task(t, decommission.StageStorage, decommission.EvidenceStorage, agentwire.TypeStorageCleanup, out)
			f.validated(t)
			doc := f.document(t)
			if err := valid(doc); err != nil {
				t.Error(err)
			}
			if got := subjectsOf(doc, "disk"); len(got) != len(out.Devices) || got[0].Identifier != c.identifier ||
				got[0].Outcome != certificate.Sanitized {
				t.Errorf("disks %+v", got)
			}
			if found := lacks(doc, or(c.gap, "outside of"), ""); found != (c.gap != "") {
				t.Errorf("gaps %+v", doc.NotCovered)
			}
		})
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// Disks that the machine has and no evidence speaks of are gaps.
func TestDisksWithoutEvidenceAreGaps(t *testing.T) {
	f := fileOf(t, decommission.SoftReset, decommission.EraseNone, "")
	out := cleaned()
	other := out.Devices[0]
	other.Device, other.Serial = "/dev/sdc3", "S4X2"
	out.Devices = append(out.Devices, other)
	f.task(t, decommission.StageStorage, decommission.EvidenceStorage, agentwire.TypeStorageCleanup, out)
	f.validated(t)
	found, err := json.Marshal(agentwire.Capabilities{Disks: []agentwire.Disk{
		{Name: "nvme0n1", SizeBytes: 1000, Model: "BOSS"},
		{Name: "nvme1n1", SizeBytes: 4096},
		{Name: "nvme1n10", SizeBytes: 2000},
		{Name: "sdc", SizeBytes: 5000},
	}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := decommission.DocumentOf(f.d, node.Node{Inspection: found}, f.evidence, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range doc.NotCovered {
		if strings.Contains(g.Why, "no evidence here speaks of it") {
			got = append(got, g.What)
		}
	}
	same(t, "disks without evidence", got, []string{"disk nvme0n1 (1000 bytes) BOSS", "disk nvme1n10 (2000 bytes)"})
}

// The installation stays after a reset, and so does what root did to it.
func TestWhatRootDidIsAGapUntilAReimage(t *testing.T) {
	for mode, want := range map[decommission.Mode]bool{
		decommission.SoftReset: true, decommission.Retire: true,
		decommission.Reimage: false,
	} {
		f := fileOf(t, mode, decommission.EraseNone, "abc123")
		f.cleaned(t)
		f.validated(t)
		if got := lacks(f.document(t), "changes that somebody with root made to the installation", "reimage"); got != want {
			t.Errorf("%s: named %t", mode, got)
		}
	}
}

// What is said to have been done at another time than its task is not certified.
func TestADeviceIsDoneWithinItsTask(t *testing.T) {
	asked := noon.Add(time.Minute)
	for name, c := range map[string]struct {
		began, ended time.Time
		want         certificate.Outcome
	}{
		"within":            {asked, asked.Add(2 * time.Second), certificate.Sanitized},
		"by another clock":  {asked.Add(-4 * time.Minute), asked.Add(4 * time.Minute), certificate.Sanitized},
		"months before":     {asked.AddDate(0, -8, 0), asked.AddDate(0, -8, 0), certificate.Failed},
		"ended afterwards":  {asked, asked.Add(time.Hour), certificate.Failed},
		"ended before that": {asked.Add(time.Second), asked, certificate.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			f := fileOf(t, decommission.SoftReset, decommission.EraseNone, "")
			out := cleaned()
			out.Devices[0].StartedAt, out.Devices[0].EndedAt = c.began, c.ended
			f.task(t, decommission.StageStorage, decommission.EvidenceStorage, agentwire.TypeStorageCleanup, out)
			f.validated(t)
			if got := subjectsOf(f.document(t), "disk")[0]; got.Outcome != c.want ||
				(got.Detail != "") != (c.want == certificate.Failed) {
				t.Errorf("it is %s: %s", got.Outcome, got.Detail)
			}
		})
	}
}

// A stage goes by the same: an old result is none.
func TestAnOldEraseParksTheCleanup(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	d := y.request(t, y.node(t, node.Active, false), decommission.SoftReset)
	out := cleaned()
	out.Devices[0].StartedAt = time.Now().AddDate(0, -8, 0)
	out.Devices[0].EndedAt = out.Devices[0].StartedAt.Add(time.Minute)
	y.agent.on(agentwire.TypeStorageCleanup, succeeds(out))
	end := y.run(t, d.ID)
	if end.Stage != decommission.StageStorage || end.ErrorCode != "device_not_sanitized" ||
		!strings.Contains(end.ErrorMessage, "said to have been done") {
		t.Errorf("it is %s at %s: %s %s", end.Status, end.Stage, end.ErrorCode, end.ErrorMessage)
	}
}

// A blank disk is named, and nothing is claimed of it.
func TestABlankDiskIsNoSanitizedOne(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*agentwire.DeviceSanitized)
		want   certificate.Outcome
	}{
		"read":            {func(*agentwire.DeviceSanitized) {}, certificate.Done},
		"not read":        {func(d *agentwire.DeviceSanitized) { d.SampleBytes = 0 }, certificate.Failed},
		"not blank after": {func(d *agentwire.DeviceSanitized) { d.SamplesUnclean = 1 }, certificate.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			f := fileOf(t, decommission.SoftReset, decommission.EraseNone, "")
			out := cleaned()
			out.Devices[0].Outcome, out.Devices[0].Level, out.Devices[0].BytesCovered,
				out.Devices[0].Method = agentwire.OutcomeBlank, "", 0, ""
			c.change(&out.Devices[0])
			f.task(t, decommission.StageStorage, decommission.EvidenceStorage, agentwire.TypeStorageCleanup, out)
			f.validated(t)
			doc := f.document(t)
			if got := subjectsOf(doc, "disk")[0]; got.Outcome != c.want || got.Level != certificate.None || got.Detail == "" {
				t.Errorf("it is %s, level %s: %s", got.Outcome, got.Level, got.Detail)
			}
			if err := valid(doc); err != nil {
				t.Error(err)
			}
		})
	}
}

// The paper names who let less erasing pass: the policy, or the operator who
// took the machine over.
func TestADowngradeNamesWhoDecided(t *testing.T) {
	act := func(actor string, action job.Trigger) job.Event {
		details, err := json.Marshal(map[string]any{"actor": actor, "action": action})
		if err != nil {
			t.Fatal(err)
		}
		return job.Event{
			Status: job.OperatorAction, Stage: bringup.ReleaseMAASNode, Details: details,
			Message: "because of the test",
		}
	}
	ledger := []job.Event{act("operator-2", job.RetryStage), act("operator-3", job.AdoptObserved)}
	for by, want := range map[string]string{
		bringup.DecidedByPolicy:   bringup.DecidedByPolicy,
		bringup.DecidedByAdopting: bringup.DecidedByAdopting + ": operator-3",
	} {
		f := fileOf(t, decommission.FullDecommission, decommission.EraseQuick, "abc123")
		r := releaseOf("quick", "unknown")
		r.FellBack, r.FallbackReason, r.DecidedBy = true, "it is so", by
		f.add(t, bringup.ReleaseMAASNode, decommission.EvidenceRelease, r)
		doc := f.document(t)
		decommission.Acted(&doc, ledger)
		if err := valid(doc); err != nil || len(doc.Downgrades) != 1 || doc.Downgrades[0].DecidedBy != want {
			t.Errorf("%+v %v", doc.Downgrades, err)
		}
	}
}

// What is left to be done is named once, and not any more when it was done.
func TestFollowUpsAreThoseOfTheLastPass(t *testing.T) {
	f := fileOf(t, decommission.FullDecommission, decommission.EraseQuick, "abc123")
	left := func(whats ...string) {
		for _, what := range whats {
			f.add(t, decommission.StageSecrets, decommission.EvidenceFollowUp,
				bringup.FollowUp{What: what, Why: "the engine was away"})
		}
	}
	left("delete a", "delete b")
	if doc := f.document(t); !lacks(doc, "delete a", "away") || !lacks(doc, "delete b", "away") {
		t.Errorf("gaps %+v", doc.NotCovered)
	}
	f.epoch++
	left("delete b")
	doc, n := f.document(t), 0
	for _, g := range doc.NotCovered {
		if strings.Contains(g.What, "left to be done") {
			n++
		}
	}
	if n != 1 || !lacks(doc, "delete b", "away") {
		t.Errorf("gaps %+v", doc.NotCovered)
	}
}

// A stage that is carried out again says anew what it left to be done.
func TestAFollowUpIsOnTheRecordOnce(t *testing.T) {
	t.Parallel()
	open := bringup.FollowUp{What: "delete the machine in MAAS", Why: "it refused"}
	for name, again := range map[string][]job.Evidence{
		"left again": {{Kind: bringup.EvidenceFollowUp, Value: open}},
		"done":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.script.on(bringup.RemoveMAASRecord, func(_ context.Context, _ *bringup.Work, n int) (job.Result, error) {
				if n == 1 {
					f := failure(bringup.UpstreamTransient, "maas_away")
					return job.Result{Evidence: []job.Evidence{{Kind: bringup.EvidenceFollowUp, Value: open}}}, &f
				}
				return job.Result{Evidence: again}, nil
			})
			end := y.run(t, y.request(t, y.node(t, node.Active, true), decommission.FullDecommission).ID)
			wants(t, end, job.Completed, decommission.StageCertificate, "")
			if len(end.FollowUps) != len(again) {
				t.Errorf("left to be done: %+v", end.FollowUps)
			}
		})
	}
}
