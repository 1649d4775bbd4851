package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/testkit"
)

// rental is what these scenarios read of an allocation.
type rental struct {
	AllocationID       string `json:"allocation_id"`
	Status             string
	NodeID             string `json:"node_id"`
	Hostname           string
	Username           string
	CleanupID          string     `json:"cleanup_id"`
	WaitingFor         string     `json:"waiting_for"`
	FailureReason      string     `json:"failure_reason"`
	ReleaseFailed      string     `json:"release_failed_reason"`
	CreatedAt          time.Time  `json:"created_at"`
	ActiveAt           *time.Time `json:"active_at"`
	ReleaseRequestedAt *time.Time `json:"release_requested_at"`
}

// tenant is a member of a project, with no other right.
type tenant struct {
	*plane
	path    string // of the allocations of its project
	project string
}

// newTenant makes a tenant with a project, and signs a member of it in.
func (p *plane) newTenant(t *testing.T, slug string) tenant {
	t.Helper()
	cli := p.cli(t)
	succeed(t, cli, "tenant", "create", slug, "--name", slug)
	var project struct {
		ProjectID string `json:"project_id"`
	}
	said := succeed(t, cli, "project", "create", "training", "--tenant", slug, "-o", "json")
	if err := json.Unmarshal([]byte(said), &project); err != nil {
		t.Fatal(err)
	}
	succeed(t, cli, "service-account", "create", "ci", "--project", slug+"/training", "--role", "project_member")
	member := *p
	member.token = strings.TrimSpace(succeed(t, cli, "token", "create", "ci", "--service-account", "ci", "--project",
		slug+"/training", "--expires-in", "1h"))
	return tenant{
		plane: &member, path: "/api/v1/projects/" + project.ProjectID + "/allocations", project: project.ProjectID,
	}
}

func (m tenant) get(t *testing.T, of string) (r rental) {
	t.Helper()
	m.do(t, http.MethodGet, m.path+"/"+of, nil, http.StatusOK, &r)
	return r
}

// becomes waits until an allocation has a status.
func (m tenant) becomes(t *testing.T, of, status string) rental {
	t.Helper()
	var r rental
	testkit.Succeeds(t, "allocation is "+status, 5*time.Minute, func() error {
		if r = m.get(t, of); r.Status == status {
			return nil
		}
		return fmt.Errorf("it is %s: %s%s%s", r.Status, r.WaitingFor, r.FailureReason, r.ReleaseFailed)
	})
	return r
}

func (m tenant) release(t *testing.T, of string) {
	t.Helper()
	m.do(t, http.MethodPost, m.path+"/"+of+"/release", map[string]any{}, http.StatusAccepted, nil)
}

// rents has an administrator rent a certain node for the tenant, and waits until the
// account is there. access is user or root.
func (m tenant) rents(t *testing.T, admin *plane, node, access string, keys ...string) rental {
	t.Helper()
	var made struct{ Allocations []rental }
	body := map[string]any{"project_id": m.project, "sku": labSKU, "node_id": node, "access": access}
	if len(keys) > 0 {
		body["ssh_key_ids"] = keys
	}
	admin.do(t, http.MethodPost, "/api/v1/admin/allocations", body, http.StatusCreated, &made)
	return m.becomes(t, made.Allocations[0].AllocationID, "active")
}

// leaves has an administrator give an allocation back, and waits until its node is
// proven clean.
func (m tenant) leaves(t *testing.T, admin *plane, r rental) {
	t.Helper()
	admin.do(t, http.MethodPost, m.path+"/"+r.AllocationID+"/release", map[string]any{}, http.StatusAccepted, nil)
	m.becomes(t, r.AllocationID, "released")
}

// ask asks for an allocation of a lab machine.
func (m tenant) ask(t *testing.T, count int, want int) (made struct{ Allocations []rental }) {
	t.Helper()
	m.do(t, http.MethodPost, m.path, map[string]any{"sku": labSKU, "count": count}, want, &made)
	return made
}

const labSKU = "h200-sxm-baremetal-8g"

// checkRent is the first day of two tenants on a fleet of n nodes: all nodes are
// rented, the last one is asked for twice and goes from one to the other, everything is given back, and what they
// hold in their hands proves it.
func (p *plane) checkRent(t *testing.T, n int) {
	t.Helper()
	acme, globex := p.newTenant(t, "acme"), p.newTenant(t, "globex")
	began := time.Now()
	made := acme.ask(t, n-1, http.StatusCreated).Allocations
	for _, a := range made {
		acme.becomes(t, a.AllocationID, "active")
	}
	t.Logf("%d allocations were active after %s", n-1, time.Since(began).Round(10*time.Millisecond))
	last := p.lastNode(t, acme, globex)
	for _, a := range append(made, last) {
		acme.release(t, a.AllocationID)
	}
	began = time.Now()
	for _, a := range append(made, last) {
		acme.becomes(t, a.AllocationID, "released")
	}
	t.Logf("%d allocations were released and proven clean after %s", n, time.Since(began).Round(10*time.Millisecond))
	second := globex.becomes(t, globex.ask(t, 1, http.StatusCreated).Allocations[0].AllocationID, "active")
	globex.release(t, second.AllocationID)
	globex.becomes(t, second.AllocationID, "released")
	p.checkReceipts(t, globex, second)
	// What belongs to others does not exist.
	globex.do(t, http.MethodGet, globex.path+"/"+last.AllocationID, nil, http.StatusNotFound, nil)
	globex.do(t, http.MethodGet, acme.path+"/"+last.AllocationID, nil, http.StatusNotFound, nil)
	globex.do(t, http.MethodPost, "/api/v1/allocations/"+last.AllocationID+"/release", map[string]any{},
		http.StatusNotFound, nil)
}

