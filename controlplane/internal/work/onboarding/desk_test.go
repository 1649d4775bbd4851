package onboarding_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/work/onboarding"
)

const (
	apiRoot = "/api/v1/admin/"
	deskSKU = "h200-desk"
	bmcPass = "canary-bmc-password"
)

// desk is the API of onboardings with a site to onboard at. No workflow runs:
// what becomes of the rows is up to the test.
type desk struct {
	db      *postgres.DB
	owner   *postgres.DB
	service *onboarding.Service
	sites   *site.Service
	vault   *cupboard
	region  *region
	feed    *feed
	api     *httpapi.API
	site    id.Site
	profile id.Profile
}

func newDesk(tb testing.TB) *desk {
	tb.Helper()
	db, owner := postgrestest.NewWithOwner(tb)
	d := &desk{
		db: db, owner: owner, vault: &cupboard{kept: map[string]map[string]redact.Secret{}},
		region: &region{admin: true}, feed: &feed{},
	}
	d.sites = site.New(site.Config{DB: d.db, Secrets: d.vault, FingerprintRounds: 1, Regions: d.region})
	d.service = onboarding.New(onboarding.Config{DB: d.db, Sites: d.sites})
	d.api = httpapitest.New(d.db)
	d.service.Register(d.api, d.feed)
	d.furnish(tb)
	return d
}

// furnish makes a site with credentials, and a SKU.
func (d *desk) furnish(tb testing.TB) {
	tb.Helper()
	ctx := auth.With(telemetry.WithCorrelation(tb.Context(), "test"), auth.System("test"))
	value := func(s string) *string { return &s }
	vlan := int32(46)
	made, err := d.sites.CreateSite(ctx, "dc1", site.SettingsChange{
		RegionCode: value("eu-1"), APIBaseURL: value("http://maas.example:5240/MAAS"), PXEIface: value("ens19"),
		NodePXEIface: value("eno8303"), PXEVLANVID: &vlan,
	})
	if err != nil {
		tb.Fatal(err)
	}
	d.site = made.ID
	if _, err := d.sites.SetCredentials(ctx, d.site, site.Credentials{
		APIToken: redact.New("a:b:c"), DeployPassword: redact.New("canary-deploy"),
		Power: &site.PowerCredentials{User: "root", Pass: redact.New(bmcPass)},
	}); err != nil {
		tb.Fatal(err)
	}
	profiles, err := d.sites.Profiles(ctx, d.site, postgres.Slice[id.Profile]{Limit: 2})
	if err != nil {
		tb.Fatal(err)
	}
	d.profile = profiles[0].ID
	if _, err := sku.New(d.db).Create(ctx, deskSKU, sku.Terms{
		DisplayName: "H200", GPUVendor: "nvidia", GPUModel: "H200", GPUsTotal: 8, CapacityShape: sku.WholeNode,
		AllowedCounts: []int32{1},
		PriceMinor:    1, PriceCurrency: "USD",
	}); err != nil {
		tb.Fatal(err)
	}
}

// cupboard keeps secrets in memory.
type cupboard struct {
	mu   sync.Mutex
	kept map[string]map[string]redact.Secret
}

func (c *cupboard) Put(_ context.Context, path string, values map[string]redact.Secret) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[path] = values
	return nil
}

func (c *cupboard) Get(_ context.Context, path string) (map[string]redact.Secret, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if values, ok := c.kept[path]; ok {
		return values, nil
	}
	return nil, fault.New(fault.NotFound, "secret_not_found", "no such secret")
}

func (c *cupboard) Delete(_ context.Context, path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kept, path)
	return nil
}

// lose forgets all secrets.
func (c *cupboard) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = map[string]map[string]redact.Secret{}
}

// region answers as a MAAS that is well would, except for what a test sets.
type region struct {
	away    error
	admin   bool
	lacking []site.Image
	has     []site.RegionMachine
	dhcpOff bool
	most    int // machines that were asked about at once
}

func (r *region) Open(site.Access) (site.Region, error) { return r, nil }

func (r *region) Version(context.Context) (string, error) { return "3.7.3", r.away }

func (r *region) User(context.Context) (site.RegionUser, error) {
	return site.RegionUser{Name: "admin", Admin: r.admin}, r.away
}

