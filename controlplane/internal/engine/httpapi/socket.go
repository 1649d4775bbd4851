package httpapi

import (
	"fmt"
	"net/http"
)

// Socket adds a handler that takes over its connection, for example for a
// websocket. The frame traces, logs and counts it like an operation, and
// applies the gate and the limit on strangers. The handler itself finds out who
// is calling. It is not part of the contract.
func (a *API) Socket(id, path string, handler http.Handler) {
	if a.known[id] {
		panic(fmt.Sprintf("httpapi: socket %q: registered twice", id))
	}
	a.known[id] = true
	a.router.Get(path, func(w http.ResponseWriter, r *http.Request) {
		exchangeFrom(r.Context()).operation = id
		err := a.cfg.Gate()
		if err == nil {
			err = a.strangers.take(AddressKey(ClientAddr(r.Context())))
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
