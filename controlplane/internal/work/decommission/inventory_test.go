package decommission_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// installed is what an installation of a node is like.
func installed(entries ...agentwire.Entry) agentwire.Inventory {
	return agentwire.Inventory{
		Installation: "i1", TakenAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Entries: append([]agentwire.Entry{}, entries...), Unseen: []string{},
	}
}

// firstBoot gives a node the baseline of an installation.
func (y *yard) firstBoot(tb testing.TB, of id.Node, covers ...string) {
	tb.Helper()
	y.exec(tb, `INSERT INTO node_baselines (node_id, generation) VALUES ($1, 1)`, of)
	taken := installed()
	taken.Covers = covers
	raw, err := json.Marshal(taken)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := y.nodes.KeepBaseline(y.ctx, of,
		node.SignedBaseline{Inventory: taken, Raw: raw, Signature: []byte("s"), Serial: "ab"})
	if err != nil || out.Outcome != agentwire.BaselineKept {
		tb.Fatalf("baseline: %+v, %v", out, err)
	}
}

// says is a validation whose agent found nothing, and says what the installation
// is like.
func says(i agentwire.Inventory) answer {
	out := clean(agentwire.TypeValidateClean).(agentwire.ValidateCleanOutput)
	out.Inventory = &i
	return succeeds(out)
}

func gapOf(s *certificate.Signed) *certificate.Gap {
	at := slices.IndexFunc(s.Document.NotCovered, func(g certificate.Gap) bool {
		return strings.HasPrefix(g.What, "accounts, set-id files")
	})
	if at < 0 {
		return nil
	}
	return &s.Document.NotCovered[at]
}

// An agent that finds nothing does not make a machine clean that is not what it
// was at its first boot.
func TestAttackWhatAUserPlantedKeepsTheNodeOutOfService(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.firstBoot(t, n)
	planted := agentwire.Entry{Kind: agentwire.EntrySetID, Name: "/var/tmp/sh", Value: "mode 4755 uid 0 gid 0 sha256:1"}
	y.agent.does[agentwire.TypeValidateClean] = []answer{says(installed(planted))}
	d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
	if d.Stage != decommission.StageValidate || d.ErrorCode != "validation_root_residue" ||
		!strings.Contains(d.ErrorMessage, "/var/tmp/sh") {
		t.Errorf("it is %s at %s: %s %s", d.Status, d.Stage, d.ErrorCode, d.ErrorMessage)
	}
	if now := y.see(t, n); now.Schedulable || now.Status != node.Quarantined {
		t.Errorf("the node is %+v", now)
	}
}

// An agent that handed a baseline over can always be compared with it. Whoever had
// root once, and removed what the agent goes by or changed what the installation is
// known by, does not get a clean node by that.
func TestAttackAComparisonThatSomebodySwitchedOff(t *testing.T) {
	t.Parallel()
	other, former := installed(), installed()
	other.Installation, former.Installation = "i2", "i0"
	unfounded := agentwire.ValidateCleanOutput{
		Clean: true, Findings: []agentwire.CleanFinding{},
		Checked: []agentwire.CheckedKind{},
	}
	for name, says := range map[string]answer{
		"no inventory":               succeeds(clean(agentwire.TypeValidateClean)),
		"another machine id":         says(other),
		"that of a baseline before":  says(former),
		"an agent that says nothing": succeeds(unfounded),
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			y.firstBoot(t, n)
			y.exec(t, `INSERT INTO node_baselines (node_id, generation, opened_at, installation, content, digest, signature, certificate_serial, taken_at, kept_at)
				SELECT node_id, 0, opened_at, 'i0', content, digest, signature, certificate_serial, taken_at, kept_at FROM node_baselines WHERE node_id = $1`, n)
			y.agent.does[agentwire.TypeValidateClean] = []answer{says}
			d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
			wants(t, d, job.FailedManualIntervention, decommission.StageValidate, "validation_root_residue")
			if now := y.see(t, n); now.Schedulable || now.Status != node.Quarantined || now.Access() != node.RootAccess {
				t.Errorf("the node is %s, schedulable %t, somebody had %q", now.Status, now.Schedulable, now.Access())
			}
		})
	}
}

// Where there is no baseline, or the agent is older than baselines, certificates
// say what nobody looked at.
func TestCertificatesNameAMissingBaseline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has     bool // a baseline
		answers answer
		gap     string
	}{
		"compared":        {true, says(installed()), ""},
		"no baseline":     {false, says(installed()), "no baseline of this installation"},
		"an agent before": {false, succeeds(clean(agentwire.TypeValidateClean)), "does not say"},
		"an agent that lies?": {false, succeeds(
			agentwire.ValidateCleanOutput{
				Clean: true, Findings: []agentwire.CleanFinding{},
				Checked: []agentwire.CheckedKind{{Kind: "users", Result: "clean"}}, Baseline: "present",
			}), "does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			if c.has {
				y.firstBoot(t, n)
			}
			y.agent.does[agentwire.TypeValidateClean] = []answer{c.answers}
			d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
			wants(t, d, job.Completed, decommission.StageEnable, "")
			gap := gapOf(y.paper(t, d.ID))
			if (gap == nil) != (c.gap == "") || gap != nil && !strings.Contains(gap.Why, c.gap) {
				t.Errorf("the gap is %+v, want %q", gap, c.gap)
			}
		})
	}
}

// A baseline of an agent of before does not make a node unclean that was updated
// since, and certificates name where nobody compared anything.
func TestCertificatesNameWhatABaselineOfBeforeDoesNotCover(t *testing.T) {
	t.Parallel()
	rule := agentwire.Entry{Kind: agentwire.EntryUnit, Name: "/etc/pam.d/sshd", Value: "sha256:1"}
	for name, c := range map[string]struct {
		covers []string
		code   string
	}{"of before": {nil, ""}, "of now": {agentwire.LaterPlaces, "validation_root_residue"}} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			y.firstBoot(t, n, c.covers...)
			now := installed(rule)
			now.Covers = agentwire.LaterPlaces
			y.agent.does[agentwire.TypeValidateClean] = []answer{says(now)}
			d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
			if d.ErrorCode != c.code {
				t.Fatalf("it is %s: %s %s", d.Status, d.ErrorCode, d.ErrorMessage)
			}
			if c.code != "" {
				return
			}
			gaps := y.paper(t, d.ID).Document.NotCovered
			if !slices.ContainsFunc(gaps, func(g certificate.Gap) bool { return strings.Contains(g.What, "/etc/pam.d") }) {
				t.Errorf("the gaps are %+v", gaps)
			}
		})
	}
}
