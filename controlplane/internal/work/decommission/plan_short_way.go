package decommission

import (
	"fmt"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
)

// ShortWay describes how to ask, in one decision, for an operation on a node
// whose agent is gone, instead of waiting for the agent at each stage.
type ShortWay struct {
	Why     string   `json:"why" doc:"Why it is offered." example:"its agent has not called for 3 h"`
	Stages  []string `json:"stages" nullable:"false" doc:"The stages that it passes over." example:"drain_node"`
	Does    string   `json:"does" doc:"What that means."`
	Command string   `json:"command" doc:"How to ask for it on the command line."`
}

// goneAfter is how long an agent must be silent to count as gone. Servers with
// much memory take a quarter of an hour to boot.
const goneAfter = 30 * time.Minute

// silenceOf returns how long the agent of a node has been silent, or "" if it
// does not count as gone.
func silenceOf(n node.Node, now time.Time) string {
	switch at := n.LastContactAt; {
	case at == nil:
		return "its agent has never called"
	case now.Sub(*at) > goneAfter:
		return "its agent has not called" + job.Lasting(at, now)
	}
	return ""
}

// needsAgent returns the stages that only the agent of the old installation
// could run, and that an operator may skip.
func (m Mode) needsAgent() (out []string) {
	if !m.releases() {
		return nil
	}
	for _, name := range beforeRelease {
		if s, known := tables[m].Of(name); known && s.Overridable {
			out = append(out, name)
		}
	}
	return out
}

// shortWay offers the short way if the request would wait for an agent that is
// gone. It returns nil if it would not wait, or if the request takes the short
// way already.
func (s situation) shortWay(r Request) *ShortWay {
	stages := r.Mode.needsAgent()
	if s.silence == "" || !s.managed() || r.WithoutAgent || len(stages) == 0 {
		return nil
	}
	return &ShortWay{
		Why: s.silence, Stages: stages,
		Does: passesOver(r.Mode) + ", which only the agent could do; who decided that, why, and the risk that is left are kept and " +
			"stand in the certificate",
		Command: fmt.Sprintf("gpuaas decommission start %s --mode %s --without-agent",
			s.node.Hostname, r.Mode),
	}
}

// passesOver names the stages of the short way by their titles.
func passesOver(m Mode) string {
	var titles []string
	for _, name := range m.needsAgent() {
		if s, known := tables[m].Of(name); known {
			titles = append(titles, fmt.Sprintf("%q", s.Title))
		}
	}
	return "passes over " + strings.Join(titles, ", ")
}

// answering refuses the short way for a node whose agent answers: as long as
// somebody can clean what a tenant left, it is cleaned.
func (s situation) answering(r Request) error {
	if !r.WithoutAgent || s.managed() && s.silence != "" {
		return nil
	}
	why := fmt.Sprintf("the agent of node %s is not known to be gone: it called within the last %.0f minutes",
		s.node.Hostname, goneAfter.Minutes())
	if !s.managed() {
		why = fmt.Sprintf("node %s is not a MAAS machine, so only its agent can clean it", s.node.Hostname)
	}
	return fault.New(fault.Conflict, "agent_not_gone", "%s", why).
		WithRemedy("ask again without without_agent (--without-agent): the agent cleans the node first")
}
