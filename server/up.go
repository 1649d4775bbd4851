package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/controlplane"
	"gpuaas/sim/lab"
	"gpuaas/stack"
)

func upCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "up", Short: "Bring the whole control plane up on this machine, engines included", Args: cobra.NoArgs,
		Long: "Starts a private PostgreSQL, Temporal, OpenBao and NATS, then the control plane, and stays in the\n" +
			"foreground until Ctrl-C. Everything that lasts is in the state folder. Services that are named in\n" +
			"the settings (such as --temporal-address) are used instead of private ones.",
	}
	u := up{version: version}
	u.settings = addSettings(cmd)
	cmd.Flags().StringVar(&u.state, "state", cmp.Or(os.Getenv("GPUAAS_STATE"), ".gpuaas"),
		"folder for everything that lasts (GPUAAS_STATE)")
	cmd.Flags().StringVar(&u.rack, "rack", "process",
		"virtual machines for trying things out: lxd, process or none; see: gpuaas sim rack")
	cmd.Flags().IntVar(&u.machines, "machines", 0,
		fmt.Sprintf("machines of the simulated MAAS when it is first made (%d; with --rack lxd %d)", labMachines,
			labMachinesLXD))
	cmd.Flags().Float64Var(&u.speed, "hardware-speed", labSpeed,
		"how many times faster than servers these machines commission and deploy")
	cmd.Flags().StringVar(&u.servers, "servers", "", "path of the gpuaas-servers program (GPUAAS_SERVERS)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		u.out = cmd.OutOrStdout()
		return u.run(cmd)
	}
	return cmd
}

type up struct {
	version  string
	settings *settings
	state    string
	servers  string
	rack     string
	machines int
	speed    float64
	out      io.Writer
	saying   sync.Mutex
}

