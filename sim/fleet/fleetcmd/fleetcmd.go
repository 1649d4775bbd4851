// Package fleetcmd is the command that runs a fleet of simulated agents and
// measures the control plane.
package fleetcmd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/apiclient"
	"gpuaas/sim/fleet"
)

type flags struct {
	url, nodeURL, tokenFile, prefix, sku, region, operation string
	badUpdate                                               string
	agents, atOnce, rate, badEvery                          int
	measure                                                 time.Duration
}

// Command returns `fleet`, to be mounted below the command for simulators.
func Command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use: "fleet", Short: "Run simulated node agents by the thousand", Args: cobra.NoArgs, SilenceUsage: true,
		SilenceErrors: true,
		Long: `Adds nodes to a control plane, enrols a simulated agent for each, and lets them
poll until it is interrupted. They speak the real protocol with keys of their own
and do nothing to any machine. With --measure it asks nodes to answer at a steady
rate for a while, prints how long that took to arrive, and ends. With --operation
it runs that operation on some of them and prints how long its first step took to
arrive, how fast logs are kept and how late those who follow see them.

Use it on a control plane that is for trying things out: its nodes stay in the
inventory.`,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return run(ctx, c.OutOrStdout(), f)
		},
	}
	p := c.Flags()
	p.StringVar(&f.url, "url", "http://127.0.0.1:8080", "address of the API")
	p.StringVar(&f.nodeURL, "node-url", "https://127.0.0.1:8443", "address of the node-facing listener")
	p.StringVar(&f.tokenFile, "token-file", "", "file with the token of an administrator")
	p.IntVar(&f.agents, "agents", 100, "number of agents")
	p.IntVar(&f.atOnce, "at-once", 16, "agents that enrol at the same time")
	p.StringVar(&f.prefix, "prefix", "sim", "what hostnames begin with")
	p.StringVar(&f.sku, "sku", "h200-sxm-baremetal-8g", "SKU of the nodes")
	p.StringVar(&f.region, "region", "sim", "region of the nodes")
	p.DurationVar(&f.measure, "measure", 0, "ask nodes to answer for so long, print figures and end")
	p.StringVar(&f.operation, "operation", "", "measure runs of this operation, as TYPE@VERSION, and go on")
	p.StringVar(&f.badUpdate, "bad-update", "crash", "how bad agents take another version: "+misbehaviours)
	p.IntVar(&f.badEvery, "bad-every", 0, "of so many agents that are told to, one takes another version badly; 0: none does")
	p.IntVar(&f.rate, "rate", 100, "tasks a second while measuring")
	return c
}

func run(ctx context.Context, out io.Writer, f flags) error {
	token, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return fmt.Errorf("read token of an administrator: %w", err)
	}
	api, err := apiclient.New(apiclient.Config{
		URL: f.url, Token: strings.TrimSpace(string(token)),
		UserAgent: "gpuaas-sim-fleet", Attempts: 20,
	})
	if err != nil {
		return fmt.Errorf("prepare API client: %w", err)
	}
	began := time.Now()
	enrolments, fingerprint, err := addNodes(ctx, api, f)
	if err != nil {
		return err
	}
	say(out, "%d nodes added in %.1f s", len(enrolments), time.Since(began).Seconds())
	roots, err := pinnedCA(ctx, f.nodeURL, fingerprint)
	if err != nil {
		return err
	}
	m, runs := newMeasurement(), newRuns()
	var troubles atomic.Int64
	options := fleet.Options{
		URL: f.nodeURL, Roots: roots, Print: runs.print,
		Received: func(e agentwire.Envelope, at time.Time) {
			m.received(e, at)
			runs.received(e, at)
		},
		Trouble: func(string, error) { troubles.Add(1) },
	}
	if options.Takes, err = f.takes(); err != nil {
		return err
	}
	began = time.Now()
	agents, err := options.EnrollAll(ctx, enrolments, f.atOnce)
	if err != nil {
		return err
	}
	say(out, "%d agents enrolled in %.1f s", len(agents), time.Since(began).Seconds())
	running := fleet.Start(ctx, agents)
	defer func() {
		for i, err := range running.Stop() {
			if i < 10 {
				say(out, "refused: %v", err)
			}
		}
	}()
	if f.operation != "" {
		if err := runs.run(ctx, out, api, agents, f); err != nil {
			return err
		}
	}
	if f.measure == 0 {
		say(out, "running; Ctrl-C ends it")
		<-ctx.Done()
		return nil
	}
	err = m.run(ctx, out, api, agents, f)
	say(out, "agents alive %d of %d, calls that failed and were repeated %d", running.Alive(), len(agents),
		troubles.Load())
	return err
}

const misbehaviours = "crash, silence, other, leak or lapse"

// takes says how agents take another version.
func (f flags) takes() (func(node string) fleet.Taking, error) {
	bad := fleet.Taking(f.badUpdate)
	if f.badEvery < 0 || !slices.Contains(fleet.Takings(), bad) {
		return nil, errors.New("--bad-update must be " + misbehaviours + ", and --bad-every not negative")
	}
	counted, badly := 0, map[string]bool{}
	var mu sync.Mutex
	return func(node string) fleet.Taking {
		mu.Lock()
		defer mu.Unlock()
		known, seen := badly[node]
		if !seen {
			counted++
			known = f.badEvery > 0 && counted%f.badEvery == 0
			badly[node] = known
		}
		if known {
			return bad
		}
		return fleet.TakesWell
	}, nil
}

func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }

// addNodes makes the nodes. The answers contain what they enrol with.
func addNodes(ctx context.Context, api *apiclient.Client, f flags) ([]fleet.Enrolment, string, error) {
	enrolments := make([]fleet.Enrolment, f.agents)
	var fingerprint atomic.Pointer[string]
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(f.atOnce)
	for i := range enrolments {
		group.Go(func() error {
			hostname := fmt.Sprintf("%s-%05d", f.prefix, i)
			answer, err := api.CreateNodeWithResponse(ctx, &apiclient.CreateNodeParams{},
				apiclient.NodeNewBody{Hostname: &hostname, Sku: f.sku, RegionCode: f.region})
			if err != nil {
				return fmt.Errorf("add node %s: %w", hostname, err)
			}
			if answer.JSON == nil {
				return fmt.Errorf("add node %s: the control plane answered %s", hostname, answer.HTTP.Status)
			}
			bootstrap := answer.JSON.Bootstrap
			enrolments[i] = fleet.Enrolment{Token: bootstrap.Token, Hostname: hostname}
			fingerprint.Store(&bootstrap.CaFingerprint)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, "", err
	}
	return enrolments, *fingerprint.Load(), nil
}

// pinnedCA fetches the CA of the node-facing listener and checks its
// fingerprint, as the bootstrap of a machine does.
func pinnedCA(ctx context.Context, nodeURL, fingerprint string) (*x509.CertPool, error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the fingerprint decides
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, nodeURL+agentwire.PathCA, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for the CA: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for the CA: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != fingerprint {
		return nil, errors.New("the CA of the node-facing listener is not the one that the API named: is --node-url of " +
			"this control plane?")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New("the CA of the node-facing listener cannot be read")
	}
	return pool, nil
}

func nodeIDs(agents []*fleet.Agent) ([]types.UUID, error) {
	ids := make([]types.UUID, len(agents))
	for i, a := range agents {
		if err := ids[i].UnmarshalText([]byte(a.NodeID)); err != nil {
			return nil, fmt.Errorf("read node id: %w", err)
		}
	}
	return ids, nil
}
