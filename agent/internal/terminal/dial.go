package terminal

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"gpuaas/contract/agentwire"
)

const (
	dialTimeout = 10 * time.Second
	maxProblem  = 64 << 10
	firstPause  = 250 * time.Millisecond
	longestWait = 2 * time.Second
)

// dial reaches the replica that waits for the session. There may be several
// replicas behind one address; a wrong one says so, and the next attempt may
// find the right one.
func (s *Sessions) dial(ctx context.Context, p agentwire.TerminalOpenParams) (*websocket.Conn, error) {
	target, err := s.target(p)
	if err != nil {
		return nil, err
	}
	client := s.client()
	defer client.CloseIdleConnections()
	for pause := firstPause; ; pause = min(2*pause, longestWait) {
		conn, err := s.dialOnce(ctx, client, target)
		if err == nil {
			return conn, nil
		}
		var refused *Error
		if errors.As(err, &refused) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, &Error{
				Code: CodeUnreachable, Message: "the control plane at " + target.Host + " does not take the session up",
				Remedy: "check that the node reaches that address, and that nodes.terminal_url names the replica when there are " +
					"several", cause: err,
			}
		case <-time.After(pause):
		}
	}
}

// target refuses to dial anything but the control plane of this machine.
func (s *Sessions) target(p agentwire.TerminalOpenParams) (*url.URL, error) {
	u, err := url.Parse(p.GatewayURL)
	if err != nil || u.Scheme != "wss" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil ||
		!slices.ContainsFunc(s.cfg.Gateways, func(host string) bool { return strings.EqualFold(host, u.Hostname()) }) {
		return nil, &Error{
			Code: CodeGatewayRefused, Message: fmt.Sprintf("%q is not the control plane of this node", p.GatewayURL),
			Remedy: "set GPUAAS_TERMINAL_API_URL on the node to the host in nodes.terminal_url of the control plane",
		}
	}
	u.Path = strings.Replace(agentwire.PathTerminal, "{session_id}", p.SessionID, 1)
	return u, nil
}

func (s *Sessions) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			DialContext:     (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig: s.cfg.TLS(), TLSHandshakeTimeout: dialTimeout,
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dialOnce returns an *Error if another attempt is useless.
func (s *Sessions) dialOnce(ctx context.Context, client *http.Client, target *url.URL) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, target.String(), &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: s.cfg.Header(), Subprotocols: []string{agentwire.TerminalProtocol},
	})
	if err == nil {
		conn.SetReadLimit(agentwire.MaxTerminalMessage)
		return conn, nil
	}
	if response == nil {
		return nil, fmt.Errorf("dial %s: %w", target.Host, err)
	}
	defer func() {
		if response.Body != nil {
			_ = response.Body.Close() // everything of interest has been read
		}
	}()
	if response.StatusCode >= http.StatusInternalServerError {
		return nil, fmt.Errorf("dial %s: %s", target.Host, response.Status)
	}
	return nil, refusal(response)
}

// refusal reads why the control plane does not want the session.
func refusal(response *http.Response) *Error {
	var p agentwire.Problem
	e := &Error{Code: CodeEnded, Message: "the control plane answered " + response.Status}
	if response.Body == nil {
		return e
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Code == "" {
		return e
	}
	return &Error{Code: p.Code, Message: "the control plane refuses the session: " + p.Detail, Remedy: p.Remedy}
}
