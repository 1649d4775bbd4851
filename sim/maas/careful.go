package maas

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
)

// careful stores what a request has changed before it is answered, as the
// database of a real region does: what a client was told survives a kill.
func (r *Region) careful(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet {
			h.ServeHTTP(w, q)
			return
		}
		held := &heldAnswer{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(held, q)
		if held.taken {
			return
		}
		if err := r.Keep(); err != nil {
			r.log.Error("save state", "error", err)
		}
		w.WriteHeader(held.status)
		_, _ = w.Write(held.body.Bytes()) // a caller that has gone cannot be told
	})
}

// heldAnswer is an answer that waits.
type heldAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	taken  bool // somebody took the connection over
}

func (a *heldAnswer) WriteHeader(status int) { a.status = status }

func (a *heldAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

// Hijack hands out the connection, for answers that shall be lost.
func (a *heldAnswer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := a.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, fmt.Errorf("take connection: %w", http.ErrNotSupported)
	}
	a.taken = true
	return hijacker.Hijack()
}
