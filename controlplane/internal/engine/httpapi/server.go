package httpapi

import (
	"net/http"
	"time"
)

// Server is an HTTP server that no slow or greedy caller can hold up. Each
// operation decides how long a body and an answer may take, because streams
// have no end.
func Server(handler http.Handler, addr string) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}
