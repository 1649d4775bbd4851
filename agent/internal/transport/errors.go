package transport

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
)

// Kind says what a failure means for what comes next.
type Kind int

// The kinds of failures.
const (
	// Unreachable: nobody answered; try again.
	Unreachable Kind = iota + 1
	// Untrusted: the one who answered could not prove to be the control plane.
	Untrusted
	// Unavailable: the control plane cannot answer now; try again.
	Unavailable
	// Refused: the control plane refuses, as things stand.
	Refused
	// Malformed: the answer makes no sense.
	Malformed
)

// Codes of failures that the agent finds itself. Codes of refusals come from
// the control plane.
const (
	CodeUnreachable           = "control_plane_unreachable"
	CodeServerUnknownIssuer   = "control_plane_unknown_issuer"
	CodeServerCertificateDate = "control_plane_certificate_date"
	CodeServerName            = "control_plane_name_mismatch"
	CodeMalformed             = "control_plane_answer_malformed"
	CodeNotControlPlane       = "not_the_control_plane"
)

// Error is every failure of a call.
type Error struct {
	Kind          Kind
	Status        int
	Code          string
	Message       string
	Remedy        string
	CorrelationID string
	RetryAfter    time.Duration
	cause         error
}

func (e *Error) Error() string {
	text := e.Message
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of a failed call. It is empty for other errors.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// KindOf returns the kind of a failed call. It is 0 for other errors.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

func malformed(k call, err error) error {
	return &Error{Kind: Malformed, Code: CodeMalformed, Message: "the answer to " + k.path + " makes no sense", cause: err}
}

// refusal turns an answer into an error. An answer that is no problem document
// comes from something in front of the control plane.
func refusal(response *http.Response) error {
	e := &Error{Kind: Refused, Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"))}
	if response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusRequestTimeout {
		e.Kind = Unavailable
	}
	var p agentwire.Problem
	raw, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Code == "" {
		e.Code = CodeNotControlPlane
		e.Message = "something in front of the control plane answered " + response.Status
		e.Remedy = "check that GPUAAS_API_URL names the node-facing address of the control plane, and what proxies are on " +
			"the way"
		return e
	}
	e.Code, e.Message, e.Remedy, e.CorrelationID = p.Code, strings.TrimSpace(p.Detail), p.Remedy, p.CorrelationID
	if e.Message == "" {
		e.Message = p.Title
	}
	if known := advice[e.Code]; e.Remedy == "" {
		e.Remedy = known
	}
	return e
}

// advice is what a person at the node can do about a refusal that came without
// a remedy.
var advice = map[string]string{
	agentwire.CodeCertificateMissing: "enrol this node: gpuaas-agent enroll --token-file FILE",
	agentwire.CodeCertificateExpired: Recovery,
	agentwire.CodeCertificateUnknown: "the authority for node certificates was replaced; " + Recovery,
	agentwire.CodeCertificateRevoked: "an operator revoked the identity of this node; if that was a mistake: " + Recovery,
	agentwire.CodeIdentityMismatch: "GPUAAS_NODE_ID and the certificate of this node belong to different nodes; enrol " +
		"again with a token of the right one",
	agentwire.CodeIdentityInUse: "another machine or process uses this identity: stop it, then have an operator " +
		"clear the hold on the node",
	agentwire.CodeNodeFenced: "the credentials are fine; the state of the node forbids it: gpuaas node get " +
		"shows why",
	agentwire.CodeTokenInvalid: "the token is unknown, was used by another machine, or belongs to another control " +
		"plane: ask for a new bootstrap command",
	agentwire.CodeTokenExpired: "ask for a new bootstrap command and run it at once",
}

// Recovery says how a node whose certificate is useless comes back.
const Recovery = "ask an operator for a recovery token (gpuaas node bootstrap NODE --recovery), stop the agent, run " +
	"gpuaas-agent enroll --token-file FILE, and start it again"

func retryAfter(s string) time.Duration {
	seconds, err := strconv.Atoi(s)
	if err != nil || seconds < 0 || seconds > 3600 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
