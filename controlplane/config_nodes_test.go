package controlplane_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane"
)

func loadNodes(t *testing.T, settings ...string) (controlplane.NodesConfig, string) {
	t.Helper()
	env := slices.Clone(valid(t))
	for _, s := range settings {
		env = append(env, "GPUAAS_NODES_"+s)
	}
	cfg, problems := controlplane.Load(controlplane.Defaults(), "", env, nil)
	var all strings.Builder
	for _, p := range problems {
		all.WriteString(p.Error() + "\n")
	}
	return cfg.Nodes, all.String()
}

func TestNodesAreNotListenedToUnlessAskedFor(t *testing.T) {
	cfg, problems := loadNodes(t)
	if problems != "" || cfg.Listen != "" || cfg.URL != "" {
		t.Errorf("%+v %s", cfg, problems)
	}
	if cfg.TrustDomain == "" || cfg.OfflineAfter != 5*time.Minute || cfg.CertificateTTL != 24*time.Hour {
		t.Errorf("%+v", cfg)
	}
}

func TestNodesSettings(t *testing.T) {
	folder := t.TempDir()
	cfg, problems := loadNodes(t, "LISTEN=0.0.0.0:8444", "URL=https://10.0.0.5:8444", "TRUST_DOMAIN=prod.example.com",
		"OFFLINE_AFTER=90s",
		"AGENT_FOLDER="+folder, "AGENT_VERSION=1.2.3+abc", "CERTIFICATE_TTL=1h", "TLS_NAMES=gw-1.example.com,10.0.0.6",
		"SSH_PROXY=socks5://bastion.example.com:1080")
	if problems != "" {
		t.Fatal(problems)
	}
	if cfg.URL != "https://10.0.0.5:8444" || cfg.OfflineAfter != 90*time.Second || len(cfg.TLS.Names) != 2 ||
		cfg.AgentFolder != folder ||
		cfg.SSHProxy != "socks5://bastion.example.com:1080" {
		t.Errorf("%+v", cfg)
	}
}

func TestNodesSettingsThatCannotWork(t *testing.T) {
	file := writeFile(t, "f", "x")
	for setting, want := range map[string]string{
		"LISTEN=here":                          `nodes.listen: "here" is not host:port`,
		"LISTEN=0.0.0.0:8444":                  "nodes.url: is missing, but nodes.listen is set",
		"URL=http://plain.example.com":         "nodes.url",
		"URL=https://u:canary@h.example.com":   "nodes.url: must not hold credentials",
		"URL=https://h.example.com/path":       "nodes.url: must be https://host or https://host:port",
		"URL=https://h.example.com?x=1":        "nodes.url: must be https://host or https://host:port",
		"URL=https://h$(reboot).example.com":   "nodes.url",
		"TERMINAL_URL=wss://h.example.com":     "nodes.terminal_url",
		"TLS_CERT_FILE=" + file:                "nodes.tls: cert_file, key_file and ca_file go together",
		"TLS_NAMES=not/a/name":                 "nodes.tls.names",
		"TRUST_DOMAIN=Upper.Case":              "nodes.trust_domain",
		"TRUST_DOMAIN=spiffe://x":              "nodes.trust_domain",
		"ENVIRONMENT_NAME=two words":           "nodes.environment_name",
		"OFFLINE_AFTER=1s":                     "nodes.offline_after",
		"CERTIFICATE_TTL=48h":                  "nodes.certificate_ttl",
		"SSH_PROXY=http://h.example.com:1080":  "nodes.ssh_proxy: must be socks5://host:port",
		"SSH_PROXY=socks5://h.example.com":     "nodes.ssh_proxy: must be socks5://host:port",
		"SSH_PROXY=socks5://u:canary@h:1080":   "nodes.ssh_proxy: must not hold credentials",
		"SSH_PROXY=socks5://h:1080/path":       "nodes.ssh_proxy: must be socks5://host:port",
		"SSH_PROXY=socks5://h:canary-port":     "nodes.ssh_proxy: must be socks5://host:port",
		"CERTIFICATE_TTL=1m":                   "nodes.certificate_ttl",
		"AGENT_VERSION=../../etc":              "nodes.agent_version",
		"AGENT_FOLDER=" + file:                 "is not a folder",
		"AGENT_FOLDER=" + file + "-that-is-no": "nodes.agent_folder",
	} {
		if _, problems := loadNodes(t, setting); !strings.Contains(problems, want) || strings.Contains(problems, "canary") {
			t.Errorf("%s: %q is missing in: %s", setting, want, problems)
		}
	}
}
