package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
)

// StreamName is the JetStream stream that holds all events.
const StreamName = "GPUAAS_EVENTS"

// NATSConfig says how to reach NATS and what the event stream looks like. Zero
// values mean the defaults. Credentials are read from files at every
// connection, so they can be replaced while the product runs.
type NATSConfig struct {
	URL             string        // one or more servers, separated by commas, without credentials
	TokenFile       string        // holds a token
	User            string        // goes with PasswordFile
	PasswordFile    string        // holds the password of User
	CredentialsFile string        // holds a user JWT and its seed, as nsc writes them
	CAFile          string        // certificates to trust beside the system's
	Prefix          string        // before the event type in a subject; eventwire.DefaultPrefix
	Replicas        int           // of the stream; unset: keep what exists, else 1
	MaxBytes        int64         // of the stream; no limit
	MaxAge          time.Duration // of an event; 7 days
	Logger          *slog.Logger
}

const (
	duplicateWindow = 10 * time.Minute
	publishPatience = 5 * time.Second // time limit for the acknowledgement of one message
	apiPatience     = 2 * time.Second // time limit for an answer about the stream
)

// NATS publishes events to JetStream and reads them back.
type NATS struct {
	cfg  NATSConfig
	log  *slog.Logger
	conn *nats.Conn
	js   jetstream.JetStream

	mu      sync.Mutex
	ensured bool // the stream was seen since the last connect
}

// ConnectNATS returns at once. The connection is made in the background as soon
// as NATS can be reached, and again whenever it breaks.
func ConnectNATS(cfg NATSConfig) (*NATS, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, eventwire.DefaultPrefix)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, 7*24*time.Hour)
	n := &NATS{cfg: cfg, log: cfg.Logger}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	conn, err := nats.Connect(cfg.URL, n.options()...)
	if err != nil { // not about reachability, which is retried
		return nil, misconfigured("%s", withoutURL(err))
	}
	n.conn = conn
	n.js, err = jetstream.New(conn, jetstream.WithPublishAsyncTimeout(publishPatience),
		jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return n, nil
}

func (c NATSConfig) validate() error {
	ways := 0
	for _, file := range []string{c.TokenFile, c.PasswordFile, c.CredentialsFile} {
		if file != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		return misconfigured("token, password and credentials exclude each other")
	case (c.User == "") != (c.PasswordFile == ""):
		return misconfigured("a user needs a password file, and the other way round")
	}
	return nil
}

func misconfigured(format string, args ...any) error {
	return fault.New(fault.Invalid, "nats_config_invalid", "NATS cannot be used as configured: "+format, args...).
		WithRemedy("check the NATS URL and the credential files")
}

func (n *NATS) options() []nats.Option {
	options := []nats.Option{
		nats.Name("gpuaas"),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // credentials may be about to be replaced
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(200*time.Millisecond, 200*time.Millisecond),
		nats.ReconnectBufSize(-1), // the outbox is the buffer
		nats.Timeout(3 * time.Second),
		nats.PingInterval(20 * time.Second),
		nats.ConnectHandler(func(*nats.Conn) { n.forget() }),
		nats.ReconnectHandler(func(*nats.Conn) { n.forget() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				n.log.Warn("connection to NATS lost", "error", withoutURL(err))
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			n.log.Warn("NATS reports an error", "error", withoutURL(err))
		}),
	}
	if n.cfg.TokenFile != "" {
		options = append(options, nats.TokenHandler(func() string { return n.secret(n.cfg.TokenFile) }))
	}
	if n.cfg.PasswordFile != "" {
		options = append(options, nats.UserInfoHandler(func() (
			string, string,
		) {
			return n.cfg.User, n.secret(n.cfg.PasswordFile)
		}))
	}
	if n.cfg.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(n.cfg.CredentialsFile))
	}
	if n.cfg.CAFile != "" {
		options = append(options, nats.RootCAs(n.cfg.CAFile))
	}
	return options
}

func (n *NATS) secret(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		n.log.Warn("NATS credentials cannot be read", "error", err)
	}
	return strings.TrimSpace(string(b))
}

// withoutURL hides errors that quote a URL, which may hold a password.
func withoutURL(err error) string {
	if strings.Contains(err.Error(), "://") {
		return "the URL or its server is not usable"
	}
	return err.Error()
}

// Close ends the connection.
func (n *NATS) Close() { n.conn.Close() }

// Check asks whether the stream answers.
func (n *NATS) Check(ctx context.Context) error {
	_, err := n.state(ctx)
	return err
}