func (r *region) Racks(context.Context) ([]site.Rack, error) {
	return []site.Rack{{Name: "rack1", Rackd: "running", Healthy: true, Interfaces: []site.RackInterface{
		{Name: "ens19", VID: 46, DHCP: !r.dhcpOff},
	}}}, r.away
}

func (r *region) Scripts(context.Context) ([]site.Script, error) {
	return []site.Script{{Name: "smartctl-validate", Versions: []string{"7", "v2"}}}, r.away
}

func (r *region) Setting(_ context.Context, name string) (string, error) {
	return map[string]string{"hardware_sync_interval": "15m", "upstream_dns": "1.1.1.1 8.8.8.8"}[name], r.away
}

func (r *region) Lacks(_ context.Context, images []site.Image) ([]site.Image, error) {
	return slices.DeleteFunc(slices.Clone(images), func(i site.Image) bool {
		return !slices.Contains(r.lacking, i)
	}), r.away
}

func (r *region) Machines(_ context.Context, hostnames []string) ([]site.RegionMachine, error) {
	r.most = max(r.most, len(hostnames))
	return slices.DeleteFunc(slices.Clone(r.has), func(m site.RegionMachine) bool {
		return !slices.Contains(hostnames, m.Hostname)
	}), r.away
}

func (r *region) Skew() (time.Duration, bool) { return 0, true }

func (r *region) Close() {}

// feed tells what a test put into it.
type feed struct {
	asked outbox.FeedRequest
	items []outbox.FeedItem
}

func (f *feed) Read(_ context.Context, r outbox.FeedRequest, tell func(outbox.FeedItem) error) error {
	f.asked = r
	for _, item := range f.items {
		if err := tell(item); err != nil {
			return err
		}
	}
	return nil
}

type object = map[string]any

// call sends one request as the platform administrator.
func (d *desk) call(tb testing.TB, method, path string, body any) httpapitest.Answer {
	tb.Helper()
	return d.callAs(tb, httpapitest.Root, method, path, "", body)
}

func (d *desk) callAs(tb testing.TB, token, method, path, key string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, d.api.Handler(), httpapitest.Request{
		As: token, Method: method, Path: apiRoot + path, Key: key, Body: body,
	})
}

// selectors are those of the site, with more fields.
func (d *desk) selectors(more object) object {
	body := object{"site_id": d.site, "sku_id": deskSKU}
	for k, v := range more {
		body[k] = v
	}
	return body
}

func (d *desk) one(more object) object {
	body := d.selectors(object{"hostname": "c07u43", "ipmi_ip": "10.176.16.128"})
	for k, v := range more {
		body[k] = v
	}
	return body
}

// requested asks for one machine.
func (d *desk) requested(tb testing.TB, hostname, address string) onboarding.NewView {
	tb.Helper()
	a := d.call(tb, http.MethodPost, "onboardings", d.one(object{"hostname": hostname, "ipmi_ip": address}))
	if a.Status != http.StatusAccepted {
		tb.Fatalf("request answers %d %s", a.Status, a.Body)
	}
	var v onboarding.NewView
	a.Decode(tb, &v)
	return v
}

// set changes rows behind the back of the service, as its workflows would.
func (d *desk) set(tb testing.TB, statement string, args ...any) {
	tb.Helper()
	if _, err := d.owner.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatal(err)
	}
}

// park parks an onboarding as if a stage had failed.
func (d *desk) park(tb testing.TB, job id.Onboarding, status string) {
	tb.Helper()
	d.set(tb, `UPDATE node_onboardings SET status = $2, parked_at = now(), started_at = now(), current_stage = 'wait_for_ready', current_attempt = 1,
		failure_class = 'hardware_mismatch', error_code = 'failed_commission', error_message = 'commissioning failed', error_details = '{"script": "smart"}',
		observed_status = 'Failed commissioning', observed_at = now(), observed_since = now(), facts = '{"commissions": 1}' WHERE id = $1`, job, status)
	d.set(tb, `INSERT INTO job_events (job_id, epoch, stage, attempt, status, message) VALUES ($1, 1, 'wait_for_ready', 1, 'started', ''),
		($1, 1, 'wait_for_ready', 1, 'failed', 'commissioning failed')`, job)
}

func (d *desk) count(tb testing.TB, query string, args ...any) (n int) {
	tb.Helper()
	if err := d.db.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}
