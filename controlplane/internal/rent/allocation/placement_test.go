package allocation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/reservation"
)

// unfit are ways in which a node must not be handed out, each with the reason that a
// tenant reads.
var unfit = map[string]string{
	"quarantined":          `status = 'quarantined', schedulable = false`,
	"offline":              `status = 'offline', schedulable = false`,
	"joining":              `status = 'enrolling', schedulable = false`,
	"leaving":              `status = 'draining', schedulable = false`,
	"on_hold":              `hold_reason = 'fan', schedulable = false`,
	"being_cleaned":        `tainted_at = clock_timestamp()`,
	"other_region":         `region_code = 'us'`,
	"other_pool":           `pool = 'inference'`,
	"labels_missing":       `labels = '{"public/tier": "cheap"}'`,
	"capabilities_missing": `capabilities = '{"gpu.driver_series": "550"}'`,
}

// fit is what nodes of these tests have, and what requests ask for.
const fit = `labels = '{"public/tier": "fast", "x": "y"}', capabilities = '{"gpu.driver_series": "570", "fabric.type": "ib"}'`

func picky() allocation.Ask {
	return allocation.Ask{Wish: allocation.Wish{
		Region: "eu", Labels: map[string]string{"public/tier": "fast"},
		Capabilities: map[string]string{"gpu.driver_series": "570"},
	}}
}

