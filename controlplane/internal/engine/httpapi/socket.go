package httpapi

import (
	"fmt"
	"net/http"
)

// Socket adds a handler that takes its connection over, such as for a
// websocket. It lies in the same frame as operations: traced, logged, counted,
// held back by the gate and by the limit on strangers. It finds out itself who
// is calling, and is no part of the contract.
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
