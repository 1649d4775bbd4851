package steps

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

func TestHardwareSync(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	b.minted.Values = map[string]string{"consumer_key": "ck", "token_key": "tk", "token_secret": "ts"}
	p := agentwire.HWSyncParams{MAASURL: "http://maas.example:5240/MAAS/", SystemID: "abc123", Interval: "15m"}
	j := b.job(agentwire.TypeHWSyncReseed, p)
	j.mustCheck(false)
	j.applyFails("hw_sync_missing")
	b.Write("/lib/systemd/system/maas_hardware_sync.timer", "")
	b.mintErr = errors.New("no site")
	j.applyFails("machine_token_unavailable")
	b.mintErr = nil
	b.Fail("systemctl")
	j.applyFails("hw_sync_not_started")
	b.Heal("systemctl")
	j.cancelIn("systemctl")
	j.mustCheck(false)
	if out := j.apply().(agentwire.HWSyncOutput); !out.CredentialsWritten ||
		!slices.Equal(out.UnitsRestarted, []string{"maas_hardware_sync.timer"}) {
		t.Errorf("output %+v", out)
	}
	j.mustCheck(true)
	want := "reporting:\n  maas:\n    endpoint: \"http://maas.example:5240/MAAS/metadata/status/abc123\"\n    " +
		"consumer_key: \"ck\"\n    token_key: \"tk\"\n    token_secret: \"ts\"\n"
	if got := b.Read("/etc/maas/maas-machine-creds.yml"); got != want {
		t.Errorf("credentials\n%s", got)
	}
	if info, err := os.Stat(b.Path("/etc/maas/maas-machine-creds.yml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	calls := b.Calls()
	if got := calls[len(calls)-3:]; !slices.Equal(got,
		[]string{
			"systemctl daemon-reload", "systemctl enable maas_hardware_sync.timer",
			"systemctl restart maas_hardware_sync.timer",
		}) {
		t.Errorf("calls %q", got)
	}
	for _, line := range append(calls, j.steps.lines...) {
		if strings.Contains(line, "ts") && strings.Contains(line, "token") {
			t.Errorf("the secret is told: %s", line)
		}
	}
	b.minted.Values["token_secret"] = "a\nb"
	b.job(agentwire.TypeHWSyncReseed, p).applyFails("machine_token_unusable")
}

// A machine that looks at a pin gets the one of the program that MAAS has now.
func TestThePinOfHardwareSyncIsRenewed(t *testing.T) {
	const pin, looks = "/etc/maas/maas-run-scripts.sha256", "/etc/systemd/system/maas_hardware_sync.service.d/gpuaas.conf"
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	b.Write("/lib/systemd/system/maas_hardware_sync.timer", "")
	b.Write(pin, "another\n")
	digest := strings.Repeat("ab", 32)
	b.minted.Values = map[string]string{"consumer_key": "ck", "token_key": "tk", "token_secret": "ts"}
	p := agentwire.HWSyncParams{
		MAASURL: "http://maas.example:5240/MAAS/", SystemID: "abc123", Interval: "15m",
		RunScripts: digest,
	}
	b.job(agentwire.TypeHWSyncReseed, p).apply()
	if got := b.Read(pin); got != digest+"  /usr/bin/maas-run-scripts.new\n" {
		t.Errorf("pin %q", got)
	}
	// An older agent left the checkpoint and no pin: it is not done yet.
	j := b.job(agentwire.TypeHWSyncReseed, p)
	if err := j.steps.Checkpoint(reseeded, "maas_hardware_sync.timer"); err != nil {
		t.Fatal(err)
	}
	j.mustCheck(true)
	b.Write(pin, "another\n")
	j.mustCheck(false)
	if b.Exists(looks) {
		t.Error("the unit of a first boot that pins is overruled")
	}
}

// A machine that was deployed before programs were pinned runs as root whatever
// plain HTTP brings, until a task names the program.
func TestAttackAMachineOfBeforeRunsWhatPlainHTTPBrings(t *testing.T) {
	const pin, looks = "/etc/maas/maas-run-scripts.sha256", "/etc/systemd/system/maas_hardware_sync.service.d/gpuaas.conf"
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	b.Write("/lib/systemd/system/maas_hardware_sync.timer", "")
	b.minted.Values = map[string]string{"consumer_key": "ck", "token_key": "tk", "token_secret": "ts"}
	p := agentwire.HWSyncParams{MAASURL: "http://maas.example:5240/MAAS/", SystemID: "abc123", Interval: "15m"}
	if out := b.job(agentwire.TypeHWSyncReseed, p).apply().(agentwire.HWSyncOutput); out.Pinned || b.Exists(pin) ||
		b.Exists(looks) {
		t.Errorf("without a digest: %+v", out)
	}
	for _, digest := range []string{strings.Repeat("ab", 32), strings.Repeat("cd", 32)} {
		p.RunScripts = digest
		j := b.job(agentwire.TypeHWSyncReseed, p)
		if out := j.apply().(agentwire.HWSyncOutput); !out.Pinned {
			t.Errorf("output %+v", out)
		}
		if got := b.Read(pin); got != digest+"  /usr/bin/maas-run-scripts.new\n" {
			t.Errorf("pin %q", got)
		}
		unit := b.Read(looks)
		reset, check, run := strings.Index(unit, "ExecStartPre=\n"),
			strings.Index(unit, "sha256sum --check --strict --quiet "+pin), strings.Index(unit, "\nExecStart=\n")
		if reset < 0 || check < reset || run < check ||
			!strings.Contains(unit, " http://maas.example:5240/MAAS/maas-run-scripts\n") {
			t.Errorf("the program is run unchecked:\n%s", unit)
		}
		entries, err := j.handler.(task.Amender).Amends(t.Context(), j.task)
		if err != nil || !slices.ContainsFunc(entries, func(e agentwire.Entry) bool { return e.Name == looks }) {
			t.Errorf("the baseline hears of %+v, %v", entries, err)
		}
		if err := (agentwire.Amendment{Entries: entries}).Validate(agentwire.TypeHWSyncReseed); err != nil {
			t.Error(err)
		}
	}
	p.MAASURL = "http://maas.example:5240/MA%20AS/"
	b.job(agentwire.TypeHWSyncReseed, p).applyFails("maas_url_unusable")
}

// A task tells of what it wrote, and not of what somebody else put in its place.
func TestAttackATaskSignsNoSettingsThatItDidNotWrite(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	b.Write("/lib/systemd/system/maas_hardware_sync.timer", "")
	b.minted.Values = map[string]string{"consumer_key": "ck", "token_key": "tk", "token_secret": "ts"}
	planted := "/etc/systemd/system/maas_hardware_sync.service.d/gpuaas.conf"
	b.Write(planted, "[Service]\nExecStartPre=/x\n")
	j := b.job(agentwire.TypeHWSyncReseed, agentwire.HWSyncParams{
		MAASURL: "http://maas.example", SystemID: "abc123", Interval: "15m",
	})
	j.apply()
	told := func() []agentwire.Entry {
		entries, err := j.handler.(task.Amender).Amends(t.Context(), j.task)
		if err != nil {
			t.Fatal(err)
		}
		return entries
	}
	before := told()
	if slices.ContainsFunc(before, func(e agentwire.Entry) bool { return e.Name == planted }) || len(before) == 0 {
		t.Errorf("it tells of %+v", before)
	}
	b.Write(before[0].Name, "[Timer]\nUnit=x.service\n")
	if after := told(); !slices.Equal(before, after) {
		t.Errorf("it tells of what was changed since: %+v", after)
	}
}

// Whoever holds the key of the listener answers what a node asks for, and signs no
// task: it must not say which program root is to run.
func TestAttackAStolenListenerKeyChoosesNoProgramOfRoot(t *testing.T) {
	const pin = "/etc/maas/maas-run-scripts.sha256"
	signed, forged := strings.Repeat("ab", 32), strings.Repeat("66", 32)
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	b.Write("/lib/systemd/system/maas_hardware_sync.timer", "")
	b.minted.Values = map[string]string{
		"consumer_key": "ck", "token_key": "tk", "token_secret": "ts",
		"run_scripts_sha256": forged,
	}
	for _, p := range []agentwire.HWSyncParams{
		{MAASURL: "http://maas.example:5240/MAAS/", SystemID: "abc123", Interval: "15m"},
		{MAASURL: "http://maas.example:5240/MAAS/", SystemID: "abc123", Interval: "15m", RunScripts: signed},
	} {
		b.Write(pin, signed+"  /usr/bin/maas-run-scripts.new\n")
		b.job(agentwire.TypeHWSyncReseed, p).apply()
		if got := b.Read(pin); !strings.HasPrefix(got, signed) {
			t.Errorf("root runs the program of whoever answered: %q", got)
		}
	}
}
