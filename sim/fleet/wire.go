package fleet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"gpuaas/contract/agentwire"
)

// maxAnswer limits what an agent reads of one answer.
const maxAnswer = 1 << 20

// line is one kept connection to the control plane. It belongs to one goroutine
// and starts no other: net/http's transport would need two more goroutines and
// larger buffers for each of ten thousand agents.
type line struct {
	base   *url.URL
	config *tls.Config
	header http.Header
	conn   *tls.Conn
	reader *bufio.Reader
}

// call sends a request and reads the answer into out. It returns the status;
// anything but a success is an error.
func (l *line) call(ctx context.Context, method, path string, body, out any, patience time.Duration) (int, error) {
	resp, err := l.exchange(ctx, method, path, body, patience)
	if err != nil {
		l.hangUp()
		return 0, err
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil || resp.Close {
		l.hangUp()
	}
	if err != nil {
		return resp.StatusCode, fmt.Errorf("read answer of %s: %w", path, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		var p agentwire.Problem
		if json.Unmarshal(content, &p) != nil {
			p.Detail = http.StatusText(resp.StatusCode)
		}
		return resp.StatusCode, &refusedError{path: path, status: resp.StatusCode, problem: p}
	}
	if out != nil && len(content) > 0 {
		if err := json.Unmarshal(content, out); err != nil {
			return resp.StatusCode, fmt.Errorf("decode answer of %s: %w", path, err)
		}
	}
	return resp.StatusCode, nil
}

func (l *line) exchange(ctx context.Context, method, path string, body any, patience time.Duration) (
	*http.Response, error,
) {
	if err := l.dial(ctx); err != nil {
		return nil, err
	}
	var content io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request of %s: %w", path, err)
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+l.base.Host+path, content)
	if err != nil {
		return nil, fmt.Errorf("make request of %s: %w", path, err)
	}
	req.Header = l.header.Clone()
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	conn := l.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("set deadline: %w", err)
	}
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("send request of %s: %w", path, err)
	}
	resp, err := http.ReadResponse(l.reader, req)
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", path, err)
	}
	return resp, nil
}

func (l *line) dial(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 30 * time.Second}, Config: l.config}
	conn, err := d.DialContext(ctx, "tcp", l.base.Host)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", l.base.Host, err)
	}
	l.conn, _ = conn.(*tls.Conn)
	l.reader = bufio.NewReaderSize(l.conn, 2<<10)
	return nil
}

func (l *line) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

type refusedError struct {
	path    string
	status  int
	problem agentwire.Problem
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%s was refused with status %d, %s: %s", e.path, e.status, e.problem.Code, e.problem.Detail)
}

// refused reports whether the control plane refused for good and not only for
// now.
func refused(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && r.status < http.StatusInternalServerError && r.status != http.StatusTooManyRequests &&
		r.status != http.StatusRequestTimeout
}
