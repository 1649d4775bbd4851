package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/sim/lab"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// TestJobsOutliveEverythingThatIsKilled kills, one after the other and in the
// middle of fifty jobs, every process that takes part in them: first while
// machines are onboarded, then while their nodes are cleaned, installed anew and
// decommissioned. All reach their goal without an operator, and nothing is done
// twice. make soak asks for several rounds, with as many more machines, and with
// seeds for other orders than the one below.
func TestJobsOutliveEverythingThatIsKilled(t *testing.T) {
	t.Parallel()
	rounds, seed := soak(t, "GPUAAS_SOAK_ROUNDS", 1), soak(t, "GPUAAS_SOAK_SEED", 0)
	w := openKillable(t, 50*int(rounds))
	w.rounds = int(rounds)
	if seed != 0 {
		w.order = rand.New(rand.NewPCG(seed, 0))
	}
	w.onboards(t)
	w.decommissions(t)
}

// soak is a setting of make soak.
func soak(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// killable is a deployment of which every process can be killed.
type killable struct {
	rounds   int        // how often everything is killed while jobs of a family run
	order    *rand.Rand // of the kills; nil: that of victims
	machines int
	state    string
	site     *labProcess
	engines  *stack.Stack
	env      []string
	api      *plane
	worker   *plane
}

func openKillable(t *testing.T, machines int) *killable {
	t.Helper()
	w := &killable{machines: machines, state: t.TempDir()}
	w.site = startLabProcess(t, w.state, machines)
	w.engines = stacktest.Start(t, stack.Options{})
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", port)
	w.env = []string{
		"GPUAAS_NODES_LISTEN=" + address, "GPUAAS_NODES_URL=https://" + address,
		"GPUAAS_NODES_SSH_PROXY=" + w.site.record.SSHProxy,
		onLoopback(t, w.site.record.URL),
		"GPUAAS_NODES_AGENT_FOLDER=" + buildAgents(t), "GPUAAS_NODES_AGENT_VERSION=" + firstAgent,
		"GPUAAS_NODES_NEWCOMER_RATE=200",
	}
	w.env = append(w.env, hurriedBilling()...)
	w.api = startPlane(t, w.engines.Endpoints(), planeOptions{env: w.env, roles: "api,relay"})
	w.worker = startPlane(t, w.engines.Endpoints(), planeOptions{env: w.env, roles: "worker", token: w.api.token})
	return w
}

// progress is how many jobs reached their goal, and how many are parked.
type progress func() (done, parked int, err error)

// kills ends every process once a round, each when some more jobs are done.
func (w *killable) kills(t *testing.T, look progress) {
	t.Helper()
	victims := w.victims(t)
	for i := range w.rounds * len(victims) {
		if i%len(victims) == 0 && w.order != nil {
			w.order.Shuffle(len(victims), func(a, b int) { victims[a], victims[b] = victims[b], victims[a] })
		}
		victim, enough := victims[i%len(victims)], 3+i*5
		testkit.Succeeds(t, fmt.Sprintf("%d jobs before %s is killed", enough, victim.name), 4*time.Minute, func() error {
			done, _, err := look()
			if err == nil && done < enough {
				err = fmt.Errorf("%d are done", done)
			}
			return err
		})
		t.Logf("killing %s", victim.name)
		victim.kill()
	}
}

// victim is something that takes part in jobs, and how it is killed and comes back.
type victim struct {
	name string
	kill func()
}

func (w *killable) victims(t *testing.T) []victim {
	return []victim{
		{"worker", func() {
			w.worker.signal(syscall.SIGKILL)
			<-w.worker.exited
			w.worker = startPlane(t, w.engines.Endpoints(),
				planeOptions{env: w.env, roles: "worker", token: w.api.token, waiting: true})
		}},
		{"simulator", func() { w.site.restart(t) }},
		{"Temporal", func() { bounce(t, w.engines, stack.Temporal) }},
		{"agents", func() { killAgents(t, filepath.Join(w.state, "rack-process")) }},
		{"OpenBao", func() { bounce(t, w.engines, stack.OpenBao) }},
		{"PostgreSQL", func() { bounce(t, w.engines, stack.Postgres) }},
		{"NATS", func() { bounce(t, w.engines, stack.NATS) }},
		{"API", func() {
			w.api.signal(syscall.SIGKILL)
			<-w.api.exited
			w.api = startPlane(t, w.engines.Endpoints(), planeOptions{env: w.env, roles: "api,relay", token: w.api.token})
		}},
	}
}

// awaitAll waits until all jobs have reached their goal without an operator.
func (w *killable) awaitAll(t *testing.T, look progress, unfinished func() string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("what did not reach its goal:\n%s", unfinished())
		}
	}()
	testkit.Succeeds(t, "all jobs to reach their goal", 6*time.Minute, func() error {
		done, parked, err := look()
		switch {
		case err != nil:
			return err
		case parked > 0:
			t.Fatalf("%d are parked", parked)
		case done < w.machines:
			return fmt.Errorf("%d are done", done)
		}
		return nil
	})
}

