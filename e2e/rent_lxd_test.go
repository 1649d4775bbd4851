package e2e

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/sim/rack"
	"gpuaas/testkit"
)

// login is the way of a tenant to its node: the plain ssh client, with its own key.
type login struct {
	key, user, address string
}

// do runs a script on the node as the tenant.
func (l login) do(t *testing.T, script string) string {
	t.Helper()
	out, err := l.try(t, script)
	if err != nil {
		t.Fatalf("ssh %s@%s: %v\n%s", l.user, l.address, err, out)
	}
	return strings.TrimSpace(out)
}

func (l login) try(t *testing.T, script string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "ssh", "-F", "none", "-i", l.key, "-o", "IdentitiesOnly=yes",
		"-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "-o", "ConnectTimeout=20", l.user+"@"+l.address, "sh")
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader("set -e\n"+script+"\n"), &out, &out
	err := c.Run()
	return out.String(), err
}

// keyPair makes a key as people do, and adds it to the project.
func (m tenant) keyPair(t *testing.T, admin *plane) (file, id string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "id_ed25519")
	out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
		file).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	var kept struct {
		ID string `json:"ssh_key_id"`
	}
	admin.do(t, http.MethodPost, "/api/v1/projects/"+m.project+"/ssh-keys",
		map[string]string{"name": filepath.Base(filepath.Dir(file)), "public_key": strings.TrimSpace(string(public))},
		http.StatusCreated, &kept)
	return file, kept.ID
}

// logsIn rents a node and logs in.
func (m tenant) logsIn(t *testing.T, admin *plane, r rack.Rack, node, access string) (rental, login) {
	t.Helper()
	key, id := m.keyPair(t, admin)
	var made struct{ Allocations []rental }
	m.do(t, http.MethodPost, m.path, map[string]any{"sku": labSKU, "access": access, "ssh_key_ids": []string{id}},
		http.StatusCreated, &made)
	rented := m.becomes(t, made.Allocations[0].AllocationID, "active")
	if rented.NodeID != node {
		t.Fatalf("the tenant got node %s, and %s is the only one", rented.NodeID, node)
	}
	machines, err := r.Machines(t.Context())
	if err != nil || len(machines) != 1 {
		t.Fatalf("machines: %v, %v", machines, err)
	}
	address, err := machines[0].Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := login{key: key, user: rented.Username, address: address}
	if got := l.do(t, "id -un"); got != rented.Username {
		t.Fatalf("the tenant is %q on its node, want %q", got, rented.Username)
	}
	return rented, l
}

// traces are what a tenant leaves that logged in over SSH: files, a shell that runs
// as it, processes of its session, of nobody's session and of its service manager.
const traces = `
for folder in ~ /tmp /var/tmp /dev/shm; do
    mkdir -p $folder/of-tenant
    echo secret >$folder/of-tenant/file
    cp /bin/sh $folder/of-tenant/shell
    chmod 4755 $folder/of-tenant/shell
done
nohup setsid sleep 86400 >/dev/null 2>&1 </dev/null &
nohup setsid setsid sleep 86401 >/dev/null 2>&1 </dev/null &
mkdir -p ~/.config/systemd/user
printf '[Service]\nExecStart=/bin/sleep 86402\nRestart=always\n[Install]\nWantedBy=default.target\n' \
    >~/.config/systemd/user/stay.service
systemctl --user daemon-reload
systemctl --user enable --now stay.service 2>/dev/null
`

// seen are the lines that count on the machine what is there of that.
func seen(user string) map[string]string {
	return map[string]string{
		"processes":            "ps -eo args= | grep -c '[s]leep 8640' || true",
		"files of the account": "find / -xdev '(' -user " + user + " -o -nouser ')' 2>/dev/null | wc -l",
		"planted shells":       "find /tmp /var/tmp /dev/shm /home /var/lib -perm -4000 -type f 2>/dev/null | wc -l",
		"folders":              "ls -d /tmp/of-tenant /var/tmp/of-tenant /dev/shm/of-tenant 2>/dev/null | wc -l",
		"jobs": "ls /var/spool/cron/crontabs/" + user + " /var/lib/systemd/linger/" + user +
			" 2>/dev/null | wc -l",
		"accounts": "getent passwd " + user + " | wc -l",
	}
}

