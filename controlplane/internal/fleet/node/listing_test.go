package node_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
)

// listed is one page of the listing.
func (w *world) listed(tb testing.TB, query string) (page httpapi.List[listedNode]) {
	tb.Helper()
	a := w.call(tb, http.MethodGet, "?"+query, "", nil)
	if a.Status != http.StatusOK {
		tb.Fatalf("%s answers %d %s", query, a.Status, a.Body)
	}
	a.Decode(tb, &page)
	return page
}

type listedNode struct {
	NodeID          id.Node     `json:"node_id"`
	Hostname        string      `json:"hostname"`
	Status          node.Status `json:"status"`
	SKU             string      `json:"sku"`
	RegionCode      string      `json:"region_code"`
	StatusChangedAt time.Time   `json:"status_changed_at"`
	CreatedAt       time.Time   `json:"created_at"`
	LastContactAt   time.Time   `json:"last_agent_contact_at"`
	HoldReason      string      `json:"hold_reason"`
	HeldBy          string      `json:"held_by"`
	Tainted         bool        `json:"tainted"`
	Agent           struct {
		Drift               node.Drift `json:"drift_state"`
		Version             string     `json:"reported_agent_version"`
		Commit              string     `json:"reported_agent_commit"`
		Desired             string     `json:"desired_agent_version"`
		CertificateNotAfter *time.Time `json:"certificate_not_after"`
		Verifiers           int64      `json:"verifier_version"`
	} `json:"agent"`
}

// throughout reads a listing page by page.
func (w *world) throughout(tb testing.TB, query string) (all []listedNode) {
	tb.Helper()
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		page := w.listed(tb, query+"&cursor="+cursor)
		all, cursor = append(all, page.Items...), page.NextCursor
	}
	return all
}

