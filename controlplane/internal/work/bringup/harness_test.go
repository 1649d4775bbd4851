package bringup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simulated "gpuaas/sim/maas"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
)

// Canaries: they may appear in the secrets engine and towards machines, and
// nowhere else.
const (
	powerPass      = "canary-bmc-password"
	overridePass   = "canary-override-password"
	deployPassword = "canary-deploy-password"
)

// someSKU is one that every fresh database has.
const someSKU = "h200-sxm-baremetal-8g"

// world is a site on a simulated MAAS, and what brings machines up there.
type world struct {
	db, owner *postgres.DB
	sim       *simulated.Region
	vault     *vault
	sites     *site.Service
	nodes     *node.Service
	site      site.Site
	profile   site.Profile
	bmc       *bmcPlay
	bringup   *bringup.Bringup
	asked     *requests // of MAAS
	logs      *locked
	saves     atomic.Int64 // calls of Work.Save
}

// plan is what a test wants otherwise than usual.
type plan struct {
	sim    simulated.Options
	policy site.PolicyChange
	config bringup.Config
}

// newWorld starts with three servers in the rack that MAAS does not know; see
// work for their names and addresses.
func newWorld(tb testing.TB, adjust ...func(*plan)) *world {
	tb.Helper()
	w := &world{
		vault: newVault(), bmc: &bmcPlay{}, asked: &requests{count: map[string]int{}},
		logs: &locked{},
	}
	p := plan{sim: simulated.Options{
		Fleet: fleet.Options{Unknown: 3}, Settings: map[string]string{"upstream_dns": "1.1.1.1 8.8.8.8"},
		Log: slog.New(w.asked),
	}}
	for _, a := range adjust {
		a(&p)
	}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.sim = simulated.StartTest(tb, p.sim)
	w.sites = site.New(site.Config{
		DB: w.db, Secrets: w.vault, FingerprintRounds: 1,
		Regions: &site.MAAS{Loopback: func(netip.AddrPort) bool { return true }},
	})
	w.nodes = node.New(node.Config{DB: w.db, PKI: pkiPlay{}, Bootstrap: bootstrapPlay{}})
	w.settle(tb, p.policy)
	cfg := p.config
	cfg.DB, cfg.Sites, cfg.Regions, cfg.Secrets, cfg.Nodes = w.db, w.sites,
		&site.MAAS{Loopback: func(netip.AddrPort) bool { return true }}, w.vault, w.nodes
	cfg.Logger = slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if cfg.Bootstrap == nil {
		cfg.Bootstrap = bootstrapPlay{}
	}
	if cfg.BMC == nil {
		cfg.BMC = w.bmc
	}
	if cfg.Watch.Pace == nil {
		cfg.Watch.Pace = func(maas.Status) (least, most time.Duration) { return 5 * time.Millisecond, 20 * time.Millisecond }
		cfg.Watch.EventsEvery = 20 * time.Millisecond
	}
	w.bringup = bringup.New(cfg)
	tb.Cleanup(w.bringup.Close)
	w.asked.reset()
	return w
}

func set[T any](v T) *T { return &v }

// settle makes the site, its credentials and its profile.
func (w *world) settle(tb testing.TB, policy site.PolicyChange) {
	tb.Helper()
	ctx := system(tb)
	made, err := w.sites.CreateSite(ctx, "dc1", site.SettingsChange{
		RegionCode: set("eu-1"), APIBaseURL: set(w.sim.URL), PXEIface: set("eno1"), PXEVLANVID: set(int32(0)),
		NodePXEIface: set("eno8303"),
	})
	if err != nil {
		tb.Fatal(err)
	}
	w.equip(tb, made.ID)
	if w.site, err = w.sites.Site(ctx, made.ID); err != nil {
		tb.Fatal(err)
	}
	profiles, err := w.sites.Profiles(ctx, made.ID, postgres.Slice[id.Profile]{Limit: 10})
	if err != nil || len(profiles) != 1 {
		tb.Fatalf("profiles are %v, %v", profiles, err)
	}
	w.profile = profiles[0]
	if policy.DataDisks == nil { // or every test of the stage would answer for the disks
		policy.DataDisks = set(site.DisksLeave)
	}
	if w.profile, err = w.sites.UpdateProfile(ctx, made.ID, w.profile.ID, w.profile.Version,
		site.ProfileChange{Policy: policy}); err != nil {
		tb.Fatal(err)
	}
}

