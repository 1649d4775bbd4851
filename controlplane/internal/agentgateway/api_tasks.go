package agentgateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/httpapi"
)

const (
	operationWait     = "wait-for-task"
	operationTerminal = "terminal-session"
	recheckAfter      = time.Second // a decision about who may have a task is not older than this
)

// wait holds a poll until there is a task, the time is up, or the listener
// shuts down. The first poll of a node is what completes its enrolment.
func (g *Gateway) wait(w http.ResponseWriter, r *http.Request, c caller) error {
	hold, err := holdOf(r)
	if err != nil {
		return err
	}
	if err := g.nodes.Polled(r.Context(), c.Identity); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.leaving, cancel)()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(hold + answerTimeout))
	g.metrics.polls.Add(ctx, 1)
	began := g.clock()
	envelope, err := g.tasks.Wait(ctx, c.Node, c.Generation, hold)
	g.metrics.polls.Add(ctx, -1)
	if envelope != nil && g.clock().Sub(began) > recheckAfter {
		// The identity may have been revoked, or the node fenced, while the poll
		// was held. The task stays where it is; its lease brings it back.
		if _, err := g.nodes.Authorize(r.Context(), c.presented); err != nil {
			return err
		}
	}
	switch {
	case envelope != nil:
		return answer(w, envelope)
	case err == nil, g.leaving.Err() != nil && fault.KindOf(err) == fault.Ambiguous:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return err
}

func holdOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait_seconds")
	if text == "" {
		return agentwire.DefaultWaitSeconds * time.Second, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < agentwire.MinWaitSeconds || seconds > agentwire.MaxWaitSeconds {
		return 0, httpapi.InvalidRequest("wait_seconds must be a number from %d to %d", agentwire.MinWaitSeconds, agentwire.MaxWaitSeconds)
	}
	return time.Duration(seconds) * time.Second, nil
}

func (g *Gateway) result(w http.ResponseWriter, r *http.Request, c caller) error {
	task, err := taskOf(r)
	if err != nil {
		return err
	}
	var in agentwire.ResultRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	if err := g.tasks.Result(r.Context(), c.Node, task, in); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (g *Gateway) progress(w http.ResponseWriter, r *http.Request, c caller) error {
	task, err := taskOf(r)
	if err != nil {
		return err
	}
	var in agentwire.ProgressRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	out, err := g.tasks.Progress(r.Context(), c.Node, task, in)
	if err != nil {
		return err
	}
	return answer(w, out)
}

// terminalSession hands the node's end of a session over. Which session it
// may join is for the terminal to say.
func (g *Gateway) terminalSession(w http.ResponseWriter, r *http.Request, c caller) error {
	if g.terminal == nil {
		return fault.New(fault.Unavailable, "terminals_missing", "this replica has no terminals")
	}
	g.terminal.ServeNode(w, r, c.Node)
	return nil
}