func TestARefusalSaysWhyOfEveryNode(t *testing.T) {
	w := newWorld(t)
	for reason, change := range unfit {
		w.node(t, strings.ReplaceAll(reason, "_", "-"), fit, change)
	}
	w.node(t, "held-by", fit, `schedulable = false, held_by = 'decommission x'`)
	silent := w.node(t, "silent", fit)
	w.exec(t, `UPDATE node_contacts SET last_contact_at = clock_timestamp() - interval '1 hour' WHERE node_id = $1`,
		silent)
	rented := w.node(t, "rented", fit)
	first, err := w.try(picky())
	if err != nil || first[0].Node != rented {
		t.Fatalf("%+v, %v", first, err)
	}
	w.ctx = w.operator(t)
	_, err = w.try(picky())
	f, _ := fault.As(err)
	if f == nil || f.Code != allocation.CodeUnavailable {
		t.Fatalf("%v", err)
	}
	said := fmt.Sprint(f.Fields)
	for reason := range unfit {
		if !strings.Contains(said, "capacity."+reason) {
			t.Errorf("nothing about %s: %s", reason, said)
		}
	}
	for _, want := range []string{"0 of 13 nodes", "1 are rented", "2 are being cleaned", "1 have not been heard of"} {
		if !strings.Contains(f.Message, want) {
			t.Errorf("no %q in %q", want, f.Message)
		}
	}
	c, err := w.service.Explain(w.ctx, allocation.Ask{SKU: h200, Project: w.project, Wish: picky().Wish})
	if err != nil || c.Nodes != 13 || c.Free != 0 || c.Filters[len(c.Filters)-1].After != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Most ask for a node of any kind, which a statement of its own finds: it refuses the
// same nodes.
func TestARequestForAnyNodeGetsNoneThatIsUnfit(t *testing.T) {
	w := newWorld(t)
	wished := map[string]bool{"other_region": true, "labels_missing": true, "capabilities_missing": true}
	for reason, change := range unfit {
		if !wished[reason] {
			w.node(t, strings.ReplaceAll(reason, "_", "-"), change)
		}
	}
	w.node(t, "held-by", `schedulable = false, held_by = 'decommission x'`)
	w.node(t, "rooted", `root_at = clock_timestamp()`)
	w.node(t, "dirty-again", `clean_at = clock_timestamp() - interval '1 hour', tainted_at = clock_timestamp()`)
	silent, drifted := w.node(t, "silent"), w.node(t, "drifted")
	w.exec(t, `UPDATE node_contacts SET last_contact_at = clock_timestamp() - interval '1 hour' WHERE node_id = $1`,
		silent)
	w.exec(t, `INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
		VALUES (gen_random_uuid(), 'lab', 'eu', 'http://maas.example:5240/MAAS', 'ens19', 0, 'eno1', decode(repeat('00', 16), 'hex'))`)
	w.exec(t, `INSERT INTO reconciliation_findings (id, site_id, node_id, type, severity, subject, status, expected, observed, message,
			opened_at, last_seen_at)
		SELECT gen_random_uuid(), s.id, $1, 'released', 'critical', 'x', 'confirmed', '', '', '', now(), now() FROM maas_sites s`, drifted)
	if made, err := w.try(allocation.Ask{}); fault.CodeOf(err) != allocation.CodeUnavailable {
		t.Fatalf("it got %+v, %v", made, err)
	}
	later := w.node(t, "later", `clean_at = clock_timestamp() - interval '1 hour'`)
	first := w.node(t, "first", `clean_at = clock_timestamp() - interval '2 hours'`)
	for _, want := range []id.Node{first, later} {
		if made, err := w.try(allocation.Ask{}); err != nil || made[0].Node != want {
			t.Errorf("%+v, %v; want %s", made, err, want)
		}
	}
	if _, err := w.try(allocation.Ask{}); fault.CodeOf(err) != allocation.CodeUnavailable {
		t.Errorf("there is one more: %v", err)
	}
}

func TestSKUNotFoundWrongShapeCountNotAllowed(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	w.exec(t, `INSERT INTO skus (id, display_name, gpu_vendor, gpu_model, gpus_total, capacity_shape, allowed_counts, price_minor, price_currency, status)
		VALUES ('slice', 'S', 'nvidia', 'H200', 8, 'slice', '{1}', 1, 'USD', 'active'), ('old', 'O', 'nvidia', 'H200', 8, 'node', '{1}', 1, 'USD', 'disabled')`)
	for name, ask := range map[string]allocation.Ask{
		"no such SKU": {SKU: "none"}, "rented by the GPU": {SKU: "slice"}, "disabled": {SKU: "old"},
		"a part of it":        {GPUs: 3},
		"more than there are": {Count: 2},
	} {
		if _, err := w.try(ask); fault.CodeOf(err) != allocation.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, ask := range map[string]allocation.Ask{
		"too many": {Count: 1000}, "a life of a second": {ExpiresIn: 1}, "an access that is none": {Access: "god"},
	} {
		if _, err := w.try(ask); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_resource_claims`); n != 0 {
		t.Errorf("%d claims are left of requests that were refused", n)
	}
}

func TestNodesStandAsTheyWereWished(t *testing.T) {
	w := newWorld(t)
	for i := range 9 {
		w.node(t, fmt.Sprintf("n%d", i), fmt.Sprintf("rack = 'r%d'", i/3))
	}
	racks := func(ask allocation.Ask) map[string]int {
		made, err := w.try(ask)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for _, a := range made {
			var rack string
			if err := w.owner.QueryRow(t.Context(), `SELECT rack FROM nodes WHERE id = $1`, a.Node).Scan(&rack); err != nil {
				t.Fatal(err)
			}
			out[rack]++
		}
		return out
	}
	if got := racks(allocation.Ask{Count: 3}); len(got) != 3 {
		t.Errorf("spread: %v", got)
	}
	if got := racks(allocation.Ask{Count: 2, Wish: allocation.Wish{Arrangement: allocation.SameRack}}); len(got) != 1 {
		t.Errorf("same rack: %v", got)
	}
	if got := racks(allocation.Ask{Count: 4}); len(got) < 2 { // only four are left: capacity comes first
		t.Errorf("the rest: %v", got)
	}
}

// The last node is asked for by many at once: one gets it, the others are told why
// not.
func TestTheLastNodeGoesToOne(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	var wait sync.WaitGroup
	results := make(chan error, 8)
	for range cap(results) {
		wait.Go(func() {
			_, err := w.try(allocation.Ask{})
			results <- err
		})
	}
	wait.Wait()
	close(results)
	got := 0
	for err := range results {
		if err == nil {
			got++
		} else if fault.CodeOf(err) != allocation.CodeUnavailable {
			t.Error(err)
		}
	}
	if got != 1 || w.count(t, `SELECT count(*) FROM allocation_resource_claims`) != 1 {
		t.Errorf("%d got it", got)
	}
}

// Whatever happens in whichever order: no node has two live claims, none is handed
// out that must not be, each request that waited is placed once and whole, no
// reservation falls short because others got its nodes, and nothing is published that
// did not commit.
func TestPlacementHoldsWhateverHappens(t *testing.T) {
	w := newWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	changes := []string{}
	for _, c := range unfit {
		changes = append(changes, c)
	}
	nodes := make([]id.Node, 24)
	bad := map[id.Node]bool{}
	roll := rand.New(rand.NewPCG(seed, 1))
	for i := range nodes {
		change := fit
		if roll.IntN(3) == 0 {
			change += ", " + changes[roll.IntN(len(changes))]
			if strings.Contains(change, "labels = '{\"public/tier\": \"cheap") || strings.Contains(change, "550") {
				change = strings.TrimPrefix(change, fit+", ")
			}
		}
		nodes[i] = w.node(t, fmt.Sprintf("n%d", i), change)
		bad[nodes[i]] = change != fit
	}
	who := w.reserveSome(t)
	var wait sync.WaitGroup
	for worker := range 6 {
		roll := rand.New(rand.NewPCG(seed, uint64(worker)+2))
		wait.Go(func() { w.act(t, roll, nodes, bad, who) })
	}
	wait.Wait()
	who.served(t)
	if n := w.count(t, `SELECT count(*) FROM (SELECT node_id FROM allocation_resource_claims WHERE ended_at IS NULL
		GROUP BY node_id HAVING count(*) > 1) AS doubled`); n != 0 {
		t.Errorf("%d nodes have two tenants", n)
	}
	if n := w.count(t, `SELECT count(*) FROM nodes n WHERE n.allocation_id IS DISTINCT FROM
		(SELECT c.allocation_id FROM allocation_resource_claims c WHERE c.node_id = n.id AND c.ended_at IS NULL)`); n != 0 {
		t.Errorf("%d nodes say something else than their claims", n)
	}
	if n := w.count(t, `SELECT count(*) FROM allocations a WHERE a.status IN ('requested', 'provisioning', 'active', 'releasing', 'release_failed')
		AND NOT EXISTS (SELECT FROM allocation_resource_claims c WHERE c.allocation_id = a.id AND c.ended_at IS NULL)`); n != 0 {
		t.Errorf("%d allocations have lost their claim", n)
	}
	if n := w.count(t, `SELECT count(*) FROM outbox_events o WHERE o.event_type = 'provisioning.requested'
		AND NOT EXISTS (SELECT FROM allocations a WHERE a.id::text = o.aggregate_id AND a.event_id = o.id)`); n != 0 {
		t.Errorf("%d events of requests that did not commit", n)
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_requests r WHERE (r.status = 'placed') <> (cardinality(r.allocation_ids) = r.nodes)
		OR EXISTS (SELECT FROM unnest(r.allocation_ids) AS x (id) WHERE NOT EXISTS (SELECT FROM allocations a WHERE a.id = x.id))`); n != 0 {
		t.Errorf("%d requests that waited say something else than there is", n)
	}
	if n := w.count(t, `SELECT count(*) FROM (SELECT x.id FROM allocation_requests r, unnest(r.allocation_ids) AS x (id)
		GROUP BY x.id HAVING count(*) > 1) AS doubled`); n != 0 {
		t.Errorf("%d allocations belong to two requests", n)
	}
}

// crowd are projects of which some have reservations.
type crowd struct {
	w        *world
	projects []id.Project
	reserved []id.Reservation
}

func (c *crowd) any(roll *rand.Rand) id.Project { return c.projects[roll.IntN(len(c.projects))] }

// served expects that every reservation has what its owner rents and what is free for it.
func (c *crowd) served(t *testing.T) {
	t.Helper()
	for _, of := range c.reserved {
		r, err := c.w.reservations().Get(c.w.reserver(t), of)
		if err != nil || r.Usage.Used+r.Usage.Held != r.Nodes {
			t.Errorf("of %d reserved nodes %d are used and %d held; %v", r.Nodes, r.Usage.Used, r.Usage.Held, err)
		}
	}
}

// reserveSome reserves for two tenants what is free: some of a rack, and some anywhere.
func (w *world) reserveSome(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{w: w, projects: []id.Project{w.project, w.stranger(t, "north"), w.stranger(t, "south")}}
	w.exec(t, `UPDATE nodes SET rack = 'r1' WHERE hostname ~ '[02468]$'`)
	for i, of := range []reservation.Selector{
		{Region: "eu", Rack: "r1", Labels: map[string]string{"x": "y"}}, {Region: "eu", Labels: map[string]string{"x": "y"}},
	} {
		free := w.count(t, `SELECT count(*) FROM nodes_to_let WHERE pool = '' AND region_code = 'eu' AND $1 IN ('', rack)
			AND labels @> '{"x": "y"}'`, of.Rack)
		wish := w.wish(int32(min(3, free/2)), of)
		if wish.Nodes == 0 {
			continue // the dice have left nothing
		}
		if err := w.owner.QueryRow(t.Context(), `SELECT org_id FROM projects WHERE id = $1`, c.projects[i+1]).Scan(
			&wish.Org); err != nil {
			t.Fatal(err)
		}
		c.reserved = append(c.reserved, w.reserve(t, wish).ID)
	}
	return c
}

// wants asks for nodes and waits for them, takes requests back and serves, as it
// comes.
func (w *world) wants(t *testing.T, roll *rand.Rand, who *crowd) {
	t.Helper()
	ask := picky()
	ask.SKU, ask.Project, ask.Count, ask.WaitUpTo = h200, who.any(roll), int32(roll.IntN(3))+1, time.Hour
	o, err := w.service.Request(w.ctx, ask)
	if err != nil && fault.CodeOf(err) != allocation.CodeUnavailable { // there may be too few, whoever waits
		t.Error(err)
	}
	if o.Request != nil && roll.IntN(2) == 0 {
		if _, err := w.service.Cancel(w.ctx, o.Request.ID); err != nil && fault.KindOf(err) != fault.Conflict {
			t.Error(err)
		}
	}
	if _, err := w.service.Serve(w.ctx); err != nil {
		t.Error(err)
	}
}

// act asks for allocations and ends them, as it comes.
func (w *world) act(t *testing.T, roll *rand.Rand, nodes []id.Node, bad map[id.Node]bool, who *crowd) {
	t.Helper()
	var mine []allocation.Allocation
	for range 25 {
		who.served(t)
		switch roll.IntN(5) {
		case 4:
			w.wants(t, roll, who)
		case 0, 1:
			ask := picky()
			ask.Project, ask.Count = who.any(roll), int32(roll.IntN(3))+1
			ask.Wish.Arrangement = []allocation.Arrangement{"", allocation.Pack, allocation.SameRack}[roll.IntN(3)]
			made, err := w.try(ask)
			if err != nil && fault.CodeOf(err) != allocation.CodeUnavailable {
				t.Error(err)
			}
			for _, a := range made {
				if bad[a.Node] {
					t.Errorf("%s was handed out", a.Hostname)
				}
			}
			mine = append(mine, made...)
		case 2:
			if len(mine) == 0 {
				continue
			}
			a := mine[len(mine)-1]
			mine = mine[:len(mine)-1]
			if _, err := w.service.ForceCleanup(w.ctx, a.ID, true, "test"); err != nil &&
				fault.CodeOf(err) != "allocation_state_conflict" { // an operation may have ended it
				t.Error(err)
			}
		case 3: // an operation takes some node and cleans it
			n := nodes[roll.IntN(len(nodes))]
			err := w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, `SELECT FROM nodes WHERE id = $1 FOR NO KEY UPDATE`, n); err != nil {
					return err
				}
				by := id.New[id.Decommission]()
				if err := (allocation.Tenancies{}).End(ctx, tx, n, by, "test"); err != nil {
					return err
				}
				return allocation.Tenancies{}.Cleaned(ctx, tx, n, by, "test")
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}