// equip gives the site its credentials past the command that does so: its
// fingerprints are slow on purpose, and every test would pay for them.
func (w *world) equip(tb testing.TB, of id.Site) {
	tb.Helper()
	for name, values := range map[string]map[string]string{
		"api-token": {"token": w.sim.Token, "api_base_url": w.sim.URL}, "power/default": {"user": "root", "pass": powerPass},
		"deploy-password": {"pass": deployPassword},
	} {
		secret := map[string]redact.Secret{}
		for field, value := range values {
			secret[field] = redact.New(value)
		}
		if err := w.vault.Put(tb.Context(), "maas-sites/"+of.String()+"/"+name, secret); err != nil {
			tb.Fatal(err)
		}
	}
	_, err := w.owner.Exec(tb.Context(), `UPDATE maas_sites SET
		api_token_fingerprint = 'a1', api_token_rotated_at = now(), power_fingerprint = 'b2', power_rotated_at = now(),
		deploy_password_fingerprint = 'c3', deploy_password_rotated_at = now() WHERE id = $1`, of)
	if err != nil {
		tb.Fatal(err)
	}
}

func system(tb testing.TB) context.Context {
	tb.Helper()
	return auth.With(telemetry.WithCorrelation(tb.Context(), "test"), auth.System("test"))
}

// hostname is the name of the nth server, also of those that a fleet of the
// simulator puts on record.
func hostname(n int) string { return fmt.Sprintf("gpu-%05d", n) }

// work is a job on the nth server of the rack, counted from 1.
func (w *world) work(n int) *bringup.Work {
	return &bringup.Work{
		Work: job.Work{
			Kind: "onboarding", Job: id.NewString(), WorkflowID: "onboarding-test", Epoch: 1, Attempt: 1,
			Since: time.Now(), Deadline: time.Now().Add(30 * time.Second),
			Fence:     func(context.Context) error { return nil },
			Save:      func(context.Context) error { w.saves.Add(1); return nil },
			Heartbeat: func() {},
		},
		Site: w.site, Profile: w.profile, SKU: someSKU, Hostname: hostname(n), IPMIIP: fleet.BMCAddress(n),
		Node: id.New[id.Node](),
	}
}

// does runs a stage that must succeed.
func (w *world) does(tb testing.TB, stage string, job *bringup.Work) bringup.Result {
	tb.Helper()
	run, known := w.bringup.Stages()[stage]
	if !known {
		tb.Fatalf("there is no stage %s", stage)
	}
	result, err := run(system(tb), job)
	if err != nil {
		tb.Fatalf("%s: %v (%+v)", stage, err, bringup.Classify(err))
	}
	return result
}

// fails runs a stage that must fail as said.
func (w *world) fails(tb testing.TB, stage string, job *bringup.Work, class job.FailureClass,
	code string,
) *bringup.Failure {
	tb.Helper()
	run, known := w.bringup.Stages()[stage]
	if !known {
		tb.Fatalf("there is no stage %s", stage)
	}
	result, err := run(system(tb), job)
	if err == nil {
		tb.Fatalf("%s succeeds (%+v), want %s %s", stage, result, class, code)
	}
	f := bringup.Classify(err)
	if f.Class != class || f.Code.String() != code {
		tb.Fatalf("%s fails with %s %s (%v, %v), want %s %s", stage, f.Class, f.Code, f, f.Cause, class, code)
	}
	if f.Message == "" || f.Remedy == "" {
		tb.Errorf("%s: the failure %s does not say what happened and what to do: %q, %q", stage, code, f.Message, f.Remedy)
	}
	w.discreet(tb, f.Message, f.Remedy, fmt.Sprintf("%v %+v", f.Details, f.Cause))
	return f
}

// order is the way of a machine on which nothing goes wrong.
var order = slices.Concat([]string{
	bringup.LoadSiteConfig, bringup.ResolvePowerCredentials, bringup.CreateOrFindInMAAS, bringup.CommissionNode,
	bringup.WaitForReady, bringup.ConfigureStorage, bringup.ApplyRoCEPhase2, bringup.EnsurePXEInterfaceAuto,
	bringup.RenderCloudInit, bringup.DeployViaMAAS, bringup.WaitForDeployed,
}, bringup.AfterDeployment)

// upTo runs the stages before one of them.
func (w *world) upTo(tb testing.TB, stage string, job *bringup.Work) {
	tb.Helper()
	for _, s := range order {
		if s == stage {
			return
		}
		w.does(tb, s, job)
	}
	tb.Fatalf("%s is not on the way", stage)
}

// admin is who looks at the simulator past its API.
var admin = region.Caller{User: &region.User{Name: "admin", Admin: true}}

