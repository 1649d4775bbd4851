package controlplane_test

import (
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane"
)

func check(t *testing.T, env ...string) (controlplane.Config, string) {
	t.Helper()
	cfg, problems := controlplane.Load(controlplane.Defaults(), "", slices.Concat(valid(t), env), nil)
	var all strings.Builder
	for _, p := range problems {
		all.WriteString(p.Error() + "\n")
	}
	return cfg, all.String()
}

// Somebody on the network reads or changes traffic between the control plane
// and its engines, or between people and the control plane: a configuration
// that sends it in the clear does not start.
func TestAttackPlainTrafficIsReadOnTheWay(t *testing.T) {
	for _, c := range []struct{ allow, key, setting string }{
		{"listen", "listen", "LISTEN=0.0.0.0:8080"},
		{"listen", "listen", "LISTEN=:8080"},
		{"listen", "listen", "LISTEN=[::]:8080"},
		{"listen", "listen", "LISTEN=10.0.0.1:8080"},
		{"listen", "listen", "LISTEN=console.localhost:8080"},
		{"postgres", "postgres.url", "POSTGRES_URL=postgres://u:canary@db/gpuaas"},
		{"postgres", "postgres.url", "POSTGRES_URL=postgres://u:canary@db/gpuaas?sslmode=disable"},
		{"postgres", "postgres.url", "POSTGRES_URL=postgres://u:canary@db/gpuaas?sslmode=allow"},
		{"postgres", "postgres.url", "POSTGRES_URL=postgres://u:canary@db/gpuaas?sslmode=prefer"},
		{"postgres", "postgres.url", "POSTGRES_URL=postgres://u:canary@db/gpuaas?sslmode=require"},
		{"postgres", "postgres.url", "POSTGRES_URL=postgres://u:canary@db/gpuaas?sslmode=verify-ca"},
		{"postgres", "postgres.url", "POSTGRES_URL=postgres://u:canary@127.0.0.1,db/gpuaas?sslmode=disable"},
		{"postgres", "postgres.url", "POSTGRES_URL=host=db user=u password=canary dbname=gpuaas sslmode=require"},
		{"postgres", "postgres.migrate_url", "POSTGRES_MIGRATE_URL=postgres://u:canary@db/gpuaas?sslmode=require"},
		{"temporal", "temporal.address", "TEMPORAL_SERVER_NAME="},
		{"nats", "nats.url", "NATS_URL=nats://nats:4222"},
		{"nats", "nats.url", "NATS_URL=tls://one:4222,nats://two:4222"},
		{"secrets", "secrets.address", "SECRETS_ADDRESS=http://bao:8200"},
	} {
		_, said := check(t, "GPUAAS_"+c.setting)
		if !strings.Contains(said, c.key+": ") || !strings.Contains(said, "setting insecure") ||
			strings.Contains(said, "canary") {
			t.Errorf("%s is answered %q, want %s refused", c.setting, said, c.key)
		}
		for _, other := range []string{"listen", "postgres", "temporal", "nats", "secrets"} {
			if _, said := check(t, "GPUAAS_"+c.setting, "GPUAAS_INSECURE="+other); (said == "") != (other == c.allow) {
				t.Errorf("%s with insecure %s is answered %q", c.setting, other, said)
			}
		}
		cfg, _ := check(t, "GPUAAS_"+c.setting, "GPUAAS_INSECURE="+c.allow)
		if warned := strings.Join(cfg.Warnings(), "\n"); !strings.Contains(warned, c.key+": allowed as insecure") {
			t.Errorf("%s: allowed without a warning: %q", c.setting, warned)
		}
	}
	if _, said := check(t, "GPUAAS_INSECURE=everything"); !strings.Contains(said, `insecure: "everything" is not one of`) {
		t.Error(said)
	}
}