// state returns what the stream holds at this moment.
func (n *NATS) state(ctx context.Context) (jetstream.StreamState, error) {
	if err := n.ensure(ctx); err != nil {
		return jetstream.StreamState{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	stream, err := n.js.Stream(ctx, StreamName)
	if err != nil {
		return jetstream.StreamState{}, unreachable(fmt.Errorf("look at stream %s: %w", StreamName, err))
	}
	return stream.CachedInfo().State, nil
}

// ErrUnavailable says that NATS is away.
var ErrUnavailable = fault.New(fault.Unavailable, "events_unavailable", "the event stream cannot be reached").
	WithRemedy("check that NATS with JetStream is running; events are kept and will be published when it is back")

func unreachable(cause error) error {
	return fault.Wrap(cause, ErrUnavailable.Kind, ErrUnavailable.Code, "%s", ErrUnavailable.Message).WithRemedy("%s",
		ErrUnavailable.Remedy)
}

func (n *NATS) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ensured = false
}

// ensure creates the stream if it does not exist, and otherwise updates the
// settings that the product decides.
func (n *NATS) ensure(ctx context.Context) error {
	if !n.conn.IsConnected() {
		return unreachable(nats.ErrDisconnected)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ensured {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	stream, err := n.js.Stream(ctx, StreamName)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		_, err = n.js.CreateStream(ctx, n.stream(
			jetstream.StreamConfig{Name: StreamName, Storage: jetstream.FileStorage, MaxBytes: -1, Replicas: 1}))
	case err == nil:
		if now, want := stream.CachedInfo().Config, n.stream(stream.CachedInfo().Config); !sameStream(now, want) {
			_, err = n.js.UpdateStream(ctx, want)
		}
	}
	if err != nil {
		return unreachable(fmt.Errorf("ensure stream %s: %w", StreamName, err))
	}
	n.ensured = true
	return nil
}

// stream sets what the product decides. The operator decides the rest.
func (n *NATS) stream(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Description = "Events of the gpuaas control plane"
	c.Subjects = []string{eventwire.Subjects(n.cfg.Prefix)}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld
	c.MaxAge = n.cfg.MaxAge
	c.Duplicates = min(duplicateWindow, n.cfg.MaxAge)
	c.Replicas = cmp.Or(n.cfg.Replicas, c.Replicas)
	c.MaxBytes = cmp.Or(n.cfg.MaxBytes, c.MaxBytes)
	return c
}

func sameStream(a, b jetstream.StreamConfig) bool {
	return slices.Equal(a.Subjects, b.Subjects) && a.Description == b.Description && a.Retention == b.Retention &&
		a.Discard == b.Discard &&
		a.MaxAge == b.MaxAge && a.Duplicates == b.Duplicates && a.Replicas == b.Replicas && a.MaxBytes == b.MaxBytes
}

// Deliver publishes a batch and waits until the stream has stored it.
func (n *NATS) Deliver(ctx context.Context, batch []Message) []error {
	errs := make([]error, len(batch))
	if err := n.ensure(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	acks := make([]jetstream.PubAckFuture, len(batch))
	for i, m := range batch {
		acks[i], errs[i] = n.js.PublishMsgAsync(n.message(m), jetstream.WithMsgID(m.ID.String()),
			jetstream.WithExpectStream(StreamName))
	}
	for i, ack := range acks {
		if errs[i] == nil {
			errs[i] = await(ctx, ack)
		}
		errs[i] = n.classify(errs[i])
	}
	return errs
}

func (n *NATS) message(m Message) *nats.Msg {
	msg := nats.NewMsg(eventwire.Subject(n.cfg.Prefix, eventwire.Type(m.Type)))
	msg.Data = m.Body
	msg.Header.Set(eventwire.HeaderCorrelationID, m.CorrelationID)
	if m.TraceParent != "" {
		msg.Header.Set(eventwire.HeaderTraceParent, m.TraceParent)
	}
	return msg
}

func await(ctx context.Context, ack jetstream.PubAckFuture) error {
	select {
	case <-ack.Ok():
		return nil
	case err := <-ack.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transport lists errors of the connection or the server, which say nothing
// about the message.
var transport = []error{
	nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrConnectionDraining, nats.ErrDisconnected,
	nats.ErrReconnectBufExceeded,
	nats.ErrStaleConnection, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrNoServers, nats.ErrAuthorization,
	nats.ErrPermissionViolation,
	jetstream.ErrNoStreamResponse, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs,
	jetstream.ErrStreamNotFound,
	jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount, jetstream.ErrConnectionClosed,
	jetstream.ErrServerShutdown,
	context.DeadlineExceeded, context.Canceled, io.EOF, net.ErrClosed, os.ErrDeadlineExceeded,
}

// classify distinguishes a stream that cannot be reached from a message that it
// refuses. After a lost acknowledgement the message may be stored; publishing
// it again is harmless, because the stream knows its id.
func (n *NATS) classify(err error) error {
	if err == nil {
		return nil
	}
	if _, known := fault.As(err); known {
		return err
	}
	var api *jetstream.APIError
	if !n.conn.IsConnected() || (errors.As(err, &api) && api.Code >= 500) ||
		slices.ContainsFunc(transport, func(t error) bool { return errors.Is(err, t) }) {
		n.forget() // the stream may be gone
		return unreachable(err)
	}
	return fault.Wrap(err, fault.Invalid, "event_refused", "the event stream refused the event: %s", withoutURL(err))
}
