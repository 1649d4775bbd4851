package controlplane

import (
	"crypto/ed25519"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"time"

	"gpuaas/controlplane/internal/fleet/agentrelease"
)

// NodesConfig is how agents on nodes reach this process, and what they are
// given.
type NodesConfig struct {
	Listen          string        `koanf:"listen" doc:"address of the node-facing listener (TLS, client certificates), served by role api; empty: none here"`
	URL             string        `koanf:"url" doc:"https address at which nodes reach the node-facing listeners; it stands in bootstrap commands"`
	TerminalURL     string        `koanf:"terminal_url" doc:"https address at which nodes reach this very replica for terminals; empty: nodes.url"`
	TLS             NodesTLS      `koanf:"tls"`
	TrustDomain     string        `koanf:"trust_domain" doc:"domain in the identity of node certificates: spiffe://<trust domain>/node/<id>; it cannot be changed while nodes are enrolled"`
	FormerCAFile    string        `koanf:"former_ca_file" doc:"CAs that issued node certificates before the present one and are still believed; name the old one here before you replace it"`
	EnvironmentName string        `koanf:"environment_name" doc:"what this installation is called in the trust bundle of its nodes"`
	OfflineAfter    time.Duration `koanf:"offline_after" doc:"how long an agent may be silent before its node is offline; agents are silent for up to 55s between two polls"`
	AgentFolder     string        `koanf:"agent_folder" doc:"folder with one folder per agent version, holding gpuaas-agent and gpuaas-gpu; empty: no agent can be bootstrapped or updated"`
	AgentVersion    string        `koanf:"agent_version" doc:"agent version that nodes are bootstrapped with; empty: the only one in nodes.agent_folder"`
	ReleaseKeys     []string      `koanf:"release_keys" doc:"public halves of the Ed25519 keys whose releases of the agent are believed, in base64; the private halves stay with whoever builds releases"`
	NewcomerRate    int           `koanf:"newcomer_rate" doc:"bootstrap and enrolment requests a second from one address; ten seconds' worth may come at once"`
	CertificateTTL  time.Duration `koanf:"certificate_ttl" doc:"life of a node certificate, 24h at most"`
	BundleFolder    string        `koanf:"bundle_folder" doc:"folder of the version before with bootstrap bundles, as NAME/VERSION: the first worker that starts gives them to the sites of then; upload others with gpuaas site bundle upload"`
	WithoutGPUs     bool          `koanf:"without_gpus" doc:"hand machines out to tenants on whose bus there is no GPU, although their SKU has some, and do not wait for the memory of GPUs to be cleaned on those that were added by hand: for virtual machines only"`
	SSHProxy        string        `koanf:"ssh_proxy" doc:"socks5://host:port through which freshly deployed machines are reached over SSH; empty: directly"`
}

// NodesTLS is the server certificate of the node-facing listener.
type NodesTLS struct {
	CertFile string   `koanf:"cert_file" doc:"certificate of the node-facing listener; empty: the secrets engine issues it"`
	KeyFile  string   `koanf:"key_file" doc:"its private key"`
	CAFile   string   `koanf:"ca_file" doc:"what nodes verify it with"`
	Names    []string `koanf:"names" doc:"further names or addresses of this replica for a certificate of the secrets engine"`
}

// defaultNodes has no listener: several processes of one machine would compete
// for its port.
func defaultNodes() NodesConfig {
	return NodesConfig{
		TrustDomain: "gpuaas.internal", EnvironmentName: "default",
		OfflineAfter: 5 * time.Minute, NewcomerRate: 50, CertificateTTL: 24 * time.Hour,
	}
}

var (
	trustDomain  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	hostName     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
	agentVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
)

const (
	minOfflineAfter   = 75 * time.Second // longer than a poll is held
	maxCertificateTTL = 24 * time.Hour
	minCertificateTTL = 5 * time.Minute
)

func (c NodesConfig) check(bad func(string, string, ...any)) {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil && c.Listen != "" {
		bad("nodes.listen", "%q is not host:port", c.Listen)
	}
	if c.Listen != "" && c.URL == "" {
		bad("nodes.url", "is missing, but nodes.listen is set: nodes must be told where to go")
	}
	for key, value := range map[string]string{"nodes.url": c.URL, "nodes.terminal_url": c.TerminalURL} {
		if value == "" {
			continue
		}
		badURL(bad, key, value, "https")
		if u, err := url.Parse(value); err == nil &&
			(u.Path != "" || u.RawQuery != "" || u.Fragment != "" || !isName(u.Hostname())) {
			bad(key, "must be https://host or https://host:port")
		}
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") || (c.TLS.CertFile == "") != (c.TLS.CAFile == "") {
		bad("nodes.tls", "cert_file, key_file and ca_file go together")
	}
	for _, n := range c.TLS.Names {
		if !isName(n) {
			bad("nodes.tls.names", "%q is neither a host name nor an address", n)
		}
	}
	if !trustDomain.MatchString(c.TrustDomain) {
		bad("nodes.trust_domain", "%q is not a domain in lower case", c.TrustDomain)
	}
	if !hostName.MatchString(c.EnvironmentName) {
		bad("nodes.environment_name", "%q is not a name of letters, digits, dots and dashes", c.EnvironmentName)
	}
	if c.OfflineAfter < minOfflineAfter {
		bad("nodes.offline_after", "%s is shorter than %s", c.OfflineAfter, minOfflineAfter)
	}
	if c.CertificateTTL < minCertificateTTL || c.CertificateTTL > maxCertificateTTL {
		bad("nodes.certificate_ttl", "%s is not between %s and %s", c.CertificateTTL, minCertificateTTL, maxCertificateTTL)
	}
	if c.NewcomerRate < 1 {
		bad("nodes.newcomer_rate", "%d is less than 1", c.NewcomerRate)
	}
	c.checkSSHProxy(bad)
	c.checkAgent(bad)
}

// checkSSHProxy allows no credentials, because settings are no place for
// secrets.
func (c NodesConfig) checkSSHProxy(bad func(string, string, ...any)) {
	if c.SSHProxy == "" {
		return
	}
	u, err := url.Parse(c.SSHProxy)
	switch {
	case err != nil || u.Scheme != "socks5" || u.Port() == "" || !isName(u.Hostname()) || u.Path != "" ||
		u.RawQuery != "" || u.Fragment != "":
		bad("nodes.ssh_proxy", "must be socks5://host:port")
	case u.User != nil:
		bad("nodes.ssh_proxy", "must not hold credentials")
	}
}

func (c NodesConfig) checkAgent(bad func(string, string, ...any)) {
	if _, err := agentrelease.ParseKeys(c.ReleaseKeys); err != nil {
		bad("nodes.release_keys", "%v", err)
	}
	if c.AgentVersion != "" && !agentVersion.MatchString(c.AgentVersion) {
		bad("nodes.agent_version", "%q is not a version", c.AgentVersion)
	}
	if c.AgentFolder == "" {
		return
	}
	if info, err := os.Stat(c.AgentFolder); err != nil {
		bad("nodes.agent_folder", "%v", err)
	} else if !info.IsDir() {
		bad("nodes.agent_folder", "%q is not a folder", c.AgentFolder)
	}
}

// releaseKeys are the keys of releases; what cannot be read was refused before.
func (c NodesConfig) releaseKeys() []ed25519.PublicKey {
	keys, _ := agentrelease.ParseKeys(c.ReleaseKeys)
	return keys
}

// isName accepts what can stand in a server certificate.
func isName(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return hostName.MatchString(s)
}
