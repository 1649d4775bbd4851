package reconciliation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/site"
)

// Regions opens the MAAS of a site. RegionsOf implements it.
type Regions interface {
	// Open returns a new view. Its Cost starts at zero.
	Open(ctx context.Context, at id.Site) (Region, error)
}

// Region is the MAAS of a site as reconciliation sees it. If a method returns
// an error, the caller has learned nothing, even if machines were handed out
// first.
type Region interface {
	// Exceptions hands out the machines that are not deployed as they arrive,
	// and keeps none of them.
	Exceptions(ctx context.Context, each func(Machine)) (int, error)
	// SwitchedOff hands out the machines that are deployed and off in the same
	// way. A machine that changes between the two calls may appear in both.
	SwitchedOff(ctx context.Context, each func(Machine)) (int, error)
	// Changed reports what happened after an event. Pass 0 if no event is known
	// yet.
	Changed(ctx context.Context, after int64) (Changes, error)
	// Read reads machines by id. A machine that MAAS does not have is missing
	// from the result.
	Read(ctx context.Context, ids []string) ([]Machine, error)
	// Direct reads one machine. It returns false if MAAS answered that exactly
	// this machine does not exist.
	Direct(ctx context.Context, systemID string) (Machine, bool, error)
	// Find looks for a server whose machine is gone, and says how it found it:
	// hostname, mac_address or power_address. It returns nil if it finds none.
	// It may return the machine that the caller believes is gone, so the caller
	// compares system ids.
	Find(ctx context.Context, hostname string, macs []string, power string) (*Machine, string, error)
	// Release asks MAAS to release a machine and makes sure that the release
	// began. erase is none, quick or secure.
	Release(ctx context.Context, systemID, erase, comment string) error
	// SwitchOff asks MAAS to switch a machine off.
	SwitchOff(ctx context.Context, systemID, comment string) error
	// RunScriptsSHA256 returns the digest of the program with which machines
	// report their hardware to MAAS.
	RunScriptsSHA256(ctx context.Context) (string, error)
	// Now returns the time of MAAS's clock.
	Now() time.Time
	// Cost counts what was asked of MAAS since Open.
	Cost() Cost
}

// Changes is what the events of MAAS say about machines.
type Changes struct {
	Machines []string // system ids, each once; some may belong to no node
	Cursor   int64    // the caller passes it to Changed next time
	Events   int      // how many were read
	Lost     bool     // events are missing, so all machines must be read
}

// Cost counts what was asked of MAAS.
type Cost struct {
	Requests int           // including repeated ones
	Records  int           // machines that MAAS rendered
	Waited   time.Duration // for slots and answers
}

// RegionsOf opens the MAAS of sites over the network.
type RegionsOf struct {
	// Sites says how to reach the MAAS of a site. site.Service implements it.
	Sites interface {
		Access(ctx context.Context, at id.Site) (site.Access, error)
	}
	// Clients makes clients. site.MAAS implements it.
	Clients interface {
		Client(a site.Access) (*maas.Client, error)
	}

	mu     sync.Mutex
	opened map[id.Site]*opened
}

// opened is the MAAS of a site. It is kept from one run to the next.
type opened struct {
	client *maas.Client
	key    [sha256.Size]byte // digest of the settings it was opened with

	mu    sync.Mutex
	tail  tail
	known candidates
}

// Open reads the credentials each time, so a rotated token needs no restart.
func (r *RegionsOf) Open(ctx context.Context, at id.Site) (Region, error) {
	access, err := r.Sites.Access(ctx, at)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%v", access.URL, access.Token.Reveal(), access.CA,
		access.AllowedNetworks))
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.opened[at]
	if have == nil || have.key != key {
		client, err := r.Clients.Client(access)
		if err != nil {
			return nil, fmt.Errorf("open MAAS of site %s: %w", at, err)
		}
		if have != nil {
			have.client.Close()
		}
		if r.opened == nil {
			r.opened = map[id.Site]*opened{}
		}
		have = &opened{client: client, key: key}
		r.opened[at] = have
	}
	return &region{Client: have.client.View(), opened: have}, nil
}

// Close closes the connections.
func (r *RegionsOf) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.opened {
		o.client.Close()
	}
	r.opened = nil
}

type region struct {
	*maas.Client
	opened *opened
}

// Cost is what was asked through the view.
func (r *region) Cost() Cost { return Cost(r.Client.Cost()) }

// CodeAnswerMixedUp says that MAAS answered about other machines than we asked
// for.
const CodeAnswerMixedUp = "maas_answer_mixed_up"