func (u *up) run(cmd *cobra.Command) error {
	ctx, began := cmd.Context(), time.Now()
	state, err := filepath.Abs(u.state)
	if err != nil {
		return fmt.Errorf("find state folder: %w", err)
	}
	u.state = state
	// What the operator named outside is asked for before anything is started.
	unset := controlplane.Defaults()
	unset.Listen = ""
	named, _ := u.settings.load(cmd, unset)
	if err := u.refuseEarly(cmd); err != nil {
		return err
	}
	u.say("state folder %s", u.state)
	engines, err := stack.Start(ctx, stack.Options{
		State: u.state, Servers: u.servers, Progress: u.progress, External: external(named),
	})
	if err != nil {
		return err
	}
	if err := engines.Ensure(ctx, stack.Registry); err != nil { // nobody needs it to start
		u.say("there is no registry for artifacts: %v", err)
	}
	closeRack, closeLab := func() {}, func() {}
	defer func() { u.stop(ctx, engines, func() { closeLab(); closeRack() }) }()
	machines, stopRack, err := u.openRack(ctx)
	if err != nil {
		return err
	}
	closeRack = stopRack
	ready := embedded(engines.Endpoints())
	nodeListener, err := u.awaitNodes(ctx, named.Nodes, &ready.Nodes, nodeHost(ctx, machines))
	if err != nil {
		return err
	}
	laboratory, stopLab, err := u.openLab(machines)
	if err != nil {
		return errors.Join(err, nodeListener.Close())
	}
	closeLab = stopLab
	ready.Nodes.WithoutGPUs = machines != nil // they are virtual
	if laboratory != nil {
		ready.Nodes.SSHProxy = laboratory.SSHProxy
	}
	cfg, problems := u.settings.load(cmd, ready)
	if len(problems) > 0 {
		return fmt.Errorf("the configuration has %d problem(s):\n%w", len(problems), errors.Join(problems...))
	}
	if laboratory != nil {
		cfg.Sites.Loopback = append(cfg.Sites.Loopback, onLoopback(laboratory.URL)...)
	}
	listener, err := listen(ctx, cfg.Listen, named.Listen != "")
	if err != nil {
		return err
	}
	if at := listener.Addr().String(); named.Listen == "" && at != cfg.Listen {
		u.say("%s is taken: the API is at %s instead; --listen chooses another address", cfg.Listen, at)
	}
	log, err := os.OpenFile(filepath.Join(u.state, "logs", "controlplane.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = log.Close() }()
	restored, err := engines.Restored()
	if err != nil {
		return err
	}
	u.say("control plane starting")
	defer context.AfterFunc(ctx, func() { u.say("stopping: the control plane ends what is in flight") })()
	return controlplane.Run(ctx, cfg, controlplane.Options{
		Version: u.version, Log: log, Listener: listener, NodeListener: nodeListener, KeepAdminToken: u.keepToken,
		Lab:      labPages(laboratory),
		Restored: (*controlplane.Restored)(restored), RestoreNoted: engines.ForgetRestored,
		AdminToken: func() (controlplane.Secret, error) { return readToken(u.tokenFile()) },
		Ready:      func(a controlplane.Announcement) { u.ready(engines, cfg, laboratory, a, time.Since(began)) },
	})
}

// stop ends the engines and, side by side with them, the machines: the control plane,
// which used both, has ended.
func (u *up) stop(ctx context.Context, engines *stack.Stack, machines func()) {
	began := time.Now()
	u.say("stopping engines and machines side by side")
	if err := engines.Stop(context.WithoutCancel(ctx), machines); err != nil {
		u.say("could not stop cleanly: %v", err)
	}
	u.say("stopped after %s; everything is kept in %s", time.Since(began).Round(100*time.Millisecond), u.state)
}

func (u *up) say(format string, args ...any) {
	u.saying.Lock() // engines and machines tell side by side
	defer u.saying.Unlock()
	_, _ = fmt.Fprintf(u.out, "  "+format+"\n", args...)
}

func (u *up) progress(p stack.Progress) {
	line := fmt.Sprintf("%-9s %-10s %5.1fs  %s", p.Engine, p.Phase, p.Elapsed.Seconds(), p.Detail)
	u.say("%s", strings.TrimRight(line, " "))
}

func (u *up) tokenFile() string { return filepath.Join(u.state, "admin-token") }

func (u *up) keepToken(token controlplane.Secret) error { return keepToken(u.tokenFile(), token) }

func (u *up) ready(engines *stack.Stack, cfg controlplane.Config, laboratory *lab.Lab, said controlplane.Announcement,
	took time.Duration,
) {
	scheme := "http"
	if cfg.TLS.CertFile != "" {
		scheme = "https"
	}
	url, admin := scheme+"://"+said.Address, said.Admin
	if err := engines.Announce(url); err != nil {
		u.say("could not note the address in the state folder: %v", err)
	}
	_, _ = fmt.Fprintf(u.out, `
gpuaas is ready after %.1f s%s

  Open %s in a browser%s
  documentation of the API  %s/docs
  address for nodes         %s
  logs                      %s

Or use the command line, in another terminal:

%s  bin/gpuaas login --url %s --token-file %s
  bin/gpuaas self-check run --wait
%s
Ctrl-C stops everything and keeps the state.
`, took.Seconds(), forNodes(said.Listener), url, u.wayIn(admin), url, cfg.Nodes.URL, filepath.Join(u.state, "logs"), u.beforeLogin(admin), url, u.tokenFile(), u.tryLab(laboratory))
}

// forNodes says what keeps nodes away, where something does.
func forNodes(problem error) string {
	if problem == nil {
		return ""
	}
	return fmt.Sprintf(", but NOT for nodes: none of them can connect\n\n  %v", problem)
}

// beforeLogin is what must come before a token file can be signed in with.
func (u *up) beforeLogin(admin controlplane.AdminAccess) string {
	if admin.Works {
		return ""
	}
	return "  " + u.recoverIt() + "\n"
}

func (u *up) recoverIt() string { return "bin/gpuaas admin recover --state " + u.state }

// wayIn says how to sign in, and never points to a token that does not work.
func (u *up) wayIn(admin controlplane.AdminAccess) string {
	switch left := time.Until(admin.Ends); {
	case !admin.Works:
		return fmt.Sprintf(". The admin token in %s does not work\n  (any more). Sign in as somebody else, or make a new "+
			"one, in another terminal:\n\n    %s\n",
			u.tokenFile(), u.recoverIt())
	case left < announceEnd:
		return fmt.Sprintf(" and sign in with the admin token, which this shows:\n\n    cat %s\n\n  It ends in %d days, on "+
			"%s. Make a new one before that:\n\n    %s\n",
			u.tokenFile(), int(left.Hours()/24), admin.Ends.UTC().Format(time.DateOnly), u.recoverIt())
	default:
		return fmt.Sprintf(" and sign in with the admin token, which this shows:\n\n    cat %s\n", u.tokenFile())
	}
}

// announceEnd is how long before its end the admin token is told of.
const announceEnd = 30 * 24 * time.Hour

// external picks the services that the operator named.
func external(cfg controlplane.Config) stack.Endpoints {
	return stack.Endpoints{
		PostgresURL: cfg.Postgres.URL.Reveal(), PostgresMigrateURL: cfg.Postgres.MigrateURL.Reveal(),
		TemporalAddress: cfg.Temporal.Address, TemporalNamespace: cfg.Temporal.Namespace,
		TemporalCAFile: cfg.Temporal.CAFile, TemporalCertFile: cfg.Temporal.CertFile, TemporalKeyFile: cfg.Temporal.KeyFile,
		NATSURL: cfg.NATS.URL, NATSTokenFile: cfg.NATS.TokenFile,
		RegistryURL:    cfg.Registry.URL,
		SecretsAddress: cfg.Secrets.Address, SecretsRoleIDFile: cfg.Secrets.RoleIDFile,
		SecretsSecretIDFile: cfg.Secrets.SecretIDFile,
		SecretsAPI:          stack.AppRole(cfg.Secrets.API), SecretsNodes: stack.AppRole(cfg.Secrets.Nodes),
		SecretsWorker: stack.AppRole(cfg.Secrets.Worker), SecretsRelay: stack.AppRole(cfg.Secrets.Relay),
	}
}

// embedded is the configuration of a control plane on a private stack.
func embedded(e stack.Endpoints) controlplane.Config {
	cfg := controlplane.Defaults()
	cfg.Postgres.URL, cfg.Postgres.MigrateURL = controlplane.NewSecret(e.PostgresURL),
		controlplane.NewSecret(e.PostgresMigrateURL)
	cfg.Postgres.MigrateOnStart = e.PostgresMigrateURL != ""
	cfg.Temporal.Address, cfg.Temporal.Namespace = e.TemporalAddress, e.TemporalNamespace
	cfg.Temporal.CAFile, cfg.Temporal.CertFile, cfg.Temporal.KeyFile = e.TemporalCAFile, e.TemporalCertFile,
		e.TemporalKeyFile
	cfg.NATS.URL, cfg.NATS.TokenFile = e.NATSURL, e.NATSTokenFile
	cfg.Registry = controlplane.RegistryConfig{
		URL: e.RegistryURL, Folder: e.RegistryFolder,
		CAFile: e.RegistryCAFile, CertFile: e.RegistryCertFile, KeyFile: e.RegistryKeyFile,
	}
	cfg.Secrets.Address = e.SecretsAddress
	cfg.Secrets.API, cfg.Secrets.Nodes = controlplane.AppRoleConfig(e.SecretsAPI),
		controlplane.AppRoleConfig(e.SecretsNodes)
	cfg.Secrets.Worker, cfg.Secrets.Relay = controlplane.AppRoleConfig(e.SecretsWorker),
		controlplane.AppRoleConfig(e.SecretsRelay)
	if cfg.Secrets.Worker.RoleIDFile == "" { // an engine of the operator with one identity for all roles
		cfg.Secrets.RoleIDFile, cfg.Secrets.SecretIDFile = e.SecretsRoleIDFile, e.SecretsSecretIDFile
	}
	return cfg
}

// refuseEarly finds what no engine could make right, before engines are started:
// everything that they would fill in is taken as filled in.
func (u *up) refuseEarly(cmd *cobra.Command) error {
	if err := checkRack(u.rack); err != nil {
		return err
	}
	role := stack.AppRole{RoleIDFile: os.DevNull, SecretIDFile: os.DevNull} // must be there; nothing reads it
	filled := embedded(stack.Endpoints{                                     //nolint:gosec // addresses and the names of empty files
		PostgresURL: "postgres://127.0.0.1/gpuaas", TemporalAddress: "127.0.0.1:7233", TemporalNamespace: "gpuaas",
		NATSURL: "nats://127.0.0.1:4222", SecretsAddress: "http://127.0.0.1:8200",
		SecretsAPI: role, SecretsNodes: role, SecretsWorker: role, SecretsRelay: role,
	})
	filled.Nodes.URL = "https://127.0.0.1:" + nodePort
	if _, problems := u.settings.load(cmd, filled); len(problems) > 0 {
		return fmt.Errorf("the configuration has %d problem(s):\n%w", len(problems), errors.Join(problems...))
	}
	return nil
}

// listen takes the configured address, or any free port next to it when it is
// the default that is taken. An address that somebody chose is not changed, not
// even the default.
func listen(ctx context.Context, address string, chosen bool) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err == nil {
		return l, nil
	}
	if chosen {
		return nil, fmt.Errorf("the address that you chose cannot be listened on: %w; stop what uses it, choose another, or leave listen out and any free port is taken", err)
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", host, err)
	}
	return l, nil
}
