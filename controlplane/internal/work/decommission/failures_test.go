package decommission_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// visit is what an operator does about an operation that is parked.
type visit func(t *testing.T, y *yard, d decommission.Decommission) func(*testsuite.TestWorkflowEnvironment)

// acts takes an action after something was put right.
func acts(action job.Trigger, mend func(*yard)) visit {
	return func(t *testing.T, y *yard, d decommission.Decommission) func(*testsuite.TestWorkflowEnvironment) {
		t.Helper()
		return y.act(t, d.ID, action, func() { mend(y) })
	}
}

func overrides(stage string) visit {
	return func(t *testing.T, y *yard, d decommission.Decommission) func(*testsuite.TestWorkflowEnvironment) {
		t.Helper()
		return y.override(t, d.ID, stage)
	}
}

func nothing(*yard) {}

func wellAgain(y *yard) {
	y.before, y.equip = nil, nil
	y.agent.set(false, false)
	y.agent.mu.Lock()
	y.agent.does = map[string][]answer{}
	y.agent.mu.Unlock()
	y.script.mu.Lock()
	y.script.does = map[string]scripted{}
	y.script.mu.Unlock()
	y.vault.failure = nil
}

// hitch is something that goes wrong in a stage, and how it ends.
type hitch struct {
	name    string
	mode    decommission.Mode
	from    node.Status // empty: active
	managed bool
	with    func(*decommission.Config)
	arrange func(t *testing.T, y *yard, n id.Node)

	stage, code string
	class       job.FailureClass
	tries       int    // attempts at the stage before it is parked
	stands      string // the node, when it is parked

	then  visit // nil: cancel
	ends  job.Status
	after string // the node, at the end
	check func(t *testing.T, y *yard, d decommission.Decommission)
}

func awayAt(stage string) func(*testing.T, *yard, id.Node) {
	return func(_ *testing.T, y *yard, _ id.Node) {
		y.before = func(call durable.StageCall) error {
			if call.Stage == stage {
				return fault.New(fault.Unavailable, "database_unavailable", "the database is away")
			}
			return nil
		}
	}
}

func answers(typ string, list ...answer) func(*testing.T, *yard, id.Node) {
	return func(_ *testing.T, y *yard, _ id.Node) { y.agent.on(typ, list...) }
}

func silent(_ *testing.T, y *yard, _ id.Node) { y.agent.set(true, false) }

func failing(stage string, f job.Failure) func(*testing.T, *yard, id.Node) {
	return func(_ *testing.T, y *yard, _ id.Node) { y.script.fails(always, stage, f) }
}

// silentFrom lets the agent fall silent once a stage is reached.
func silentFrom(stage string) func(*testing.T, *yard, id.Node) {
	return func(_ *testing.T, y *yard, _ id.Node) {
		y.before = func(call durable.StageCall) error {
			if call.Stage == stage {
				y.agent.set(true, false)
			}
			return nil
		}
	}
}

const agenttaskOutputInvalid = "node_task_output_invalid"

func TestDecommissionFailures(t *testing.T) {
	t.Parallel()
	shared := newYard(t)
	for _, h := range hitches {
		t.Run(h.name, func(t *testing.T) {
			y := shared
			if h.with != nil {
				y = newYard(t, h.with)
			}
			wellAgain(y)
			h.play(t, y)
		})
	}
}

func (h hitch) play(t *testing.T, y *yard) {
	t.Helper()
	if h.from == "" {
		h.from = node.Active
	}
	n := y.node(t, h.from, h.managed)
	if h.arrange != nil {
		h.arrange(t, y, n)
	}
	d := y.request(t, n, h.mode)
	then := h.then
	if then == nil {
		then = acts(job.Cancel, nothing)
	}
	end := y.run(t, d.ID, func(*testsuite.TestWorkflowEnvironment) { h.parked(t, y, d) }, then(t, y, d))
	if end.Status != h.ends {
		t.Errorf("it ended as %s at %s: %s %s", end.Status, end.Stage, end.ErrorCode, end.ErrorMessage)
	}
	if got := y.stands(t, n); got != h.after {
		t.Errorf("the node ended as %q, want %q", got, h.after)
	}
	if h.check != nil {
		h.check(t, y, end)
	}
}

