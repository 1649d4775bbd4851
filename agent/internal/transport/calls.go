package transport

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gpuaas/contract/agentwire"
)

// Enroll asks for the first certificate with a token.
func (c *Client) Enroll(ctx context.Context, token string, request agentwire.EnrollRequest) (
	agentwire.EnrollResponse, error,
) {
	var answer agentwire.EnrollResponse
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: agentwire.PathEnroll, token: token, timeout: callTimeout,
		body: request, answer: &answer,
	})
	return answer, err
}

// Renew asks for the next certificate with the present one.
func (c *Client) Renew(ctx context.Context, request agentwire.RenewRequest) (agentwire.Issued, error) {
	var answer agentwire.Issued
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: c.path(agentwire.PathRenew), timeout: callTimeout,
		body: request, answer: &answer,
	})
	return answer, err
}

// Trust asks what to trust. The answer is signed statements.
func (c *Client) Trust(ctx context.Context) ([]agentwire.Statement, error) {
	var answer agentwire.TrustAnswer
	_, err := c.do(ctx, call{
		method: http.MethodGet, path: c.path(agentwire.PathTrust), timeout: callTimeout,
		answer: &answer,
	})
	return answer.Statements, err
}

// Report says what the agent and its machine are.
func (c *Client) Report(ctx context.Context, report agentwire.Report) error {
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: c.path(agentwire.PathReport), timeout: callTimeout,
		body: report,
	})
	return err
}

// Baseline hands over the inventory of the installation.
func (c *Client) Baseline(ctx context.Context, request agentwire.BaselineRequest) (agentwire.BaselineResponse, error) {
	var answer agentwire.BaselineResponse
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: c.path(agentwire.PathBaseline), timeout: callTimeout,
		body: request, answer: &answer,
	})
	return answer, err
}

// HostKeys says by which keys people recognise the machine over SSH.
func (c *Client) HostKeys(ctx context.Context, request agentwire.HostKeysRequest) error {
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: c.path(agentwire.PathHostKeys), timeout: callTimeout,
		body: request,
	})
	return err
}

// Wait polls for a task. It returns nil if none came up.
func (c *Client) Wait(ctx context.Context, wait time.Duration) (*agentwire.Envelope, error) {
	var answer agentwire.Envelope
	found, err := c.do(ctx, call{
		method: http.MethodGet, path: c.path(agentwire.PathWait), query: "wait_seconds=" +
			strconv.Itoa(int(wait/time.Second)),
		timeout: wait + pollSlack, answer: &answer,
	})
	if err != nil || !found {
		return nil, err
	}
	return &answer, nil
}

// Result ends a task.
func (c *Client) Result(ctx context.Context, e agentwire.Envelope, result agentwire.ResultRequest) error {
	_, err := c.do(ctx, c.taskCall(agentwire.PathResult, e, result, nil))
	return err
}

// Progress renews the lease of a task.
func (c *Client) Progress(ctx context.Context, e agentwire.Envelope, progress agentwire.ProgressRequest) (
	agentwire.ProgressResponse, error,
) {
	var answer agentwire.ProgressResponse
	_, err := c.do(ctx, c.taskCall(agentwire.PathProgress, e, progress, &answer))
	return answer, err
}

// Logs sends lines of the log of a task.
func (c *Client) Logs(ctx context.Context, e agentwire.Envelope, request agentwire.LogsRequest) (
	agentwire.LogsResponse, error,
) {
	var answer agentwire.LogsResponse
	_, err := c.do(ctx, c.taskCall(agentwire.PathLogs, e, request, &answer))
	return answer, err
}

// Mint asks for a credential under the identity of a task.
func (c *Client) Mint(ctx context.Context, e agentwire.Envelope, request agentwire.MintRequest) (
	agentwire.Credential, error,
) {
	var answer agentwire.Credential
	_, err := c.do(ctx, c.taskCall(agentwire.PathMint, e, request, &answer))
	return answer, err
}

func (c *Client) taskCall(pattern string, e agentwire.Envelope, body, answer any) call {
	return call{
		method: http.MethodPost, path: c.path(pattern, "{task_id}", e.TaskID), timeout: callTimeout, body: body,
		answer:      answer,
		correlation: e.CorrelationID, trace: e.TraceParent,
	}
}

// Package opens the agent package of a version. The caller closes it.
func (c *Client) Package(ctx context.Context, version string) (io.ReadCloser, error) {
	k := call{method: http.MethodGet, path: c.path(agentwire.PathNodePackage, "{version}", url.PathEscape(version))}
	ctx, cancel := context.WithTimeout(ctx, packageTimeout)
	response, err := c.open(ctx, k) //nolint:bodyclose // whoever reads the package closes it
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{ReadCloser: response.Body, cancel: cancel}, nil
}

// stream ends its call when it is closed.
type stream struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (s *stream) Close() error {
	defer s.cancel()
	return s.ReadCloser.Close()
}

// Reach asks for something that anybody may have, to see whether the control
// plane answers. It does not use the identity of the node.
func (c *Client) Reach(ctx context.Context, into io.Writer) error {
	_, err := c.do(ctx, call{method: http.MethodGet, path: agentwire.PathCA, timeout: callTimeout, sink: into})
	return err
}
