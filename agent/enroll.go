package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/enroll"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// ErrNotEnrolled says that the machine has no certificate yet.
var ErrNotEnrolled = enroll.ErrNotEnrolled

// Enrolled says who the node is now.
type Enrolled struct {
	NodeID      string    `json:"node_id"`
	Environment string    `json:"environment,omitempty"`
	NotAfter    time.Time `json:"certificate_not_after"`
}

// Enroll turns a token into the identity of this node. It tells progress what
// it waits for. No agent may run meanwhile: the control plane would see a
// second one with the same identity.
func Enroll(ctx context.Context, o Options, token string, progress func(string)) (Enrolled, error) {
	if token = strings.TrimSpace(token); token == "" || strings.ContainsAny(token, " \t\r\n") {
		return Enrolled{}, errors.New("enrol: the token must be one word; it comes from a file or from standard input")
	}
	c, err := config.Load(o.HostRoot, o.ConfigPath)
	if err != nil {
		return Enrolled{}, err
	}
	l, err := acquire(c.Lock())
	if errors.Is(err, ErrInUse) {
		return Enrolled{}, fmt.Errorf("enrol: %w: stop it first with systemctl stop gpuaas-node-agent", err)
	}
	if err != nil {
		return Enrolled{}, err
	}
	defer l.release()
	host := hostexec.Host{Root: c.Root}
	machine := inspect.Machine{Host: host, GPUs: gpuHelper(host)}
	id, brought, err := enroll.Enroll(ctx, enroll.Options{
		Config: c, Build: o.Build, Session: rand.Text(), Now: time.Now, Progress: progress,
		Capabilities: (&Agent{}).able(machine.Capabilities(ctx)), Hardware: machine.Hardware(),
		BeforePoll: func(ctx context.Context, client *transport.Client, id *enroll.Identity) {
			if _, err := handBaseline(ctx, host, client, id); err != nil && !unknownCall(err) && progress != nil {
				progress(fmt.Sprintf("baseline of the installation not handed over; the agent tries again: %v", err))
			}
		},
	}, token)
	if err != nil {
		return Enrolled{}, err
	}
	if err := remember(c, id, brought); err != nil {
		return Enrolled{}, err
	}
	return Enrolled{NodeID: id.Node, Environment: id.Environment, NotAfter: id.NotAfter}, nil
}

// remember keeps a task that the first poll brought, for the agent that starts
// next. It drops a task that does not verify: when the lease runs out, the task
// is handed out again and that agent refuses it properly.
func remember(c config.Config, id *enroll.Identity, brought *agentwire.Envelope) (err error) {
	j, err := journal.Open(c.Journal(), id.Node, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := j.RaiseGeneration(id.Generation); err != nil {
		return err
	}
	if brought == nil {
		return nil
	}
	verifiers, err := enroll.LoadVerifiers(c.Verifiers())
	if err != nil {
		return err
	}
	if _, refusal := verifiers.Set().Verify(*brought, id.Node, j.Generation(), time.Now()); refusal != nil {
		return nil
	}
	return j.Accept(*brought)
}

// Remedy says what can be done about an error. It is empty if nobody knows.
func Remedy(err error) string {
	var e *transport.Error
	if errors.As(err, &e) {
		return e.Remedy
	}
	return ""
}

// LogLevel returns the log level of the settings.
func LogLevel(o Options) (slog.Level, error) {
	c, err := config.Load(o.HostRoot, o.ConfigPath)
	if err != nil {
		return 0, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("read log level: %w", err)
	}
	return level, nil
}