// parked checks an operation that waits for an operator.
func (h hitch) parked(t *testing.T, y *yard, d decommission.Decommission) {
	t.Helper()
	d = y.read(t, d.ID)
	want := job.FailedManualIntervention
	if h.class == bringup.UpstreamTransient {
		want = job.FailedRetryable
	}
	wants(t, d, want, h.stage, h.code)
	if d.FailureClass != h.class {
		t.Errorf("class is %s, want %s", d.FailureClass, h.class)
	}
	tries := 0
	for _, l := range y.ledger(t, d.ID) {
		if strings.HasPrefix(l, h.stage+"/") && strings.HasSuffix(l, ":failed") {
			tries++
		}
	}
	if tries != h.tries {
		t.Errorf("%d attempts, want %d", tries, h.tries)
	}
	if got := y.stands(t, d.Node); got != h.stands {
		t.Errorf("the node is %q, want %q", got, h.stands)
	}
	if legal, best := decommission.LegalActions(d), decommission.Recommended(d); len(legal) == 0 ||
		!slices.Contains(legal, best) {
		t.Errorf("recommended is %q of %v", best, legal)
	}
	if d.ErrorMessage == "" || d.ErrorRemedy == "" && h.code != "database_unavailable" &&
		!strings.HasPrefix(h.code, "allocation") && h.code != "user_busy" {
		t.Errorf("says %q, remedy %q", d.ErrorMessage, d.ErrorRemedy)
	}
}

// stands is how a node is.
func (y *yard) stands(tb testing.TB, of id.Node) string {
	tb.Helper()
	n := y.see(tb, of)
	text := string(n.Status)
	if n.HeldBy != "" {
		text += " held"
	}
	if n.Schedulable {
		text += " schedulable"
	}
	return text
}

