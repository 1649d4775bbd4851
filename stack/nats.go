package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const natsTokenFile = "nats-token"

// nats is a NATS server with JetStream in this process.
type nats struct {
	folder folder
	port   int
	token  string
}

func newNATS(f folder, ports *portBook) (*nats, error) {
	port, err := ports.take("nats", 4222)
	if err != nil {
		return nil, err
	}
	token, err := f.secret(natsTokenFile)
	if err != nil {
		return nil, err
	}
	return &nats{folder: f, port: port, token: token}, nil
}

func (n *nats) address() string { return "nats://" + hostPort(n.port) }

func (n *nats) describe(e *Endpoints) {
	e.NATSURL, e.NATSTokenFile = n.address(), n.folder.secretFile(natsTokenFile)
}

func (n *nats) launch(ctx context.Context, _ func(string)) (instance, error) {
	file, _, err := openLog(n.folder, NATS)
	if err != nil {
		return nil, err
	}
	journal := &natsLog{to: file}
	s, err := server.NewServer(&server.Options{
		ServerName:         "gpuaas",
		Host:               loopback,
		Port:               n.port,
		Authorization:      n.token,
		JetStream:          true,
		StoreDir:           n.folder.path("nats"),
		JetStreamMaxMemory: 64 << 20,
		JetStreamMaxStore:  8 << 30,
		NoSigs:             true, // otherwise it would handle the launcher's SIGTERM
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("configure NATS: %w", err), file.Close())
	}
	s.SetLogger(journal, false, false)
	running := &natsInstance{server: s, exited: make(chan struct{})}
	go func() {
		s.Start()
		s.WaitForShutdown()
		_ = file.Close()
		close(running.exited)
	}()
	if err := running.answers(ctx, journal); err != nil {
		running.stop(ctx)
		return nil, err
	}
	return running, nil
}

type natsInstance struct {
	server *server.Server
	exited chan struct{}
}

func (i *natsInstance) answers(ctx context.Context, journal *natsLog) error {
	for !i.server.ReadyForConnections(50 * time.Millisecond) {
		if err := errors.Join(journal.failure(), ctx.Err()); err != nil {
			return fmt.Errorf("wait for NATS: %w", err)
		}
	}
	return nil
}

func (i *natsInstance) done() <-chan struct{}  { return i.exited }
func (i *natsInstance) kill()                  { i.server.Shutdown() }
func (i *natsInstance) stop(_ context.Context) { i.server.Shutdown(); <-i.exited }

// natsLog writes what matters to the log file. It also keeps NATS from ending
// the process: the server's own logger exits on a fatal message.
type natsLog struct {
	to    io.Writer
	mu    sync.Mutex
	fatal error
}

func (l *natsLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func (l *natsLog) Fatalf(format string, v ...any) {
	l.write("FATAL", format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal = fmt.Errorf(format, v...)
}

func (l *natsLog) Noticef(format string, v ...any) { l.write("NOTICE", format, v...) }
func (l *natsLog) Warnf(format string, v ...any)   { l.write("WARN", format, v...) }
func (l *natsLog) Errorf(format string, v ...any)  { l.write("ERROR", format, v...) }
func (l *natsLog) Debugf(string, ...any)           {}
func (l *natsLog) Tracef(string, ...any)           {}

func (l *natsLog) write(level, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.to, "%s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), level, fmt.Sprintf(format, v...))
}