// brings asks for the onboarding of all machines, as a batch.
func (w *killable) brings(t *testing.T) (look progress, batchID string) {
	t.Helper()
	succeed(t, w.api.cli(t), "sim", "site", "--state", w.state, "--csv", filepath.Join(w.state, "lab.csv"))
	var sites struct {
		Items []struct {
			SiteID string `json:"site_id"`
		}
	}
	w.api.do(t, http.MethodGet, "/api/v1/admin/maas-sites", nil, http.StatusOK, &sites)
	var batch struct {
		BatchID string `json:"batch_id"`
	}
	w.api.do(t, http.MethodPost, "/api/v1/admin/onboardings/batch", map[string]any{
		"site_id": sites.Items[0].SiteID, "sku_id": "h200-sxm-baremetal-8g", "nodes": w.site.record.Machines,
	}, http.StatusAccepted, &batch)
	return w.counted(t, "/api/v1/admin/onboarding-batches/"+batch.BatchID), batch.BatchID
}

func (w *killable) onboards(t *testing.T) {
	t.Helper()
	look, batch := w.brings(t)
	w.kills(t, look)
	w.awaitAll(t, look, func() string {
		return w.explained(t, "onboarding", "onboarding_id", "--batch", batch)
	})
	active := 0
	for _, n := range all[apiclient.NodeView](t, w.api, "/api/v1/admin/nodes") {
		if n.Status == "active" || n.Status == "offline" {
			active++
		}
	}
	if active != w.machines {
		t.Errorf("%d nodes for %d machines", active, w.machines)
	}
	w.deployedEach(t, func(string) int { return 1 })
}

// explained says of every job that is parked or under way what it waits for.
func (w *killable) explained(t *testing.T, family, id string, filter ...string) string {
	t.Helper()
	var all strings.Builder
	for _, status := range []string{"failed", "running", "pending"} {
		list := append([]string{family, "list", "--status", status, "-o", "json"}, filter...)
		var jobs []map[string]any
		if err := json.Unmarshal([]byte(succeed(t, w.api.cli(t), list...)), &jobs); err != nil {
			t.Fatal(err)
		}
		for _, job := range jobs {
			all.WriteString(succeed(t, w.api.cli(t), family, "explain", fmt.Sprint(job[id])))
		}
	}
	return all.String()
}

// counted reads how the jobs of a batch are getting on.
func (w *killable) counted(t *testing.T, paths ...string) progress {
	return func() (done, parked int, err error) {
		for _, path := range paths {
			var b struct {
				Counts map[string]int `json:"counts"`
			}
			a, err := w.api.call(t.Context(), http.MethodGet, path, nil)
			if err == nil {
				err = readJSON(a, &b)
			}
			if err != nil {
				return 0, 0, err
			}
			done += b.Counts["completed"]
			parked += b.Counts["failed_retryable"] + b.Counts["failed_manual_intervention"]
		}
		return done, parked, nil
	}
}