// overridden checks that what was passed over stands in the record and in the
// certificate.
func overridden(stage string) func(*testing.T, *yard, decommission.Decommission) {
	return func(t *testing.T, y *yard, d decommission.Decommission) {
		t.Helper()
		if len(d.Overrides) != 1 || d.Overrides[0].Stage != stage || d.Overrides[0].Actor != "operator (operator-1)" ||
			d.Overrides[0].ResidualRisk == "" {
			t.Errorf("overrides are %+v", d.Overrides)
		}
		if !slices.Contains(y.kinds(t, d.ID), decommission.EvidenceOverride) {
			t.Error("there is no evidence of it")
		}
		paper := y.paper(t, d.ID)
		if paper == nil || len(paper.Document.Overrides) != 1 ||
			paper.Document.Overrides[0].ResidualRisk != "data may be readable" {
			t.Errorf("the certificate does not say so: %+v", paper)
		}
		if n := y.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'decommission.override' AND target_id = $1`,
			d.ID.String()); n != 1 {
			t.Errorf("%d entries in the audit log", n)
		}
	}
}

func left(what string) func(*testing.T, *yard, decommission.Decommission) {
	return func(t *testing.T, _ *yard, d decommission.Decommission) {
		t.Helper()
		if len(d.FollowUps) == 0 || !strings.Contains(d.FollowUps[0].What, what) || d.FollowUps[0].Why == "" {
			t.Errorf("follow-ups are %+v", d.FollowUps)
		}
	}
}

// subject is what the certificate of an operation says about a kind.
func subject(t *testing.T, y *yard, d decommission.Decommission, kind string) certificate.Subject {
	t.Helper()
	paper := y.paper(t, d.ID)
	if paper == nil {
		t.Fatal("there is no certificate")
	}
	at := slices.IndexFunc(paper.Document.Subjects, func(s certificate.Subject) bool { return s.Kind == kind })
	if at < 0 {
		t.Fatalf("it says nothing about %s", kind)
	}
	return paper.Document.Subjects[at]
}

// What must not stop an operation is left to somebody, on the record.
func TestWhatIsLeftIsAFollowUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(*yard)
		what    string
		tries   int
	}{
		"CleanupSecrets_away": {func(y *yard) {
			y.vault.failure = fault.New(fault.Unavailable, "secrets_away", "away")
		}, "in the secrets engine", 3},
		"CleanupSecrets_forbidden": {func(y *yard) {
			y.vault.failure = fault.New(fault.Forbidden, "secrets_forbidden", "no")
		}, "in the secrets engine", 1},
		"RemoveMaasRecord_fails": {func(y *yard) {
			y.script.on(bringup.RemoveMAASRecord, func(context.Context, *bringup.Work, int) (job.Result, error) {
				return job.Result{Evidence: []job.Evidence{{
					Kind:  bringup.EvidenceFollowUp,
					Value: bringup.FollowUp{What: "delete the machine in MAAS", Why: "it refused"},
				}}}, nil
			})
		}, "delete the machine", 1},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			c.arrange(y)
			d := y.run(t, y.request(t, y.node(t, node.Active, true), decommission.FullDecommission).ID)
			wants(t, d, job.Completed, decommission.StageCertificate, "")
			left(c.what)(t, y, d)
			if got := y.stands(t, d.Node); got != "deleted held" {
				t.Errorf("the node is %s", got)
			}
			if name != "RemoveMaasRecord_fails" && slices.Contains(y.kinds(t, d.ID), decommission.EvidenceSecrets) {
				t.Error("it claims that secrets were removed")
			}
			attempts := 0
			for _, l := range y.ledger(t, d.ID) {
				if strings.HasPrefix(l, decommission.StageSecrets+"/") {
					attempts++
				}
			}
			if attempts != c.tries {
				t.Errorf("%d attempts", attempts)
			}
		})
	}
}

// A fall-back that the policy allows is a downgrade in the certificate.
func TestAFallbackIsNeverSilent(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.script.on(bringup.ReleaseMAASNode, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		f := released(w)
		f.FellBack, f.Achieved, f.FallbackReason = true, "none", "a disk refused"
		w.Facts.Release = &f
		return job.Result{Evidence: []job.Evidence{{Kind: bringup.EvidenceRelease, Value: f}}}, nil
	})
	d := y.run(t, y.request(t, y.node(t, node.Active, true), decommission.Reimage).ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	doc := y.paper(t, d.ID).Document
	if len(doc.Downgrades) != 1 || doc.Downgrades[0].Requested != "quick" || doc.Downgrades[0].Achieved != "none" ||
		doc.Downgrades[0].Why != "a disk refused" {
		t.Errorf("downgrades are %+v", doc.Downgrades)
	}
}

// Every kind of evidence reads back as what it was.
func TestEvidenceOfAFailureIsKept(t *testing.T) {
	y := newYard(t)
	y.agent.on(agentwire.TypeStorageCleanup, succeeds(kept()))
	d := y.run(t, y.request(t, y.node(t, node.Active, false), decommission.StorageCleanup).ID)
	wants(t, d, job.FailedManualIntervention, decommission.StageStorage, "device_not_sanitized")
	evidence, err := y.service.EvidenceOf(y.ctx, d.ID)
	if err != nil || len(evidence) != 2 || evidence[0].Attempt != 1 || evidence[1].Attempt != 2 {
		t.Fatalf("evidence is %+v, %v", evidence, err)
	}
	var seen struct {
		TaskID       string                         `json:"task_id"`
		AgentVersion string                         `json:"agent_version"`
		Output       agentwire.StorageCleanupOutput `json:"output"`
	}
	if err := json.Unmarshal(evidence[1].Value, &seen); err != nil {
		t.Fatal(err)
	}
	if seen.TaskID == "" || seen.AgentVersion != "1.2.3" || seen.Output.Devices[0].CanariesFound != 2 {
		t.Errorf("it says %+v", seen)
	}
}
