package node_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

func TestAReportIsWrittenOnlyWhenItIsNew(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	r := agentwire.Report{Build: release, Capabilities: anything}
	report := func() {
		t.Helper()
		if err := w.service.Report(t.Context(), a.node, r); err != nil {
			t.Fatal(err)
		}
	}
	before := w.versions(t)
	told := 0
	w.onReport = func(_ context.Context, of id.Node, generation int64, c agentwire.Capabilities) error {
		if told++; of != a.node || generation < 1 || c.CPUs != 4 {
			t.Errorf("told of %s, generation %d, %+v", of, generation, c)
		}
		return nil
	}
	report() // the same as at enrolment
	if w.versions(t) != before {
		t.Error("nothing new was written")
	}
	r.VerifierVersion = 3
	r.Capabilities.NICs = []agentwire.NIC{{Name: "eth0", SpeedMbps: 400000}}
	for range 3 {
		report()
	}
	n, err := w.service.Detail(t.Context(), a.node)
	var found agentwire.Capabilities
	if err := json.Unmarshal(n.Inspection, &found); err != nil {
		t.Fatal(err)
	}
	if err != nil || n.VerifierVersion != 3 || len(found.NICs) != 1 || found.CPUs != 4 {
		t.Errorf("%+v %v", n, err)
	}
	if got := w.count(t, `SELECT count(*) FROM node_events WHERE kind = 'agent_reported'`); got != 1 {
		t.Errorf("%d entries about one report", got)
	}
	if told != 4 {
		t.Errorf("told of %d reports, whether they were new or not", told)
	}
	wantCode(t, w.service.Report(t.Context(), id.New[id.Node](), r), fault.NotFound, "node_not_found")
}

func TestReportsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	for name, change := range map[string]func(r *agentwire.Report){
		"body.build.version":    func(r *agentwire.Report) { r.Build.Version = "1.0 <b>" },
		"body.build.commit":     func(r *agentwire.Report) { r.Build.Commit = strings.Repeat("a", 65) },
		"body.capabilities":     func(r *agentwire.Report) { r.Capabilities.CPUModel = "a\x00b" },
		"body.capabilities big": func(r *agentwire.Report) { r.Capabilities.OS = strings.Repeat("x", 64<<10) },
		"body.capabilities key": func(r *agentwire.Report) { r.Capabilities.Facts = map[string]string{"\x00": ""} },
	} {
		r := agentwire.Report{Build: release, Capabilities: anything}
		change(&r)
		field, _, _ := strings.Cut(name, " ")
		err := w.service.Report(t.Context(), a.node, r)
		if f, ok := fault.As(err); !ok || f.Kind != fault.Invalid || len(f.Fields) != 1 || f.Fields[0].Path != field {
			t.Errorf("%s: %v", name, err)
		}
		_, token := w.make(t, "new-"+id.NewString())
		_, err = w.service.BeginEnrolment(t.Context(), token, "key", "machine", "host", r.Build, r.Capabilities, nil)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s, when it enrols: %v", name, err)
		}
	}
	if got := w.count(t, `SELECT count(*) FROM node_events WHERE kind = 'agent_reported'`); got != 0 {
		t.Errorf("%d entries of refused reports", got)
	}
	// A backslash followed by text that looks like an escape is ordinary text.
	r := agentwire.Report{Build: release, Capabilities: anything}
	r.Capabilities.CPUModel = `a\u0000b`
	if err := w.service.Report(t.Context(), a.node, r); err != nil {
		t.Errorf("text that only looks like it: %v", err)
	}
}

func TestDrift(t *testing.T) {
	now := time.Now()
	soon, past := now.Add(time.Hour), now.Add(-time.Hour)
	good := node.Node{ReportedAgentVersion: "1.0.0", ReportedAgentCommit: "abc", CertificateNotAfter: &soon}
	for name, c := range map[string]struct {
		change func(n *node.Node)
		want   node.Drift
	}{
		"as it should be":      {func(*node.Node) {}, node.InSync},
		"the version wanted":   {func(n *node.Node) { n.DesiredAgentVersion = "1.0.0" }, node.InSync},
		"never reported":       {func(n *node.Node) { n.ReportedAgentVersion = "" }, node.UnknownDrift},
		"another is wanted":    {func(n *node.Node) { n.DesiredAgentVersion = "1.1.0" }, node.VersionDrift},
		"built by hand":        {func(n *node.Node) { n.ReportedAgentVersion = "dev" }, node.VersionDrift},
		"of unknown origin":    {func(n *node.Node) { n.ReportedAgentCommit = "unknown" }, node.VersionDrift},
		"certificate expired":  {func(n *node.Node) { n.CertificateNotAfter = &past }, node.CertificateRepairOnly},
		"certificates revoked": {func(n *node.Node) { n.CertificateNotAfter = nil }, node.CertificateRepairOnly},
	} {
		n := good
		c.change(&n)
		if got := n.Drift(now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestStaleVerifiersAreDriftOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	a, b := w.active(t, "a"), w.active(t, "b")
	w.make(t, "never-enrolled")
	w.exec(t, `INSERT INTO verifier_sets (version) VALUES (5)`)
	if got := w.read(t, a.node).Drift(time.Now()); got != node.ConfigDrift {
		t.Errorf("drift is %s", got)
	}
	count, sample, err := w.service.VerifiersBehind(t.Context(), 5)
	if err != nil || count != 2 || len(sample) != 2 {
		t.Errorf("%d %v %v", count, sample, err)
	}
	for range 2 {
		if err := w.service.AcceptedVerifiers(t.Context(), a.node, 5); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.read(t, a.node).Drift(time.Now()); got != node.InSync {
		t.Errorf("drift is %s", got)
	}
	if count, sample, err = w.service.VerifiersBehind(t.Context(), 5); err != nil || count != 1 || sample[0] != b.node {
		t.Errorf("%d %v %v", count, sample, err)
	}
	w.drive(t, b.node, node.Drain, node.Drained)
	if count, _, err = w.service.VerifiersBehind(t.Context(), 5); err != nil || count != 0 {
		t.Errorf("%d %v", count, err)
	}
}