// deployedEach checks how often machines were deployed, by the log of MAAS.
func (w *killable) deployedEach(t *testing.T, want func(hostname string) int) {
	t.Helper()
	for hostname, deployments := range w.site.deployments(t) {
		if deployments != want(hostname) {
			t.Errorf("%s was deployed %d times, not %d", hostname, deployments, want(hostname))
		}
	}
}

// bounce kills an engine and lets it come back.
func bounce(t *testing.T, engines *stack.Stack, e stack.Engine) {
	t.Helper()
	if err := engines.Kill(e); err != nil {
		t.Fatal(err)
	}
	if err := engines.Resume(e); err != nil {
		t.Fatal(err)
	}
}

// labProcess is a lab in a process of its own, which can be killed.
type labProcess struct {
	*process
	state  string
	args   []string
	record lab.Record
}

func startLabProcess(t *testing.T, state string, machines int) *labProcess {
	t.Helper()
	l := &labProcess{state: state, args: []string{
		"sim", "lab", "--state", state, "--kind", "process", "--machines", strconv.Itoa(machines), "--hardware-speed", "400",
		"--careful",
	}}
	l.begin(t)
	return l
}

func (l *labProcess) begin(t *testing.T) {
	t.Helper()
	l.process = begin(t, nil, l.args...)
	testkit.Succeeds(t, "the lab to be there", time.Minute, func() error {
		if !strings.Contains(l.output.String(), "lab of") {
			return fmt.Errorf("it said: %s", l.output.tail(500))
		}
		var err error
		l.record, err = lab.ReadRecord(lab.RecordFile(l.state))
		return err
	})
}

// restart kills the simulated MAAS, its machines and their agents, and switches
// everything on again.
func (l *labProcess) restart(t *testing.T) {
	t.Helper()
	l.signal(syscall.SIGKILL)
	<-l.exited
	l.begin(t)
}

// deployments is how often each machine was deployed, by the log of MAAS.
func (l *labProcess) deployments(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, m := range labEvents(t, l.record) {
		if m.Type == "User starting deployment" {
			out[m.Hostname]++
		}
	}
	return out
}

// killAgents kills the agents of a few machines; the rack starts them again, as
// systemd would.
func killAgents(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.HasPrefix(string(line), folder) && strings.Contains(string(line), "gpuaas-agent") &&
			killed < 5 {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	if killed == 0 {
		t.Error("no agent was found to be killed")
	}
}

type maasEvent struct {
	Type     string `json:"type"`
	Hostname string `json:"hostname"`
}

// labEvents reads what MAAS has on record about each machine, over its own API.
func labEvents(t *testing.T, r lab.Record) []maasEvent {
	t.Helper()
	key := strings.Split(r.Token, ":")
	var events []maasEvent
	for _, m := range r.Machines {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			r.URL+"/api/2.0/events/?op=query&level=DEBUG&limit=1000&hostname="+m.Hostname, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", fmt.Sprintf(
			`OAuth oauth_version="1.0", oauth_signature_method="PLAINTEXT", oauth_consumer_key="%s", oauth_token="%s", oauth_signature="%%26%s", oauth_nonce="%d", oauth_timestamp="%d"`,
			key[0], key[1], key[2], time.Now().UnixNano(), time.Now().Unix()))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Events []maasEvent `json:"events"`
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("read events of %s: %s %v", m.Hostname, resp.Status, err)
		}
		events = append(events, page.Events...)
	}
	return events
}

func readJSON(a answer, into any) error {
	if a.status != http.StatusOK {
		return fmt.Errorf("answered %s", a)
	}
	return json.Unmarshal(a.body, into)
}