// asked is what a request became at once.
type asked struct {
	status      int
	Allocations []rental
	RequestID   string `json:"request_id"`
	Position    int
}

// lastNode has both tenants ask for the last node at once, and both are ready to
// wait: one gets it, the other waits, and gets it when the first lets go. At the end
// acme has it.
func (p *plane) lastNode(t *testing.T, acme, globex tenant) rental {
	t.Helper()
	both := []tenant{acme, globex}
	var wait sync.WaitGroup
	got := make([]asked, 2)
	for i, m := range both {
		wait.Go(func() {
			a, err := m.call(t.Context(), http.MethodPost, m.path, map[string]any{"sku": labSKU, "wait_up_to_seconds": 600})
			if err == nil {
				err = json.Unmarshal(a.body, &got[i])
			}
			if got[i].status = a.status; err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got[0].status+got[1].status != http.StatusCreated+http.StatusAccepted {
		t.Fatalf("the last node was asked for twice: %+v", got)
	}
	first := 0
	if got[1].status == http.StatusCreated {
		first = 1
	}
	of := got[first].Allocations[0].AllocationID
	both[first].becomes(t, of, "active")
	// Who waits is told why, and nobody overtakes.
	both[1-first].waits(t, got[1-first].RequestID)
	both[first].release(t, of)
	both[first].becomes(t, of, "released")
	second := both[1-first].placed(t, got[1-first].RequestID)
	both[1-first].becomes(t, second, "active")
	if first == 1 {
		return acme.get(t, second)
	}
	globex.release(t, second)
	globex.becomes(t, second, "released")
	return acme.becomes(t, acme.ask(t, 1, http.StatusCreated).Allocations[0].AllocationID, "active")
}

// waiting is what these scenarios read of a request that waits.
type waiting struct {
	Status        string
	Position      int
	Reason        string
	AllocationIDs []string `json:"allocation_ids"`
	Capacity      struct {
		Nodes, Free int
		Filters     []struct {
			Reason        string
			Before, After int
		}
	}
}

// waits checks that a request waits, and says why.
func (m tenant) waits(t *testing.T, of string) {
	t.Helper()
	var r waiting
	m.do(t, http.MethodGet, "/api/v1/allocation-requests/"+of, nil, http.StatusOK, &r)
	if r.Status != "waiting" || r.Position != 1 || r.Capacity.Free != 0 || r.Capacity.Nodes == 0 {
		t.Errorf("a request that waits: %+v", r)
	}
}

// placed waits until a request has its node.
func (m tenant) placed(t *testing.T, of string) (allocation string) {
	t.Helper()
	var r waiting
	testkit.Succeeds(t, "the request is placed", time.Minute, func() error {
		m.do(t, http.MethodGet, "/api/v1/allocation-requests/"+of, nil, http.StatusOK, &r)
		if r.Status != "placed" {
			return fmt.Errorf("it is %s: %s", r.Status, r.Reason)
		}
		return nil
	})
	return r.AllocationIDs[0]
}

// checkReceipts verifies both papers of an allocation with the command line alone.
func (p *plane) checkReceipts(t *testing.T, m tenant, of rental) {
	t.Helper()
	var papers struct {
		Items []struct {
			Moment        string
			CertificateID string `json:"certificate_id"`
			Outcome       string
		}
	}
	m.do(t, http.MethodGet, m.path+"/"+of.AllocationID+"/receipts", nil, http.StatusOK, &papers)
	if len(papers.Items) != 2 || papers.Items[0].Moment != "handover" || papers.Items[1].Moment != "release" {
		t.Fatalf("papers of an allocation: %+v", papers.Items)
	}
	folder := t.TempDir()
	keys := filepath.Join(folder, "keys.json")
	m.download(t, "/api/v1/certificate-keys", keys)
	for i, paper := range papers.Items {
		file := filepath.Join(folder, fmt.Sprintf("%d.json", i))
		m.download(t, m.path+"/"+of.AllocationID+"/receipts/"+paper.CertificateID, file)
		succeed(t, nil, "certificate", "verify", file, "--keys", keys)
	}
}

// download writes what a path answers into a file.
func (p *plane) download(t *testing.T, path, file string) {
	t.Helper()
	if err := os.WriteFile(file, p.do(t, http.MethodGet, path, nil, http.StatusOK, nil).body, 0o600); err != nil {
		t.Fatal(err)
	}
}
