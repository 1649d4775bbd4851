package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return hwSync{h} }, agentwire.TypeHWSyncReseed)

// hwSync sets up hardware reports to MAAS. The file and the units are those
// that MAAS itself puts on a machine.
type hwSync struct{ host }

const (
	maasCredentials = "/etc/maas/maas-machine-creds.yml" //nolint:gosec // the name of a file
	syncTimer       = "maas_hardware_sync.timer"
	syncPin         = "/etc/maas/maas-run-scripts.sha256"
	timerSettings   = "/etc/systemd/system/" + syncTimer + ".d/gpuaas.conf"
	serviceSettings = "/etc/systemd/system/maas_hardware_sync.service.d/gpuaas.conf"
	syncProgram     = "/usr/bin/maas-run-scripts"
	reseeded        = "reseeded"
)

// syncUnits are started again. The timer is required; the agent of newer MAAS
// versions may be missing.
var syncUnits = []string{syncTimer, "maas-agent.service"}

var unitFolders = []string{
	"/etc/systemd/system/", "/run/systemd/system/", "/usr/lib/systemd/system/",
	"/lib/systemd/system/",
}

// Check implements task.Handler. The stored token cannot be compared with one
// that was not requested yet, so only the task's own work counts as done.
func (h hwSync) Check(_ context.Context, t *task.Task) (any, bool, error) {
	done := t.Reporter.Recall(reseeded)
	if done == "" {
		return nil, false, nil
	}
	p, err := params[agentwire.HWSyncParams](t)
	if err != nil {
		return nil, false, err
	}
	if p.RunScripts != "" { // the agent that did it may have been an older one, which does not pin
		if pinned, err := h.pinnedTo(p.RunScripts); err != nil || !pinned {
			return nil, false, err
		}
	}
	return agentwire.HWSyncOutput{
		CredentialsWritten: true, UnitsRestarted: strings.Fields(done),
		Pinned: p.RunScripts != "",
	}, true, nil
}

// pinnedTo says whether the machine has the digest, as pin writes it.
func (h hwSync) pinnedTo(digest string) (bool, error) {
	has, err := os.ReadFile(h.Host.Path(syncPin))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the pin of hardware sync: %w", err)
	}
	return string(has) == pinLine(digest), nil
}

func pinLine(digest string) string { return digest + "  " + syncProgram + ".new\n" }

// Apply implements task.Handler.
func (h hwSync) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.HWSyncParams](t)
	if err != nil {
		return nil, err
	}
	units := h.installed()
	if len(units) == 0 || units[0] != syncTimer {
		return nil, task.Fail("hw_sync_missing", syncTimer+" is not installed on this machine",
			"deploy the machine with hardware sync enabled: MAAS installs the unit then", nil)
	}
	if err := step(t, "credentials", func() (string, error) { return "", h.writeCredentials(ctx, t, p) }); err != nil {
		return nil, err
	}
	if err := step(t, "pin", func() (string, error) { return "", h.pin(p) }); err != nil {
		return nil, err
	}
	if err := step(t, "units", func() (string, error) {
		return strings.Join(units, " "),
			h.restart(ctx, p, units)
	}); err != nil {
		return nil, err
	}
	if err := t.Reporter.Checkpoint(reseeded, strings.Join(units, " ")); err != nil {
		return nil, fmt.Errorf("remember what was done: %w", err)
	}
	return agentwire.HWSyncOutput{CredentialsWritten: true, UnitsRestarted: units, Pinned: p.RunScripts != ""}, nil
}

func (h hwSync) installed() []string {
	var found []string
	for _, unit := range syncUnits {
		for _, folder := range unitFolders {
			if _, err := os.Stat(h.Host.Path(folder + unit)); err == nil {
				found = append(found, unit)
				break
			}
		}
	}
	return found
}

func (h hwSync) writeCredentials(ctx context.Context, t *task.Task, p *agentwire.HWSyncParams) error {
	token, err := t.Credentials.Mint(ctx, agentwire.CredentialMAASMachineToken, map[string]string{"system_id": p.SystemID})
	if err != nil {
		return task.Fail("machine_token_unavailable", "MAAS gave no token for machine "+p.SystemID,
			"look at the site of this node", err)
	}
	defer clear(token.Values)
	var text strings.Builder
	text.WriteString("reporting:\n  maas:\n")
	fmt.Fprintf(&text, "    endpoint: %s\n",
		strconv.Quote(strings.TrimRight(p.MAASURL, "/")+"/metadata/status/"+p.SystemID))
	for _, key := range []string{"consumer_key", "token_key", "token_secret"} {
		value := token.Values[key]
		if value == "" || !plain(value) {
			return task.Fail("machine_token_unusable", "the machine token has no usable "+key, "look at the site of this node",
				nil)
		}
		fmt.Fprintf(&text, "    %s: %s\n", key, strconv.Quote(value))
	}
	if err := atomicfile.Write(h.Host.Path(maasCredentials), []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write credentials of hardware sync: %w", err)
	}
	return nil
}