func TestWhatStaysOnThisMachineNeedsNoTLS(t *testing.T) {
	for _, setting := range []string{
		"LISTEN=127.0.0.1:8080", "LISTEN=[::1]:8080", "LISTEN=localhost:8080",
		"POSTGRES_URL=postgres://u:canary@127.0.0.1/gpuaas?sslmode=disable",
		"POSTGRES_URL=postgres://u:canary@localhost/gpuaas",
		"POSTGRES_URL=postgres://u:canary@[::1]/gpuaas", "POSTGRES_URL=postgres:///gpuaas?host=/run/postgresql",
		"TEMPORAL_ADDRESS=127.0.0.1:7233", "TEMPORAL_ADDRESS=[::1]:7233",
		"NATS_URL=nats://127.0.0.1:4222,nats://localhost:4223", "SECRETS_ADDRESS=http://127.0.0.1:8200",
	} {
		cfg, said := check(t, "GPUAAS_TEMPORAL_SERVER_NAME=temporal", "GPUAAS_"+setting)
		if said != "" || strings.Contains(strings.Join(cfg.Warnings(), ""), "insecure") {
			t.Errorf("%s: %s %v", setting, said, cfg.Warnings())
		}
	}
	if _, said := check(t, "GPUAAS_POSTGRES_URL=postgres://u:canary@db/gpuaas?sslmode=verify-full&sslrootcert=/nonexistent"); !strings.Contains(said, "postgres.url: ") ||
		strings.Contains(said, "canary") {
		t.Error(said)
	}
}

func TestEachRoleHasItsOwnIdentity(t *testing.T) {
	credential := writeFile(t, "credential", "x")
	own := func(roles ...string) []string {
		var env []string
		for _, r := range roles {
			env = append(env, "GPUAAS_SECRETS_"+r+"_ROLE_ID_FILE="+credential, "GPUAAS_SECRETS_"+r+"_SECRET_ID_FILE="+credential)
		}
		return env
	}
	none := []string{"GPUAAS_SECRETS_ROLE_ID_FILE=", "GPUAAS_SECRETS_SECRET_ID_FILE="}
	listening := []string{"GPUAAS_NODES_LISTEN=:8444", "GPUAAS_NODES_URL=https://nodes.example"}
	for _, c := range []struct {
		roles string
		env   []string
		bad   string
		warn  bool
	}{
		{"api,worker,relay", nil, "", true},
		{"api,worker,relay", none, "secrets.worker: ", false},
		{"api,worker,relay", slices.Concat(none, own("API", "WORKER")), "", false},
		{"api", slices.Concat(none, own("API"), listening), "secrets.nodes: ", false},
		{"api", slices.Concat(none, own("API", "NODES"), listening), "", false},
		{"api", slices.Concat(own("API"), listening), "", true},
		{"relay", none, "", false},
		{"relay", nil, "", false},
		{"worker", slices.Concat(none, own("API")), "secrets.worker: ", false},
		{
			"worker",
			[]string{"GPUAAS_SECRETS_API_ROLE_ID_FILE=" + credential},
			"secrets.api: role_id_file and secret_id_file go together", true,
		},
	} {
		cfg, said := check(t, append(c.env, "GPUAAS_ROLES="+c.roles)...)
		if (said == "") != (c.bad == "") || !strings.Contains(said, c.bad) {
			t.Errorf("%s with %v: %q, want %q", c.roles, c.env, said, c.bad)
		}
		if warned := len(cfg.Warnings()) > 0; c.bad == "" && warned != c.warn {
			t.Errorf("%s with %v: warnings %v", c.roles, c.env, cfg.Warnings())
		}
	}
}

func TestSitesOnLoopbackAreNamedByAddressAndPort(t *testing.T) {
	if _, said := check(t, "GPUAAS_SITES_LOOPBACK=127.0.0.1:5240,[::1]:5240"); said != "" {
		t.Error(said)
	}
	for _, wrong := range []string{"127.0.0.1", "localhost:5240", "10.0.0.1:5240", "127.0.0.1:0", "127.0.0.0/8"} {
		if _, said := check(t, "GPUAAS_SITES_LOOPBACK="+wrong); !strings.Contains(said, "sites.loopback: ") {
			t.Errorf("%s is answered %q", wrong, said)
		}
	}
}
