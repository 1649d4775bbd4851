package faults

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/oapi-codegen/runtime/types"

	"gpuaas/contract/apiclient"
	"gpuaas/sim/lab"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
)

// Settings of the cases. Time limits are the shortest that a profile allows.
const (
	sku       = "h200-sxm-baremetal-8g"
	leastTime = int32(60)
	regionFor = "faults"
	prefix    = "gpu"
)

var admin = region.Caller{User: &region.User{Name: "admin", Admin: true}}

// World is a data centre in which things go wrong, and the control plane that
// works in it.
type World struct {
	Lab  *lab.Lab
	Trap *Trap
	// BMCPassword is given to MAAS for every server. Nobody else may learn it.
	BMCPassword string
	// Forget makes the secrets engine lose what it has at a path.
	Forget func(ctx context.Context, path string) error
	// Lose makes the database lose the content of a stored file.
	Lose func(ctx context.Context, digest string) error
	// Silence makes the database believe that the agent of a node has not called for
	// hours.
	Silence func(ctx context.Context, node string) error
	// Claims counts the claims of allocations that the database has on nodes.
	Claims func(ctx context.Context, nodes []string) (int, error)

	api    *apiclient.Client // of the administrator
	tenant *apiclient.Client // of somebody who may rent, and nothing else
	boots  *boots
	known  int // machines that MAAS knows from the start

	mu      sync.Mutex
	news    map[string]chan struct{} // by job id: something was settled
	canary  map[string]string        // secrets that must be found nowhere, by their description
	next    int
	unknown int
	nodes   map[string]string // by id: the case that the node was made for
	project types.UUID        // that tenants rent for; zero: not made yet
}

// OpenWorld opens a data centre for cases. MAAS has shorter time
// limits there: a minute instead of an hour.
func OpenWorld(seed uint64, cases []Case) (*World, error) {
	machines := len(cases)
	for _, c := range cases {
		var asked wish
		if c.wish != nil {
			c.wish(&asked)
		}
		if asked.spare {
			machines++
		}
	}
	w := &World{
		Trap: NewTrap(), boots: newBoots(), known: machines, news: map[string]chan struct{}{}, canary: map[string]string{},
		nodes:       map[string]string{},
		BMCPassword: canaryOf(seed, "bmc"),
	}
	l, err := lab.Open(lab.Options{
		Region: maas.Options{
			Seed: seed, Fleet: fleet.Options{Machines: machines, Unknown: len(cases), Stage: "new", Prefix: prefix},
			Timing:   region.Timing{Pace: region.PaceZero, Speed: 60},
			Settings: map[string]string{"node_timeout": "5", "upstream_dns": "1.1.1.1 8.8.8.8"},
		},
		DeployPassword: canaryOf(seed, "deploy"), WaitSeconds: 20,
		BeforeEnroll: w.boots.beforeEnroll, BeforePoll: w.boots.beforePoll, Answer: w.boots.say,
	})
	if err != nil {
		return nil, fmt.Errorf("open data centre: %w", err)
	}
	w.Lab = l
	w.canary["deploy password"], w.canary["BMC password"] = l.DeployPassword, w.BMCPassword
	return w, nil
}

// Connect makes the control plane at an address work in the world, and follows
// its events until the context ends.
func (w *World) Connect(ctx context.Context, address, token string) error {
	api, err := apiclient.New(apiclient.Config{URL: address, Token: token, UserAgent: "gpuaas sim faults"})
	if err != nil {
		return fmt.Errorf("connect to the control plane: %w", err)
	}
	w.api = api
	w.keep("token of the administrator", token)
	if err := w.moveIn(ctx, address); err != nil {
		return err
	}
	for _, open := range []func(ctx context.Context, after *string, edit apiclient.RequestEditorFn) (
		*http.Response, error){
		func(ctx context.Context, after *string, edit apiclient.RequestEditorFn) (*http.Response, error) {
			return api.StreamOnboardings(ctx, &apiclient.StreamOnboardingsParams{LastEventID: after}, edit)
		},
		func(ctx context.Context, after *string, edit apiclient.RequestEditorFn) (*http.Response, error) {
			return api.StreamDecommissions(ctx, &apiclient.StreamDecommissionsParams{LastEventID: after}, edit)
		},
	} {
		go func() {
			// Without the feed it takes longer: everybody also looks by
			// themselves.
			_ = apiclient.Stream(ctx, api, apiclient.StreamRequest{Open: open}, w.hear)
		}()
	}
	return nil
}