// pin says what the program that reports is known by from now on: MAAS may hand out
// another one since. A machine that was set up without a pin has nothing that looks
// at it, and gets a unit that does. The digest comes from the task, which is signed;
// answers of the listener are not.
func (h hwSync) pin(p *agentwire.HWSyncParams) error {
	if p.RunScripts == "" {
		return nil
	}
	pinned, err := h.there(syncPin)
	if err != nil {
		return err
	}
	ours, err := h.there(serviceSettings)
	if err != nil {
		return err
	}
	if !pinned || ours { // a first boot that pins has its own unit look at it
		if err := h.lookAtPin(p.MAASURL); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(h.Host.Path(syncPin), []byte(pinLine(p.RunScripts)), 0o644); err != nil {
		return fmt.Errorf("pin the program that reports hardware: %w", err)
	}
	return nil
}

func (h hwSync) there(path string) (bool, error) {
	_, err := os.Lstat(h.Host.Path(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("look for %s: %w", path, err)
	}
	return err == nil, nil
}

// lookAtPin has the service check the program before root runs it, as units of
// first boots do, whatever the unit said before.
func (h hwSync) lookAtPin(maasURL string) error {
	base := strings.TrimRight(maasURL, "/")
	if !plain(base) || strings.ContainsAny(base, " %\"'\\$;#?") {
		return task.Fail("maas_url_unusable", "the address of MAAS cannot stand in a unit of systemd",
			"correct the address of the site", nil)
	}
	if err := atomicfile.Write(h.Host.Path(serviceSettings), []byte(serviceText(maasURL)), 0o644); err != nil {
		return fmt.Errorf("have hardware sync check its program: %w", err)
	}
	return nil
}

// serviceText is what the task writes to serviceSettings.
func serviceText(maasURL string) string {
	base := strings.TrimRight(maasURL, "/")
	return "[Service]\nExecStartPre=\n" +
		"ExecStartPre=/usr/bin/curl -fsSL --retry 3 -o " + syncProgram + ".new " + base + "/maas-run-scripts\n" +
		"# Root runs it, so it must be what the control plane saw.\n" +
		"ExecStartPre=/usr/bin/sha256sum --check --strict --quiet " + syncPin + "\n" +
		"ExecStartPre=/usr/bin/install -m 0755 " + syncProgram + ".new " + syncProgram + "\n" +
		"ExecStart=\nExecStart=" + syncProgram + " report-results --config " + maasCredentials + "\n"
}

// timerText is what the task writes to timerSettings: it replaces the calendar of
// MAAS's own timer, and makes the first run come soon.
func timerText(interval string) string {
	return "[Timer]\nOnCalendar=\nOnActiveSec=30s\nOnUnitActiveSec=" + interval + "\n"
}

// plain says whether a value means the same in Go's quotes and in YAML's.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func (h hwSync) restart(ctx context.Context, p *agentwire.HWSyncParams, units []string) error {
	if err := atomicfile.Write(h.Host.Path(timerSettings), []byte(timerText(p.Interval)), 0o644); err != nil {
		return fmt.Errorf("set interval of hardware sync: %w", err)
	}
	calls := [][]string{{"daemon-reload"}}
	for _, unit := range units {
		calls = append(calls, []string{"enable", unit}, []string{"restart", unit})
	}
	for _, args := range calls {
		_, err := h.Host.Do(ctx, hostexec.Command{Program: "systemctl", Args: args})
		if errors.Is(err, hostexec.ErrNoProgram) {
			return task.Fail("systemd_missing", "this machine has no systemctl", "hardware sync needs systemd", err)
		}
		if err != nil {
			return task.Fail("hw_sync_not_started", "systemctl "+strings.Join(args, " ")+" failed",
				"look at the unit with systemctl status", err)
		}
	}
	return nil
}
