package agentgateway

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	operationWait     = "wait-for-task"
	operationTerminal = "terminal-session"
	recheckAfter      = time.Second // a decision about who may have a task is not older than this
)

// wait holds a poll until there is a task, the time is up, or the listener
// shuts down. The first poll of a node completes its enrolment.
func (g *Gateway) wait(w http.ResponseWriter, r *http.Request, c caller) error {
	hold, err := holdOf(r)
	if err != nil {
		return err
	}
	if err := g.noteVerifiers(r, c); err != nil {
		return err
	}
	if err := g.noteTrust(r, c); err != nil {
		return err
	}
	if err := g.nodes.Polled(r.Context(), c.Identity); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.leaving, cancel)()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(hold + answerTimeout))
	heldPolls.Add(ctx, 1)
	began := g.clock()
	envelope, err := g.tasks.Wait(ctx, c.Node, c.Generation, hold)
	heldPolls.Add(ctx, -1)
	if envelope != nil && g.clock().Sub(began) > recheckAfter {
		envelope, err = g.confirm(r.Context(), c, envelope)
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

// confirm checks the caller of a held poll again: meanwhile its identity may have
// been revoked, the node fenced, or the agent restarted. It changes nothing,
// because the process that polled may be dead and must not take the identity back
// from the one that runs now.
func (g *Gateway) confirm(ctx context.Context, c caller, e *agentwire.Envelope) (*agentwire.Envelope, error) {
	_, err := g.nodes.Still(ctx, c.presented)
	if err == nil {
		return e, nil
	}
	if back := g.tasks.TakeBack(ctx, e); back != nil {
		return nil, errors.Join(err, back)
	}
	if fault.CodeOf(err) == agentwire.CodeIdentityInUse {
		return nil, nil // who keeps the identity is decided when this one calls again
	}
	return nil, err
}

// noteVerifiers learns from a poll which verifiers the agent uses.
func (g *Gateway) noteVerifiers(r *http.Request, c caller) error {
	text := r.Header.Get(agentwire.HeaderVerifierVersion)
	if text == "" {
		return nil
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 {
		return httpapi.InvalidRequest("the header %s must be a version of verifiers", agentwire.HeaderVerifierVersion)
	}
	if version == c.VerifierVersion {
		return nil
	}
	return g.nodes.AcceptedVerifiers(r.Context(), c.Node, version)
}

// noteTrust reads from a poll what the agent verifies this listener with, and what
// it refused to trust. Agents of the previous version send neither. The gateway
// writes refusals into the audit log: a node can send only a few kinds, and one a
// minute is recorded. Agents repeat them with every poll, so a refusal that came
// too early is recorded later.
func (g *Gateway) noteTrust(r *http.Request, c caller) error {
	bundle, refused := r.Header.Get(agentwire.HeaderTrustBundle), r.Header.Get(agentwire.HeaderTrustRefused)
	if bundle == "" {
		return nil
	}
	if !fingerprintForm.MatchString(bundle) || !refusalForm.MatchString(refused) {
		return httpapi.InvalidRequest("the headers %s and %s must be a SHA-256 and what was refused",
			agentwire.HeaderTrustBundle, agentwire.HeaderTrustRefused)
	}
	if code, about, said := strings.Cut(refused, " "); said && !agentwire.KnownRefusal(code, about) {
		refused = otherRefusal
	}
	if refused != "" && refused != c.TrustRefused && g.meter.refusals.Take(c.Node.String()) != nil {
		refused = c.TrustRefused
	}
	if bundle == c.TrustBundle && refused == c.TrustRefused {
		return nil
	}
	return g.nodes.NoteTrust(r.Context(), c.Identity, bundle, refused)
}

// otherRefusal replaces every refusal that this version does not know, because a
// newer agent sent it.
const otherRefusal = "trust_other unknown"

var (
	fingerprintForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	refusalForm     = regexp.MustCompile(`^([a-z_]{1,40} [a-z_]{1,40})?$`)
)

func holdOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait_seconds")
	if text == "" {
		return agentwire.DefaultWaitSeconds * time.Second, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < agentwire.MinWaitSeconds || seconds > agentwire.MaxWaitSeconds {
		return 0, httpapi.InvalidRequest("wait_seconds must be a number from %d to %d", agentwire.MinWaitSeconds,
			agentwire.MaxWaitSeconds)
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
	in.Amends = g.amendment(r, c, task.String(), in.Amends)
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

// taskLogs passes on what a task prints.
func (g *Gateway) taskLogs(w http.ResponseWriter, r *http.Request, c caller) error {
	if g.logs == nil {
		return fault.New(fault.Unavailable, "logs_missing", "this replica keeps no logs")
	}
	task, err := taskOf(r)
	if err != nil {
		return err
	}
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	in, plain := plainLogs(body)
	if !plain {
		if err := decode(body, &in); err != nil {
			return err
		}
	}
	out, err := g.logs.AppendLogs(r.Context(), c.Node, task, in)
	if err != nil {
		return err
	}
	return answer(w, out)
}

// terminalSession passes the node's end of a session to the terminal, which
// decides whether the node may join the session.
func (g *Gateway) terminalSession(w http.ResponseWriter, r *http.Request, c caller) error {
	if g.terminal == nil {
		return fault.New(fault.Unavailable, "terminals_missing", "this replica has no terminals")
	}
	g.terminal.ServeNode(w, r, c.Node)
	return nil
}