// hear tells whoever waits for a job that it was settled.
func (w *World) hear(item apiclient.StreamItem) error {
	if item.Event == nil {
		return nil
	}
	payload, err := json.Marshal(item.Event.Payload)
	if err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	var of map[string]any
	if err := json.Unmarshal(payload, &of); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	for _, family := range Families {
		job, told := of[string(family)+"_id"].(string)
		if !told || job == "" {
			continue
		}
		if item.Event.EventType == "node."+string(family)+".stage" {
			return nil
		}
		select {
		case w.newsOf(job) <- struct{}{}:
		default: // they have not looked since the last time
		}
		return nil
	}
	return nil
}

func (w *World) newsOf(job string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.news[job] == nil {
		w.news[job] = make(chan struct{}, 1)
	}
	return w.news[job]
}

func (w *World) keep(what, secret string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.canary[what] = secret
}

// machine gives a case its machine: one that MAAS knows, or one that only
// stands in the rack.
func (w *World) machine(unknown bool) (hostname, bmc string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if unknown {
		w.unknown++
		return fmt.Sprintf("bare-%05d", w.unknown), fleet.BMCAddress(w.known + w.unknown)
	}
	w.next++
	return fmt.Sprintf("%s-%05d", prefix, w.next), fleet.BMCAddress(w.next)
}

// wish says how the site of a case differs from others.
type wish struct {
	unknown      bool // MAAS does not know the machine
	noPower      bool // the site has no BMC credentials
	image        string
	bundle       string
	pxeIface     string
	addresses    bool // for RoCE
	removeRecord bool // of MAAS, in the end
	keepErase    bool // no release without the requested erase
	erase        string
	spare        bool // a second machine that an allocation can be placed on
	vacant       bool // no tenant has the node
	match        bool // the hardware must be that of the SKU
	dataDisks    string
	scrub        string // the weakest way in which memory of GPUs may be cleaned
}

// furnish makes the site of a run, with its own profile.
func (w *World) furnish(ctx context.Context, r *run) error {
	iface, parallel := lab.PXEIface, int32(10)
	made, err := w.api.CreateMaasSiteWithResponse(ctx, &apiclient.CreateMaasSiteParams{}, apiclient.SiteNewBody{
		Name: "faults-" + strconv.Itoa(r.number), RegionCode: regionFor, ApiBaseUrl: w.Lab.URL, PxeIface: "eth0",
		NodePxeIface: iface,
		DeployUser:   &w.Lab.DeployUser, DeploySshIface: &iface, MaxParallel: &parallel,
	})
	if _, err := apiclient.Read(made, err); err != nil {
		return fmt.Errorf("create site: %w", err)
	}
	r.site = made.JSON.SiteId
	if err := w.admit(ctx, r); err != nil {
		return err
	}
	asked := r.wish
	if r.Family != Onboarding { // it is changed once there is a node
		asked = wish{addresses: asked.addresses}
	}
	least, ttl, interval := leastTime, int32(3600), "15m"
	body := apiclient.SiteNewProfileBody{
		Name: "faults", DiscoveryTimeoutSeconds: &least, CommissionTimeoutSeconds: &least, DeployTimeoutSeconds: &least,
		HwSyncSeedTimeoutSeconds:   &least,
		HwSyncHealthTimeoutSeconds: &least, EnrollmentTimeoutSeconds: &least, ReleaseTimeoutSeconds: &least,
		EnrollmentTokenTtlSeconds: &ttl,
		HardwareSyncInterval:      &interval,
	}
	for field, value := range map[**string]string{
		&body.DistroSeries:           asked.image,
		&body.SiteBootstrapBundleRef: asked.bundle, &body.NodePxeIface: asked.pxeIface,
	} {
		if value != "" {
			*field = &value
		}
	}
	if asked.dataDisks != "" {
		body.DataDisks = (*apiclient.SiteNewProfileBodyDataDisks)(&asked.dataDisks)
	}
	if asked.bundle != "" {
		if err := w.upload(ctx, r); err != nil {
			return err
		}
	}
	profile, err := w.api.CreateSiteProfileWithResponse(ctx, r.site, &apiclient.CreateSiteProfileParams{}, body)
	if _, err := apiclient.Read(profile, err); err != nil {
		return fmt.Errorf("create profile: %w", err)
	}
	r.profile = profile.JSON.ProfileId
	if !asked.addresses {
		return nil
	}
	row := apiclient.SiteAssignmentRow{Hostname: r.hostname, Interface: roceIface, Ipv4Cidr: r.address() + "/31"}
	_, err = apiclient.Read(w.api.UpsertRoceAssignmentsWithResponse(ctx, r.site, &apiclient.UpsertRoceAssignmentsParams{},
		apiclient.SiteAssignmentsBody{Items: []apiclient.SiteAssignmentRow{row}}))
	if err != nil {
		return fmt.Errorf("assign RoCE address: %w", err)
	}
	return nil
}

