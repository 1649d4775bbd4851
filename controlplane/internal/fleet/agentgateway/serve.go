package agentgateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve answers nodes until the context ends. Then held polls end at once with
// nothing, and requests in flight are finished.
//
// It does not wait for the secrets engine: until there is a certificate,
// handshakes fail and agents come again.
func (g *Gateway) Serve(ctx context.Context, listener net.Listener) error {
	server := g.server()
	var keeping sync.WaitGroup
	defer keeping.Wait()
	keepCtx, stop := context.WithCancel(ctx)
	defer stop()
	keeping.Go(func() { g.trust.keep(keepCtx) })

	done := make(chan error, 1)
	go func() {
		<-keepCtx.Done()
		server.SetKeepAlivesEnabled(false) // whoever is answered from now on goes elsewhere
		g.leave()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.settings.ShutdownTimeout)
		defer cancel()
		done <- server.Shutdown(grace)
	}()
	err := server.Serve(tls.NewListener(listener, g.tlsConfig()))
	stop()
	shutdown := <-done
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve nodes on %s: %w", listener.Addr(), err)
	}
	if shutdown != nil {
		return fmt.Errorf("finish requests of nodes in flight: %w", shutdown)
	}
	return nil
}

func (g *Gateway) server() *http.Server {
	return &http.Server{
		Handler:           g.handler,
		ReadHeaderTimeout: 15 * time.Second, // the handshake included
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// Strangers who scan ports fail handshakes all day.
		ErrorLog: slog.NewLogLogger(g.logger.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, &connection{})
		},
	}
}

func (g *Gateway) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: g.trust.certificate,
		// The handshake only asks for it; identify verifies it.
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"http/1.1"},
		// A resumed session would keep the certificate of the first handshake after
		// its renewal. Connections last long, so little is lost without resumption.
		SessionTicketsDisabled: true,
	}
}
