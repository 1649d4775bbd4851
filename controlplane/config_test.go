package controlplane_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane"
)

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func valid(t *testing.T) []string {
	t.Helper()
	credential := writeFile(t, "credential", "x")
	return []string{
		"GPUAAS_POSTGRES_URL=postgres://u:canary@db/gpuaas?sslmode=verify-full", "GPUAAS_TEMPORAL_ADDRESS=temporal:7233",
		"GPUAAS_TEMPORAL_SERVER_NAME=temporal", "GPUAAS_NATS_URL=tls://nats:4222",
		"GPUAAS_SECRETS_ADDRESS=https://bao:8200", "GPUAAS_SECRETS_ROLE_ID_FILE=" + credential,
		"GPUAAS_SECRETS_SECRET_ID_FILE=" + credential,
	}
}

func TestLaterSourcesWin(t *testing.T) {
	file := writeFile(t, "c.yaml",
		"listen: 127.0.0.1:1\nlog: {format: text, level: debug}\nlimits: {burst: 7, request_timeout: 3s}\nroles: [api]\n")
	env := slices.Concat(valid(t), []string{
		"GPUAAS_LISTEN=127.0.0.1:2", "GPUAAS_LIMITS_BURST=8", "HOME=/x",
		"GPUAAS_TOKEN=belongs-to-the-cli",
	})
	cfg, problems := controlplane.Load(controlplane.Defaults(), file, env,
		map[string]string{"listen": "127.0.0.1:3", "roles": "worker,relay"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if cfg.Listen != "127.0.0.1:3" || cfg.Limits.Burst != 8 || cfg.Limits.RequestTimeout != 3*time.Second ||
		cfg.Log.Format != "text" ||
		cfg.Log.Level.String() != "DEBUG" || len(cfg.Roles) != 2 || cfg.Roles[1] != controlplane.RoleRelay ||
		cfg.Postgres.MaxConns != 20 {
		t.Errorf("%+v", cfg)
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	file := writeFile(t, "c.yaml",
		"listen: nonsense\nroles: [api, cook]\nlog: {format: xml}\ntypo: 1\npostgres: {max_conns: 1}\n")
	_, problems := controlplane.Load(controlplane.Defaults(), file,
		[]string{"GPUAAS_TYPO=1", "GPUAAS_NATS_URL=nats://u:p@host:1"}, nil)
	var all strings.Builder
	for _, p := range problems {
		all.WriteString(p.Error() + "\n")
	}
	for _, want := range []string{
		`listen: "nonsense" is not host:port`, `roles: "cook"`, `log.format: "xml"`, "typo: there is no such setting",
		"GPUAAS_TYPO: there is no such setting", "postgres.url: is missing", "temporal.address",
		"secrets.address: is missing",
		"secrets.api: role_id_file", "nats.url: must not hold credentials", "postgres.max_conns: is too small",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("missing %q in:\n%s", want, all.String())
		}
	}
}

func TestShowRedactsSecretsAndReadsBack(t *testing.T) {
	env := valid(t)
	cfg, problems := controlplane.Load(controlplane.Defaults(), "", env, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	shown := cfg.Show()
	if strings.Contains(shown, "canary") || !strings.Contains(shown, `url: "[redacted]"`) {
		t.Errorf("secret shown:\n%s", shown)
	}
	again, problems := controlplane.Load(controlplane.Defaults(), writeFile(t, "c.yaml", shown), env, nil)
	if len(problems) > 0 || again.Show() != shown {
		t.Errorf("what is shown cannot be read back: %v\n%s", problems, again.Show())
	}
}

func TestSecretsCanComeFromFiles(t *testing.T) {
	env := valid(t)
	env[0] = "GPUAAS_POSTGRES_URL_FILE=" + writeFile(t, "url", "postgres://u:p@127.0.0.1/x\n")
	cfg, problems := controlplane.Load(controlplane.Defaults(), "", env, nil)
	if len(problems) > 0 || cfg.Postgres.URL.Reveal() != "postgres://u:p@127.0.0.1/x" {
		t.Error(problems)
	}
}

func TestEverySettingIsExplainedAndHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range controlplane.Settings() {
		if s.Doc == "" || seen[s.Env()] || seen[s.Flag()] {
			t.Errorf("%s: no explanation, or its names %s, --%s are taken", s.Key, s.Env(), s.Flag())
		}
		seen[s.Env()], seen[s.Flag()] = true, true
	}
}

// A setting that is missing is not on another machine as well.
func TestASettingThatIsMissingIsReportedOnce(t *testing.T) {
	_, problems := controlplane.Load(controlplane.Defaults(), "", nil, nil)
	seen := map[string]int{}
	for _, p := range problems {
		key, _, _ := strings.Cut(p.Error(), ":")
		seen[key]++
	}
	for _, key := range []string{"nats.url", "secrets.address", "temporal.address", "postgres.url"} {
		if seen[key] != 1 {
			t.Errorf("%s has %d problems: %v", key, seen[key], problems)
		}
	}
}
