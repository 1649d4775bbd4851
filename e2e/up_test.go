package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/stack"
	"gpuaas/testkit"
)

// TestUp is the first day of a newcomer: bring everything up, look around, stop
// it, lose power, and find everything again.
func TestUp(t *testing.T) {
	t.Parallel()
	state := stack.ThrowawayFolder("-up")
	t.Cleanup(func() {
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	cli := []string{"XDG_CONFIG_HOME=" + t.TempDir()}

	p, tokenFile := startUp(t, state)
	if tokenFile != filepath.Join(state, "admin-token") {
		t.Errorf("the token is said to be in %s, want it in the state folder", tokenFile)
	}
	checkPrivate(t, tokenFile)
	checkDocs(t, p)
	if tries := p.suggestions(); len(tries) != 4 {
		t.Errorf("gpuaas up suggests %v, want four commands", tries)
	}
	if said := p.output.String(); !strings.Contains(said, "Open "+p.url+" in a browser") ||
		!strings.Contains(said, "\n    cat "+tokenFile+"\n") {
		t.Errorf("gpuaas up does not say how to sign in to its console:\n%s", said)
	}
	checkLab(t, p)
	for _, try := range p.suggestions() {
		if try[0] != "onboard" { // it needs the programs of an agent; see the test of the lab
			succeed(t, cli, try...)
		}
	}
	passed := succeed(t, cli, "self-check", "run", "--wait", "-o", "json")
	if !strings.Contains(passed, `"passed"`) {
		t.Errorf("self-check run --wait printed %s, want a check that passed", passed)
	}
	succeed(t, cli, "tenant", "create", "acme", "--name", "Acme Inc.")
	before := auditTrail(t, cli)
	checkSecondUp(t, state, p)

	p.signal(syscall.SIGINT)
	if code := p.exit(t, time.Minute); code != 0 {
		t.Errorf("exit code %d after Ctrl-C, want 0", code)
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are left after Ctrl-C: %v", left)
	}

	again, _ := startUp(t, state)
	again.checkHolds(t, "acme", before)
	again.do(t, http.MethodPost, "/api/v1/admin/tenants", naming{"globex", "Globex"}, http.StatusCreated, nil)

	killAll(t, again.process, state)
	last, _ := startUp(t, state)
	last.checkHolds(t, "acme", before)
	last.checkHolds(t, "globex", before)
	succeed(t, cli, "login", "--url", last.url, "--token-file", tokenFile)
	succeed(t, cli, "self-check", "run", "--wait")
	last.end(t, syscall.SIGTERM)
}

// naming is the body that makes a tenant.
type naming struct {
	Slug string `json:"slug"`
	Name string `json:"name"`
}

// suggested is a command that gpuaas up tells the newcomer to try.
var suggested = regexp.MustCompile(`(?m)^ *bin/gpuaas (.+)$`)

// keepNodePort gives a state folder a port for nodes of its own. The usual one may
// be taken by another test before this one starts again.
func keepNodePort(t *testing.T, state string) {
	t.Helper()
	file := filepath.Join(state, "node-port")
	if _, err := os.Stat(file); err == nil {
		return
	}
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err == nil {
		err = os.MkdirAll(state, 0o700)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(port+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// startUp runs gpuaas up until it says that it is ready, and reads the address
// and the token from the first command that it suggests.
func startUp(t *testing.T, state string, env ...string) (p *plane, tokenFile string) {
	t.Helper()
	keepNodePort(t, state)
	p = &plane{http: newHTTP(), process: begin(t, env, "up", "--state", state, "--listen", "127.0.0.1:0")}
	testkit.Succeeds(t, "gpuaas up to be ready", 2*time.Minute, func() error {
		select {
		case <-p.exited:
			t.Fatalf("gpuaas up ended: %v", p.err)
		default:
		}
		if !strings.Contains(p.output.String(), "Ctrl-C stops") {
			return errors.New("it does not say so")
		}
		return nil
	})
	login := p.suggestions()[0]
	for i, word := range login[:len(login)-1] {
		switch word {
		case "--url":
			p.url = login[i+1]
		case "--token-file":
			tokenFile = login[i+1]
		}
	}
	if !strings.Contains(p.output.String(), p.url+"/docs") {
		t.Errorf("gpuaas up does not say where its documentation is")
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	p.token = strings.TrimSpace(string(token))
	return p, tokenFile
}

// suggestions are the commands that gpuaas up tells the newcomer to try.
func (p *plane) suggestions() [][]string {
	var out [][]string
	for _, line := range suggested.FindAllStringSubmatch(p.output.String(), -1) {
		out = append(out, strings.Fields(line[1]))
	}
	return out
}

func checkPrivate(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %o, want 600", file, info.Mode().Perm())
	}
}

var (
	reference = regexp.MustCompile(`(?:src|href)="([^"]+)"`)
	elsewhere = regexp.MustCompile(`^(?:[a-z]+:)?//`)
)

// checkDocs reads the documentation page, everything it loads, and the contract.
func checkDocs(t *testing.T, p *plane) {
	t.Helper()
	page := p.do(t, http.MethodGet, "/docs", nil, http.StatusOK, nil, header{"Authorization", ""})
	loaded := reference.FindAllStringSubmatch(string(page.body), -1)
	if len(loaded) < 3 {
		t.Fatalf("the documentation page loads %d files, want its script, viewer and style", len(loaded))
	}
	for _, one := range loaded {
		if elsewhere.MatchString(one[1]) {
			t.Errorf("the documentation page loads %s from another origin", one[1])
			continue
		}
		path := one[1]
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		if a := p.do(t, http.MethodGet, path, nil, http.StatusOK, nil, header{"Authorization", ""}); len(a.body) == 0 {
			t.Errorf("%s is empty", path)
		}
	}
	policy := page.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "http") ||
		strings.Contains(policy, "*") {
		t.Errorf("the policy of the page lets it load from elsewhere: %q", policy)
	}
	contract := p.do(t, http.MethodGet, "/openapi.yaml", nil, http.StatusOK, nil, header{"Authorization", ""})
	committed, err := os.ReadFile("../contract/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// the first line says how it was made
	if _, rest, _ := strings.Cut(string(committed), "\n"); rest != string(contract.body) {
		t.Error("/openapi.yaml is not the committed contract")
	}
}

// checkLab expects that those who manage sites, and nobody else, see the lab.
func checkLab(t *testing.T, p *plane) {
	t.Helper()
	var described struct {
		Name     string
		Machines int
	}
	p.do(t, http.MethodGet, "/lab/", nil, http.StatusOK, &described)
	if described.Name != "lab" || described.Machines != 24 {
		t.Errorf("the lab is described as %+v", described)
	}
	p.do(t, http.MethodGet, "/lab/", nil, http.StatusUnauthorized, nil, header{"Authorization", ""})
	power := map[string]string{"what": "power-on"}
	p.do(t, http.MethodPost, "/lab/machines/gpu-00001/happen", power, http.StatusOK, nil)
	p.do(t, http.MethodPost, "/lab/machines/gpu-00001/happen", power, http.StatusUnauthorized, nil,
		header{"Authorization", ""})
}

// auditTrail is what gpuaas audit list shows, by id.
func auditTrail(t *testing.T, cli []string) []string {
	t.Helper()
	var entries []apiclient.AuditLogEntry
	text := succeed(t, cli, "audit", "list", "--by", "all", "-o", "json", "--limit", "0")
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		var list struct {
			Items []apiclient.AuditLogEntry `json:"items"`
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("gpuaas audit list -o json: %v\n%s", err, text)
		}
		entries = list.Items
	}
	var ids, actions []string
	for _, e := range entries {
		ids, actions = append(ids, e.Id.String()), append(actions, e.Action)
	}
	for _, want := range []string{"tenant.create", "self_check.request"} {
		if !slices.Contains(actions, want) {
			t.Errorf("the audit log holds %v, want %s too", actions, want)
		}
	}
	return ids
}

// checkSecondUp expects that a second launcher leaves a state folder alone.
func checkSecondUp(t *testing.T, state string, holder *plane) {
	t.Helper()
	second := begin(t, nil, "up", "--state", state, "--listen", "127.0.0.1:0")
	if code := second.exit(t, time.Minute); code == 0 {
		t.Error("a second up on the same state folder ended with exit code 0")
	}
	said := second.output.String()
	for _, want := range []string{state, strconv.Itoa(holder.pid()), holder.url} {
		if !strings.Contains(said, want) {
			t.Errorf("a second up on the same state folder says %q, want %s in it", said, want)
		}
	}
	holder.do(t, http.MethodGet, "/api/v1/me", nil, http.StatusOK, nil)
}

// checkHolds expects that a tenant and earlier audit entries are still there.
func (p *plane) checkHolds(t *testing.T, slug string, audit []string) {
	t.Helper()
	tenants := all[apiclient.IdentityTenantView](t, p, "/api/v1/tenants")
	if !slices.ContainsFunc(tenants, func(v apiclient.IdentityTenantView) bool { return v.Slug == slug }) {
		t.Errorf("tenant %s is gone; there are %d others", slug, len(tenants))
	}
	now := map[string]bool{}
	for _, e := range all[apiclient.AuditLogEntry](t, p, "/api/v1/admin/audit-logs") {
		now[e.Id.String()] = true
	}
	for _, id := range audit {
		if !now[id] {
			t.Errorf("audit entry %s is gone", id)
		}
	}
}

// killAll ends the launcher and everything it started at once, as a power cut
// would.
func killAll(t *testing.T, launcher *process, state string) {
	t.Helper()
	victims := append(descendants(t, launcher.pid()), launcher.pid())
	if len(victims) < 4 {
		t.Fatalf("found only processes %v of the stack", victims)
	}
	for _, pid := range victims {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Logf("kill %d: %v", pid, err) // a backend may have ended meanwhile
		}
	}
	launcher.exit(t, time.Minute)
	testkit.Succeeds(t, "killed processes to be gone", time.Minute, func() error {
		if left := processesOf(t, state); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// descendants are all processes below one.
func descendants(t *testing.T, root int) []int {
	t.Helper()
	children := map[int][]int{}
	for _, pid := range processes(t) {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			// The name in parentheses may hold anything.
			if fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(fields) > 1 {
				parent, _ := strconv.Atoi(fields[1])
				children[parent] = append(children[parent], pid)
			}
		}
	}
	var out []int
	for next := []int{root}; len(next) > 0; next = next[1:] {
		out = append(out, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return out
}

// processesOf are those whose command line or environment names the folder.
func processesOf(t *testing.T, state string) []string {
	t.Helper()
	var out []string
	for _, pid := range processes(t) {
		for _, file := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err == nil && strings.Contains(string(b), state) {
				out = append(out, fmt.Sprintf("%d (%s)", pid, strings.ReplaceAll(string(b), "\x00", " ")))
				break
			}
		}
	}
	return out
}

func processes(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