func names(of []listedNode) string {
	var out []string
	for _, n := range of {
		out = append(out, n.Hostname)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Whatever the sort column, the pages together are the whole fleet in order:
// each node once, and equal ones in the order of their ids.
func TestNodesAreSortedThroughoutAllPages(t *testing.T) {
	w := newWorld(t)
	w.fill(t, 60)
	w.exec(t, `UPDATE nodes SET hostname = CASE WHEN i % 7 = 0 THEN 'a-' ELSE 'a.' END || hostname, region_code = 'eu-' || i % 3, status = (ARRAY['active', 'offline', 'retired'])[i % 3 + 1],
			schedulable = false, status_changed_at = '2026-03-04T05:06:07.123456Z'::timestamptz - make_interval(mins => i % 5), created_at = clock_timestamp() - make_interval(hours => i % 4)
		FROM (SELECT id AS n, row_number() OVER (ORDER BY id)::int AS i FROM nodes) numbered WHERE n = id`)
	w.exec(t, `DELETE FROM node_contacts WHERE node_id IN (SELECT id FROM nodes ORDER BY id LIMIT 9)`)
	w.exec(t, `UPDATE node_contacts SET last_contact_at = clock_timestamp() - make_interval(hours => i % 6)
		FROM (SELECT id AS n, row_number() OVER (ORDER BY id)::int AS i FROM nodes) numbered WHERE n = node_id`)
	inContact := time.Now().Add(-time.Minute)
	heard := func(n listedNode) time.Time { // those that are in contact are equal
		if n.LastContactAt.After(inContact) {
			return inContact
		}
		return n.LastContactAt
	}
	for sort, compare := range map[string]func(a, b listedNode) int{
		"":                      func(listedNode, listedNode) int { return 0 },
		"hostname":              func(a, b listedNode) int { return strings.Compare(a.Hostname, b.Hostname) },
		"status":                func(a, b listedNode) int { return cmp.Compare(a.Status, b.Status) },
		"sku":                   func(a, b listedNode) int { return strings.Compare(a.SKU, b.SKU) },
		"region_code":           func(a, b listedNode) int { return strings.Compare(a.RegionCode, b.RegionCode) },
		"status_changed_at":     func(a, b listedNode) int { return a.StatusChangedAt.Compare(b.StatusChangedAt) },
		"created_at":            func(a, b listedNode) int { return a.CreatedAt.Compare(b.CreatedAt) },
		"last_agent_contact_at": func(a, b listedNode) int { return heard(a).Compare(heard(b)) },
	} {
		for order, direction := range map[string]int{"": 1, "asc": 1, "desc": -1} {
			query := url.Values{"page_size": {"7"}}
			for name, value := range map[string]string{"sort": sort, "order": order} {
				if value != "" {
					query.Set(name, value)
				}
			}
			got := w.throughout(t, query.Encode())
			inOrder := slices.IsSortedFunc(got, func(a, b listedNode) int {
				return direction * cmp.Or(compare(a, b), strings.Compare(a.NodeID.String(), b.NodeID.String()))
			})
			seen := map[id.Node]bool{}
			for _, n := range got {
				seen[n.NodeID] = true
			}
			if !inOrder || len(got) != 60 || len(seen) != 60 {
				t.Errorf("by %q %s: %d nodes, %d of them different, in order: %v", sort, order, len(got), len(seen), inOrder)
			}
		}
	}
}

// While somebody goes from page to page, agents call, others fall silent, return or call for the
// first time: each node is on one page, where it was when the first page was read.
func TestNodesByLastContactStayWhereTheyWere(t *testing.T) {
	for _, order := range []string{"asc", "desc"} {
		t.Run(order, func(t *testing.T) {
			w := newWorld(t)
			nodes := w.fill(t, 12)
			for i, n := range nodes[:4] {
				w.silent(t, n, 60*(i+1))
			}
			never := nodes[4]
			w.exec(t, `DELETE FROM node_contacts WHERE node_id = $1`, never.String())
			var got []id.Node
			query := "page_size=1&sort=last_agent_contact_at&order=" + order + "&cursor="
			for cursor := ""; ; {
				page := w.listed(t, query+cursor)
				for _, n := range page.Items {
					got = append(got, n.NodeID)
				}
				if cursor = page.NextCursor; cursor == "" {
					break
				}
				for i, n := range nodes {
					if n == never && w.count(t, `SELECT count(*) FROM node_contacts WHERE node_id = $1`, n.String()) == 0 {
						w.exec(t, `INSERT INTO node_contacts (node_id, last_contact_at, silent_from, silent_until)
							VALUES ($1, clock_timestamp(), 'epoch', clock_timestamp())`, n.String())
					}
					if i != len(nodes)-1 { // the last one is silent from now on
						w.service.Contacts().Note(n, agentwire.Vitals{})
					}
				}
				w.flush(t)
			}
			want := append([]id.Node{never, nodes[3], nodes[2], nodes[1], nodes[0]}, nodes[5:]...)
			if order == "desc" {
				slices.Reverse(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d nodes in the order\n%v, want\n%v", len(got), got, want)
			}
		})
	}
}

func TestACursorBelongsToItsOrder(t *testing.T) {
	w := newWorld(t)
	w.fill(t, 3)
	cursors := map[string]string{}
	queries := []string{
		"page_size=1", "page_size=1&sort=hostname", "page_size=1&sort=hostname&order=desc",
		"page_size=1&sort=created_at", "page_size=1&order=desc",
	}
	for _, q := range queries {
		cursors[q] = w.listed(t, q).NextCursor
	}
	for _, q := range queries {
		for of, cursor := range cursors {
			if of == q {
				if page := w.listed(t, q+"&cursor="+cursor); len(page.Items) != 1 {
					t.Errorf("%s goes on with %d nodes", q, len(page.Items))
				}
				continue
			}
			w.call(t, http.MethodGet, "?"+q+"&cursor="+cursor, "", nil).Wants(t, http.StatusUnprocessableEntity,
				"cursor_invalid", "query.cursor")
		}
	}
	for name, position := range map[string]any{
		"no node": object{"s": "hostname", "w": "n1"}, "null": object{"s": "hostname", "n": nil}, "a list": []string{"n1"},
		"not an id": object{"s": "hostname", "n": "x"},
		"a moment":  object{"s": "hostname", "w": "n1", "n": id.New[id.Node](), "t": time.Now()},
	} {
		t.Run(name, func(t *testing.T) {
			w.call(t, http.MethodGet, "?sort=hostname&cursor="+httpapi.EncodeCursor(position), "", nil).Wants(t,
				http.StatusUnprocessableEntity, "cursor_invalid")
		})
	}
	w.call(t, http.MethodGet, "?sort=host", "", nil).Wants(t, http.StatusUnprocessableEntity, "validation_error",
		"query.sort")
	w.call(t, http.MethodGet, "?order=up", "", nil).Wants(t, http.StatusUnprocessableEntity, "validation_error",
		"query.order")
}

func TestNodesAreSearchedFor(t *testing.T) {
	w := newWorld(t)
	all := w.fill(t, 3)
	w.exec(t, `UPDATE nodes SET hostname = 'c07u' || i, host = CASE i WHEN 1 THEN 'BMC7.example' ELSE '10.20.0.' || i END, status = (ARRAY['active', 'offline', 'deleted'])[i],
		schedulable = false FROM (SELECT id AS n, row_number() OVER (ORDER BY id)::int AS i FROM nodes) numbered WHERE n = id`)
	w.exec(t, `INSERT INTO node_hardware (node_id, known, origin, addresses) VALUES ($1, $2, 'maas', '{172.30.4.1}'), ($3, $4, 'maas', '{}')`,
		all[0], `{"uuid": "4C4C4544-0042-3510-8053-B7C04F4D3532", "system_serial": "SN-B5QS7M2", "macs": ["0c:42:a1:00:00:01", "0c:42:a1:00:c0:7a"]}`,
		all[1], `{"board_serial": "c07-extra", "macs": ["0c:42:a1:00:00:02"]}`)
	for query, want := range map[string]string{
		"q=7U":                              "c07u1 c07u2",
		"q=u2":                              "c07u2",
		"q=bmc7":                            "c07u1",
		"q=0.0.2":                           "c07u2",
		"q=%25":                             "",
		"q=_":                               "",
		"q=" + all[0].String()[:13]:         "c07u1",
		"q=" + all[0].String()[1:]:          "",
		"q=sn-b5":                           "c07u1",
		"q=SNB5QS7M2":                       "c07u1",
		"q=7m2":                             "", // too short to mean hardware
		"q=qs7m":                            "", // the middle of a serial
		"q=s7m2":                            "c07u1",
		"q=0C-42-A1-00-00-02":               "c07u2",
		"q=0c42.a1":                         "c07u1 c07u2",
		"q=00:c0:7a":                        "c07u1",
		"q=c07e":                            "c07u2",
		"q=4c4c4544-0042":                   "c07u1",
		"q=30.4.1":                          "c07u1",
		"statuses=active":                   "c07u1",
		"statuses=active,offline":           "c07u1 c07u2",
		"statuses=active&statuses=deleted":  "c07u1 c07u3",
		"status=active&statuses=deleted":    "c07u1 c07u3",
		"statuses=retired":                  "",
		"sort=hostname&q=u&statuses=active": "c07u1",
	} {
		if got := names(w.listed(t, query).Items); got != want {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
	}
	w.call(t, http.MethodGet, "?statuses=active,broken", "", nil).Wants(t, http.StatusUnprocessableEntity,
		"validation_error", "query.statuses")
	if a := w.call(t, http.MethodGet, "?statuses="+strings.Repeat(",", 20_000), "",
		nil); a.Status != http.StatusUnprocessableEntity || len(a.Body) > 2_000 {
		t.Errorf("many words that are none: %d, %d bytes", a.Status, len(a.Body))
	}
	if got := names(w.listed(t, "statuses=active"+strings.Repeat(",active", 5_000)).Items); got != "c07u1" {
		t.Errorf("a word said often finds %q", got)
	}
	w.call(t, http.MethodGet, "?site_id=dc1", "", nil).Wants(t, http.StatusUnprocessableEntity, "validation_error",
		"query.site_id")
}

// A node belongs to the site of its machine. Before it has one, it belongs to
// the site at which it is being onboarded.
func TestNodesAreListedBySite(t *testing.T) {
	w := newWorld(t)
	all := w.fill(t, 4)
	site, profile := w.maas(t)
	const bound = `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id) VALUES ($1, $2, $3, $4)`
	onboard := func(n id.Node, status string) {
		w.exec(t, `INSERT INTO node_onboardings (id, site_id, profile_id, hostname, ipmi_ip, sku_id, node_id, status, completed_at, current_stage, workflow_id, requested_by, correlation_id)
			SELECT $1, $2, $3, hostname, host, sku_id, id, $5::text, CASE WHEN $5::text = 'running' THEN NULL ELSE clock_timestamp() END, 'x', 'w', 'o', 'c' FROM nodes WHERE id = $4`,
			id.New[id.Onboarding](), site, profile, n, status)
	}
	w.exec(t, bound, all[0], site, profile, "abc001")
	onboard(all[1], "running")
	onboard(all[2], "cancelled")
	for _, query := range []string{"", "&sort=hostname", "&sort=created_at&order=desc"} {
		var got []id.Node
		for _, n := range w.listed(t, "site_id="+site.String()+query).Items {
			got = append(got, n.NodeID)
		}
		slices.SortFunc(got, func(a, b id.Node) int { return strings.Compare(a.String(), b.String()) })
		if !slices.Equal(got, all[:2]) {
			t.Errorf("%q: the site has %v, want %v", query, got, all[:2])
		}
	}
	if others := w.listed(t, "site_id="+id.New[id.Site]().String()); len(others.Items) != 0 {
		t.Errorf("another site has %v", others.Items)
	}
}

// verifiersWanted is the version that all agents should use.
const verifiersWanted = 3

// everyAgent adds a node for every possible agent (243) in each of these
// states.
func (w *world) everyAgent(tb testing.TB, in ...node.Status) {
	tb.Helper()
	w.exec(tb, `INSERT INTO verifier_sets (version) VALUES ($1) ON CONFLICT (singleton) DO UPDATE SET version = $1`,
		verifiersWanted)
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, reported_agent_version, reported_agent_commit, desired_agent_version,
			certificate_not_after, verifier_version)
		SELECT gen_random_uuid(), status, 'n' || row_number() OVER (), '', $1, 8, 'eu-1', 'manual', version, commit, desired, clock_timestamp() + make_interval(mins => ends), verifiers
		FROM unnest(ARRAY['', 'dev', '1.0.0']) version, unnest(ARRAY['', 'unknown', 'abc123']) commit, unnest(ARRAY['', '1.0.0', '1.1.0']) desired,
			unnest(ARRAY[NULL, -60, 60]::int[]) ends, unnest(ARRAY[0, 3, 4]::bigint[]) verifiers,
			unnest($2::text[]) status`, someSKU, in)
}

// The rule of drift exists twice: in Go, which shows it, and in SQL, which
// filters by it. Both must agree about every possible agent.
func TestDriftIsTheSameShownAndNarrowedBy(t *testing.T) {
	w := newWorld(t)
	w.everyAgent(t, node.Active)
	shown := map[node.Drift][]listedNode{}
	for _, n := range w.throughout(t, "page_size=1000") {
		shown[n.Agent.Drift] = append(shown[n.Agent.Drift], n)
	}
	total := 0
	for _, drift := range []node.Drift{
		node.InSync, node.VersionDrift, node.ConfigDrift, node.CertificateRepairOnly,
		node.UnknownDrift,
	} {
		narrowed := w.throughout(t, fmt.Sprintf("page_size=17&sort=hostname&drift_state=%s", drift))
		if len(narrowed) == 0 || names(narrowed) != names(shown[drift]) {
			t.Errorf("%s: %d nodes are listed, %d are shown so", drift, len(narrowed), len(shown[drift]))
		}
		total += len(narrowed)
	}
	if total != 243 {
		t.Errorf("%d agents were looked at", total)
	}
}

// The rules by which the fleet is counted must agree as well.
func TestNodesAreNarrowedAsTheFleetIsCounted(t *testing.T) {
	w := newWorld(t)
	w.everyAgent(t, node.Active, node.Retired, node.Removing)
	w.exec(t, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, hold_reason, held_by, tainted_at, clean_at)
		SELECT gen_random_uuid(), status, 'h' || row_number() OVER (), '', $1, 8, 'eu-1', 'manual', reason, by, now() + make_interval(mins => tainted), now() + make_interval(mins => clean)
		FROM unnest(ARRAY['active', 'retired']) status, unnest(ARRAY['', 'two fans']) reason, unnest(ARRAY['', 'decommission x']) by,
			unnest(ARRAY[NULL, -60]::int[]) tainted, unnest(ARRAY[NULL, -61, -60, -59]::int[]) clean`, someSKU)
	all := w.throughout(t, "page_size=1000")
	for rule, is := range map[string]func(n listedNode) string{
		"agent": func(n listedNode) string {
			return string(node.Build{
				Version: n.Agent.Version, Commit: n.Agent.Commit, Desired: n.Agent.Desired,
				CertificateNotAfter: n.Agent.CertificateNotAfter,
				Verifiers:           n.Agent.Verifiers, VerifiersWanted: verifiersWanted,
			}.State(n.Status, time.Now()))
		},
		"held": func(n listedNode) string {
			return strconv.FormatBool(node.Node{HoldReason: n.HoldReason, HeldBy: n.HeldBy}.OnHold())
		},
		"tainted": func(n listedNode) string { return strconv.FormatBool(n.Tainted) },
	} {
		shown := map[string][]listedNode{}
		for _, n := range all {
			shown[is(n)] = append(shown[is(n)], n)
		}
		if values := map[string]int{"agent": 4, "held": 2, "tainted": 2}[rule]; len(all) != 3*243+64 || len(shown) != values {
			t.Errorf("%d nodes are %d times different by %s", len(all), len(shown), rule)
		}
		delete(shown, "") // nodes without a real agent: no filter selects them
		for value, want := range shown {
			if narrowed := w.throughout(t, fmt.Sprintf("page_size=17&sort=hostname&%s=%s", rule, value)); names(
				narrowed) != names(want) {
				t.Errorf("%s=%s: %d nodes are listed, %d are so", rule, value, len(narrowed), len(want))
			}
		}
		w.call(t, http.MethodGet, "?"+rule+"=perhaps", "", nil).Wants(t, http.StatusUnprocessableEntity, "validation_error",
			"query."+rule)
	}
	if both := w.throughout(t, "page_size=17&held=true&tainted=true&agent=unknown_build&status=active"); len(both) != 9 {
		t.Errorf("%d nodes are all of it, want 9", len(both))
	}
	for _, status := range node.Lifecycle.Having(node.Out) {
		w.exec(t, `UPDATE nodes SET status = $1`, status)
		for _, agent := range []node.AgentState{node.AgentCurrent, node.AgentDrift, node.AgentUnknownBuild} {
			if left := w.listed(t, fmt.Sprintf("status=%s&agent=%s", status, agent)).Items; len(left) != 0 {
				t.Errorf("nodes that are %s are listed as %s", status, agent)
			}
		}
	}
}