// machine is what MAAS has on record under a host name, MAC, BMC address or id.
func (w *world) machine(tb testing.TB, name string) *region.MachineDoc {
	tb.Helper()
	systemID, known := w.sim.Find(name)
	if !known {
		tb.Fatalf("MAAS has no machine %s", name)
	}
	doc, err := w.sim.Machine(admin, systemID)
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// fault lets something go wrong in MAAS.
func (w *world) fault(tb testing.TB, r simfault.Rule) {
	tb.Helper()
	if _, err := w.sim.Faults.Add(r); err != nil {
		tb.Fatal(err)
	}
}

// happens lets something befall a machine out of band.
func (w *world) happens(tb testing.TB, name, what string) {
	tb.Helper()
	if err := w.sim.Happen(name, what); err != nil {
		tb.Fatal(err)
	}
}

// discreet refuses texts that hold a secret.
func (w *world) discreet(tb testing.TB, texts ...string) {
	tb.Helper()
	secrets := append(w.vault.plain(), powerPass, overridePass, deployPassword)
	for _, text := range append(texts, w.logs.String()) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				tb.Errorf("a secret is told: %s", text)
			}
		}
	}
}

// discreetWork refuses a job whose row would hold a secret.
func (w *world) discreetWork(tb testing.TB, job *bringup.Work) {
	tb.Helper()
	facts, err := json.Marshal(job.Facts)
	if err != nil {
		tb.Fatal(err)
	}
	w.discreet(tb, string(facts), fmt.Sprintf("%+v %s %s", job.Observed, job.PXEMAC, job.SystemID))
}

// requests counts what MAAS was asked, by the simulator's names of operations.
type requests struct {
	mu    sync.Mutex
	count map[string]int
}

func (r *requests) Enabled(context.Context, slog.Level) bool { return true }
func (r *requests) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *requests) WithGroup(string) slog.Handler            { return r }

// Handle counts a request that was served, whatever became of its answer.
func (r *requests) Handle(_ context.Context, rec slog.Record) error {
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "operation" {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.count[a.Value.String()]++
		}
		return true
	})
	return nil
}

func (r *requests) of(operation string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[operation]
}

func (r *requests) total() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.count {
		n += c
	}
	return n
}

func (r *requests) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.count)
}

func (r *requests) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(maps.Clone(r.count))
}

// vault is a secrets engine in memory, with failures of the test's choice.
type vault struct {
	mu      sync.Mutex
	failure error
	kept    map[string]map[string]redact.Secret
}

func newVault() *vault { return &vault{kept: map[string]map[string]redact.Secret{}} }

func (v *vault) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failure = err
}

func (v *vault) Put(_ context.Context, path string, values map[string]redact.Secret) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failure == nil {
		v.kept[path] = maps.Clone(values)
	}
	return v.failure
}

func (v *vault) Get(_ context.Context, path string) (map[string]redact.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	values, known := v.kept[path]
	if v.failure == nil && !known {
		return nil, fault.New(fault.NotFound, "secret_not_found", "there is no secret under %s", path)
	}
	return maps.Clone(values), v.failure
}

func (v *vault) Delete(_ context.Context, path string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failure == nil {
		delete(v.kept, path)
	}
	return v.failure
}

// paths are where something is kept.
func (v *vault) paths() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.kept))
}

// plain is every secret that is kept, except for names and addresses.
func (v *vault) plain() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for _, values := range v.kept {
		for field, value := range values {
			if !slices.Contains([]string{"user", "api_base_url", "power_driver", "cipher_suite_id"}, field) {
				out = append(out, value.Reveal())
			}
		}
	}
	return out
}

// bmcPlay stands for the BMCs of servers that MAAS does not reach yet.
type bmcPlay struct {
	mu     sync.Mutex
	err    error
	booted func(address string) // what the server then does
	calls  []string
}

func (b *bmcPlay) PXECycle(_ context.Context, address, user string, pass redact.Secret) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, address)
	if user == "" || pass.IsZero() {
		return errors.New("no credentials")
	}
	if b.err == nil && b.booted != nil {
		b.booted(address)
	}
	return b.err
}

func (b *bmcPlay) cycled() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// bootstrapPlay stands for the node-facing listener.
type bootstrapPlay struct{}

func (bootstrapPlay) Command(token redact.Secret) (redact.Secret, error) {
	return redact.New("bootstrap with " + token.Reveal()), nil
}

func (bootstrapPlay) CloudInit(_ context.Context, token redact.Secret) (redact.Secret, error) {
	return redact.New("#cloud-config\nruncmd:\n- [echo, " + token.Reveal() + "]\n"), nil
}

func (bootstrapPlay) CAFingerprint() string { return "ab12" }

type pkiPlay struct{}

func (pkiPlay) RevokeCertificate(context.Context, string) error { return nil }

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
