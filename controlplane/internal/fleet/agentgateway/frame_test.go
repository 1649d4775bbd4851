package agentgateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agentgateway"
)

type clumsy struct{ agentgateway.Nodes }

func (clumsy) Report(context.Context, id.Node, agentwire.Report) error { panic("tripped over a cable") }

func TestADefectIsAnsweredAndLoggedAndEndsNothing(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t), func(c *agentgateway.Config) { c.Nodes = clumsy{c.Nodes} })
	a := p.active(t, "gpu-1")
	r := a.send(http.MethodPost, agentwire.PathReport, "", agentwire.Report{}, "X-Correlation-Id", "abc-1").
		want(http.StatusInternalServerError, "internal")
	if strings.Contains(string(r.body), "cable") || r.header.Get("X-Correlation-Id") != "abc-1" {
		t.Errorf("%s %v", r.body, r.header)
	}
	if log := p.log.String(); !strings.Contains(log, "tripped over a cable") || !strings.Contains(log, "frame_test.go") {
		t.Error("nobody can find the defect")
	}
	a.get(agentwire.PathWait, "wait_seconds=1").want(http.StatusNoContent, "")
}