// leavesOverSSH has a tenant leave things behind that it made over SSH, give the node
// back, and looks at the machine: all of it is gone.
func (p *plane) leavesOverSSH(t *testing.T, r rack.Rack, m tenant, node string, run func(string) string) {
	t.Helper()
	rented, over := m.logsIn(t, p, r, node, "user")
	over.do(t, traces)
	// The image has neither crontab(1) nor polkit: what they would do for the tenant, root does.
	table := "/var/spool/cron/crontabs/" + over.user
	run("mkdir -p /var/spool/cron/crontabs && echo '* * * * * touch /tmp/of-tenant/again' > " + table +
		" && chown " + over.user + " " + table + " && loginctl enable-linger " + over.user)
	for what, line := range seen(over.user) {
		if got := run(line); got == "0" {
			t.Errorf("the tenant left no %s: the test proves nothing", what)
		}
	}
	m.release(t, rented.AllocationID)
	m.becomes(t, rented.AllocationID, "released")
	gone := seen(over.user)
	gone["files of the account"] = "find / -xdev -nouser 2>/dev/null | wc -l" // its name is gone, too
	for what, line := range gone {
		if got := run(line); got != "0" {
			t.Errorf("%s %s are left after the release", got, what)
		}
	}
	if out, err := over.try(t, "id"); err == nil {
		t.Errorf("the tenant still logs in: %s", out)
	}
}

// knowsWhatIsProven has the next tenant read what it is told about the node.
func (p *plane) knowsWhatIsProven(t *testing.T, r rack.Rack, m tenant, node string) {
	t.Helper()
	rented, over := m.logsIn(t, p, r, node, "user")
	if got := over.do(t, "ls -A ~ /tmp /var/tmp /dev/shm | grep -c of-tenant || true"); got != "0" {
		t.Errorf("the next tenant finds %s things of the one before", got)
	}
	var papers struct {
		Items []struct {
			Moment        string
			CertificateID string `json:"certificate_id"`
		}
	}
	m.do(t, http.MethodGet, m.path+"/"+rented.AllocationID+"/receipts", nil, http.StatusOK, &papers)
	if len(papers.Items) != 1 || papers.Items[0].Moment != "handover" {
		t.Fatalf("at the handover there are %+v", papers.Items)
	}
	file := filepath.Join(t.TempDir(), "handover.json")
	m.download(t, m.path+"/"+rented.AllocationID+"/receipts/"+papers.Items[0].CertificateID, file)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{`"mode":"soft_reset"`, `"kind":"processes","result":"clean"`, `"not_covered"`, "the system disk"} {
		if !strings.Contains(string(raw), says) {
			t.Errorf("the receipt does not say %q:\n%s", says, raw)
		}
	}
	m.release(t, rented.AllocationID)
	m.becomes(t, rented.AllocationID, "released")
	p.checkReceipts(t, m, rented)
}

// settlesFirstBoot leaves on the machine what a power cut in the middle of its first
// boot leaves, and sees the agent clean up at its next start.
func settlesFirstBoot(t *testing.T, run func(string) string) {
	t.Helper()
	folder, layer := agentwire.FirstBootFolder, agentwire.FirstBootAgentLayer
	record := run("ls " + folder + "/*-" + layer + ".json")
	left := strings.TrimSuffix(folder+"/layers/"+filepath.Base(record), ".json")
	run("mkdir -p " + left + " " + agentwire.FirstBootCredentials)
	run("echo 'Authorization: Bearer planted-token' | tee " + left + "/file-2 > " + agentwire.FirstBootCredentials +
		"/authorization")
	run(`sed -i 's/"state":"succeeded"/"state":"failed"/' ` + record + ` && grep '"state":"failed"' ` + record)
	run("systemctl restart gpuaas-node-agent")
	testkit.Eventually(t, "the agent removes the layer", func() bool {
		return run("test -e "+left+" && echo there || echo gone") == "gone"
	})
	for line, want := range map[string]string{
		"test -e " + agentwire.FirstBootCredentials + " && echo there || echo gone": "gone",
		`grep -c '"state":"succeeded"' ` + record:                                   "1",
		"grep -rlF planted-token /etc /var/lib /run 2>/dev/null | wc -l":            "0",
	} {
		if got := run(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