func mixedUp(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, CodeAnswerMixedUp, "the answer of MAAS cannot be trusted: "+format, args...).
		WithRemedy("check proxies and caches in front of MAAS")
}

// Exceptions asks for the statuses that the machine of a healthy node never
// has.
func (r *region) Exceptions(ctx context.Context, each func(Machine)) (int, error) {
	var known candidates
	n, err := r.each(ctx, maas.Filter{NotStatus: []maas.Status{maas.StatusDeployed}}, func(m maas.Machine) {
		known.add(m)
		each(machineOf(m))
	})
	if err != nil {
		return 0, err
	}
	known.at = time.Now()
	r.opened.mu.Lock()
	r.opened.known = known
	r.opened.mu.Unlock()
	return n, nil
}

// SwitchedOff exists because MAAS records no event when somebody presses a
// power button.
func (r *region) SwitchedOff(ctx context.Context, each func(Machine)) (int, error) {
	off := maas.Filter{Status: []maas.Status{maas.StatusDeployed}, Power: []maas.PowerState{maas.PowerOff}}
	n, err := r.each(ctx, off, func(m maas.Machine) { each(machineOf(m)) })
	if fault.CodeOf(err) == maas.CodeFieldErrors { // this MAAS has no such filter; the sweep finds these machines
		return 0, nil
	}
	return n, err
}

// each walks over a listing and refuses one that names a machine twice.
func (r *region) each(ctx context.Context, f maas.Filter, do func(maas.Machine)) (int, error) {
	seen := map[string]bool{}
	err := r.EachMachine(ctx, f, func(m maas.Machine) error {
		if seen[m.SystemID] {
			return mixedUp("machine %s is in it twice", maas.Shown(m.SystemID))
		}
		seen[m.SystemID] = true
		do(m)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(seen), nil
}

// Read sends one request per chunk of ids.
func (r *region) Read(ctx context.Context, ids []string) ([]Machine, error) {
	asked := make(map[string]bool, len(ids))
	for _, systemID := range ids {
		asked[systemID] = true
	}
	if len(asked) == 0 { // without a filter MAAS would list everything
		return nil, nil
	}
	found, err := r.Machines(ctx, maas.Filter{IDs: ids})
	if err != nil {
		return nil, err
	}
	out := make([]Machine, 0, len(found))
	for _, m := range found {
		if !asked[m.SystemID] {
			return nil, mixedUp("machine %s was not asked for, or is in it twice", maas.Shown(m.SystemID))
		}
		delete(asked, m.SystemID)
		out = append(out, machineOf(m))
	}
	return out, nil
}

// Direct reads one machine by its own address.
func (r *region) Direct(ctx context.Context, systemID string) (Machine, bool, error) {
	m, err := r.Machine(ctx, systemID)
	switch {
	case maas.SaysAbsent(err):
		return Machine{}, false, nil
	case err != nil:
		return Machine{}, false, err
	case m.SystemID != systemID:
		return Machine{}, false, mixedUp("it shows machine %s instead of %s", maas.Shown(m.SystemID), systemID)
	}
	return machineOf(m), true, nil
}

// SwitchOff sends the request once. The next look shows how it ended.
func (r *region) SwitchOff(ctx context.Context, systemID, comment string) error {
	_, err := r.PowerOff(ctx, systemID, false, comment)
	return err
}

// Release sends the request once. If the answer leaves open whether the release
// began, it reads the machine.
func (r *region) Release(ctx context.Context, systemID, erase, comment string) error {
	way := maas.Erase(erase)
	switch way {
	case maas.EraseNone, maas.EraseQuick, maas.EraseSecure:
	default:
		return fault.New(fault.Invalid, "erase_mode_invalid", "%q is not a way to erase disks",
			erase).WithRemedy("use none, quick or secure")
	}
	released, err := r.Client.Release(ctx, systemID, maas.ReleaseOptions{Erase: way, Comment: comment})
	m := released.Machine
	if err != nil {
		if fault.KindOf(err) != fault.Ambiguous {
			return err
		}
		var lookErr error
		if m, lookErr = r.Machine(ctx, systemID); lookErr != nil {
			return err // whether it began is unknown; the first failure says more than the second
		}
	}
	if s := stateOf(m); s == Free || s == Leaving {
		return nil
	}
	if err != nil {
		return err
	}
	return fault.New(fault.Unavailable, "release_not_begun", "%s is still %s, although MAAS accepted to release it",
		maas.Shown(m.Hostname), maas.Shown(m.Status.Label())).
		WithRemedy("look at the machine and its events in MAAS")
}