const roceIface = "ens38np0"

// address is that of the machine's RoCE interface.
func (r *run) address() string { return fmt.Sprintf("172.30.%d.%d", r.number/128, r.number%128*2) }

// admit gives the site of a run its credentials: its own key to MAAS, so that
// it can be revoked for this site alone.
func (w *World) admit(ctx context.Context, r *run) error {
	token, err := w.newToken(r)
	if err != nil {
		return err
	}
	body := apiclient.SiteCredentialsBody{ApiToken: &token, DeployPassword: &w.Lab.DeployPassword}
	if !r.wish.noPower {
		body.Power = &apiclient.SitePowerBody{User: lab.BMCUser, Pass: &w.BMCPassword}
	}
	return w.credentials(ctx, r, body)
}

func (w *World) credentials(ctx context.Context, r *run, body apiclient.SiteCredentialsBody) error {
	if _, err := apiclient.Read(w.api.SetMaasSiteCredentialsWithResponse(ctx, r.site,
		&apiclient.SetMaasSiteCredentialsParams{}, body)); err != nil {
		return fmt.Errorf("set credentials of site: %w", err)
	}
	return nil
}

// newToken makes a key of the administrator.
func (w *World) newToken(r *run) (string, error) {
	made, ok := w.Lab.CreateToken(admin, r.Name()).(map[string]string)
	if !ok {
		return "", errors.New("make API key: MAAS has another form")
	}
	r.tokenKey = made["token_key"]
	w.keep(fmt.Sprintf("API key of MAAS for site %d (%s)", r.number, made["token_key"][:4]), made["token_secret"])
	return made["consumer_key"] + ":" + made["token_key"] + ":" + made["token_secret"], nil
}

// program is the bundle of a run. No other run has the same.
func (r *run) program() []byte { return []byte("#!/bin/sh\n# " + r.hostname + "\n") }

func (r *run) programDigest() string {
	sum := sha256.Sum256(r.program())
	return hex.EncodeToString(sum[:])
}

// upload gives the site of a run the bundle that its case wishes for.
func (w *World) upload(ctx context.Context, r *run) error {
	ref := r.wish.bundle
	begun, err := w.api.BeginSiteBundleUploadWithResponse(ctx, r.site, &apiclient.BeginSiteBundleUploadParams{},
		apiclient.SiteNewBundleBody{Ref: ref, Sha256: r.programDigest(), Size: int64(len(r.program()))})
	if _, err := apiclient.Read(begun, err); err != nil {
		return fmt.Errorf("announce bundle: %w", err)
	}
	upload := begun.JSON.UploadId
	if _, err := apiclient.Read(w.api.SendSiteBundlePartWithResponse(ctx, r.site, upload,
		&apiclient.SendSiteBundlePartParams{}, apiclient.SiteBundlePartBody{Ref: ref, Data: r.program()})); err != nil {
		return fmt.Errorf("send bundle: %w", err)
	}
	if _, err := apiclient.Read(w.api.CompleteSiteBundleUploadWithResponse(ctx, r.site, upload,
		&apiclient.CompleteSiteBundleUploadParams{}, apiclient.SiteBundleCompleteBody{Ref: ref})); err != nil {
		return fmt.Errorf("complete bundle: %w", err)
	}
	return nil
}

// change changes the profile of a run.
func (w *World) change(ctx context.Context, r *run, body apiclient.SiteProfileChangeBody) error {
	now, err := w.api.GetSiteProfileWithResponse(ctx, r.site, r.profile)
	if _, err := apiclient.Read(now, err); err != nil {
		return fmt.Errorf("read profile: %w", err)
	}
	match := strconv.Quote(strconv.FormatInt(now.JSON.Version, 10))
	if _, err := apiclient.Read(w.api.UpdateSiteProfileWithResponse(ctx, r.site, r.profile,
		&apiclient.UpdateSiteProfileParams{IfMatch: match}, body)); err != nil {
		return fmt.Errorf("change profile: %w", err)
	}
	return nil
}
