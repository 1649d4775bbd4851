// Package config reads the settings of the agent from its environment file and
// knows where its files are on the machine.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Paths, as seen from the host root.
const (
	EnvFile      = "/etc/gpuaas/agent.env"
	CAFile       = "/etc/gpuaas/control-plane-ca.pem"
	NodeCAFile   = "/etc/gpuaas/node-cert-ca-bundle.crt"
	StateFolder  = "/var/lib/gpuaas"
	identity     = "identity"
	journal      = "journal"
	verifiers    = "verifiers.json"
	statusFile   = "status.json"
	drainMarker  = "drain.json"
	lockFile     = "agent.lock"
	maxEnvFile   = 64 << 10
	installIDFor = "install-id"
)

// Config is what an agent must know before it can talk to anybody.
type Config struct {
	// Root is the folder that stands for / on this machine.
	Root string
	// API is where the control plane listens for nodes.
	API *url.URL
	// Terminal is where terminal sessions may be dialled. The default is API.
	Terminal *url.URL
	// NodeID is the node that this machine shall be. If it is empty, only the
	// certificate says so.
	NodeID string
	// CABundle verifies the control plane; NodeCABundle is the issuer of node
	// certificates. They are two trust stores and never merged.
	CABundle, NodeCABundle string
	// LogLevel is debug, info, warn or error.
	LogLevel string
}

var nodeID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// settings lists what an environment file may hold. Others are refused, so that
// a misspelt one is noticed.
var settings = map[string]bool{
	"GPUAAS_API_URL": true, "GPUAAS_TERMINAL_API_URL": true, "GPUAAS_NODE_ID": true, "GPUAAS_CA_BUNDLE_PATH": true,
	"GPUAAS_NODE_CERT_CA_BUNDLE_PATH": true, "GPUAAS_ALLOW_IP_URL": true, "GPUAAS_LOG_LEVEL": true,
}

// Load reads and checks the settings. path is used as it is; empty means the
// usual place below the host root.
func Load(root, path string) (Config, error) {
	root = cleanRoot(root)
	if path == "" {
		path = filepath.Join(root, EnvFile)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("read settings: %s does not exist: run the bootstrap command of this node, or name the "+
			"file with --config", path)
	}
	if err != nil {
		return Config{}, fmt.Errorf("read settings: %w", err)
	}
	defer f.Close()
	values, err := parse(f)
	if err != nil {
		return Config{}, fmt.Errorf("read settings %s: %w", path, err)
	}
	c, err := fromValues(root, values)
	if err != nil {
		return Config{}, fmt.Errorf("check settings %s: %w", path, err)
	}
	return c, nil
}

func cleanRoot(root string) string {
	if root == "" {
		return "/"
	}
	return filepath.Clean(root)
}

func fromValues(root string, v map[string]string) (Config, error) {
	c := Config{Root: root, NodeID: v["GPUAAS_NODE_ID"], LogLevel: v["GPUAAS_LOG_LEVEL"]}
	allowIP := false
	if s := v["GPUAAS_ALLOW_IP_URL"]; s != "" {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return Config{}, fmt.Errorf("GPUAAS_ALLOW_IP_URL must be true or false, not %q", s)
		}
		allowIP = b
	}
	var err error
	if c.API, err = address("GPUAAS_API_URL", v["GPUAAS_API_URL"], allowIP); err != nil {
		return Config{}, err
	}
	c.Terminal = c.API
	if s := v["GPUAAS_TERMINAL_API_URL"]; s != "" {
		if c.Terminal, err = address("GPUAAS_TERMINAL_API_URL", s, allowIP); err != nil {
			return Config{}, err
		}
	}
	if c.NodeID != "" && !nodeID.MatchString(c.NodeID) {
		return Config{}, fmt.Errorf("GPUAAS_NODE_ID %q is not the id of a node", c.NodeID)
	}
	switch c.LogLevel {
	case "":
		c.LogLevel = "info"
	case "debug", "info", "warn", "error":
	default:
		return Config{}, fmt.Errorf("GPUAAS_LOG_LEVEL must be debug, info, warn or error, not %q", c.LogLevel)
	}
	if c.CABundle, err = c.file("GPUAAS_CA_BUNDLE_PATH", v["GPUAAS_CA_BUNDLE_PATH"], CAFile); err != nil {
		return Config{}, err
	}
	if c.NodeCABundle, err = c.file("GPUAAS_NODE_CERT_CA_BUNDLE_PATH", v["GPUAAS_NODE_CERT_CA_BUNDLE_PATH"],
		NodeCAFile); err != nil {
		return Config{}, err
	}
	if c.CABundle == c.NodeCABundle {
		return Config{}, fmt.Errorf("GPUAAS_CA_BUNDLE_PATH and GPUAAS_NODE_CERT_CA_BUNDLE_PATH both name %s: what verifies "+
			"the control plane and what issues node certificates are two trust stores", c.CABundle)
	}
	return c, nil
}

// address refuses IP literals unless they are allowed: behind an ingress that
// routes by name, an IP address reaches the wrong service.
func address(name, s string, allowIP bool) (*url.URL, error) {
	if s == "" {
		return nil, fmt.Errorf("%s is missing", name)
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("%s %q must be https://host or https://host:port, and nothing else", name, s)
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil && !allowIP {
		return nil, fmt.Errorf("%s %q names an IP address: use the host name of the control plane, or set "+
			"GPUAAS_ALLOW_IP_URL=true if nodes really reach it by address", name, s)
	}
	u.Path = ""
	return u, nil
}

func (c Config) file(name, value, usual string) (string, error) {
	if value == "" {
		value = usual
	}
	if !filepath.IsAbs(value) || filepath.Clean(value) != value {
		return "", fmt.Errorf("%s %q must be a clean absolute path", name, value)
	}
	return c.Path(value), nil
}

// Path puts an absolute path of the machine below the host root.
func (c Config) Path(p string) string { return filepath.Join(c.Root, p) }

// State is the folder in which the agent keeps everything.
func (c Config) State() string { return c.Path(StateFolder) }

// Identity is the folder of the key and the certificate.
func (c Config) Identity() string { return filepath.Join(c.State(), identity) }

// Journal is the folder of the task journal.
func (c Config) Journal() string { return filepath.Join(c.State(), journal) }

// Verifiers is the file of the verifier set in use.
func (c Config) Verifiers() string { return filepath.Join(c.State(), verifiers) }

// Status is the file in which a running agent reports its state.
func (c Config) Status() string { return filepath.Join(c.State(), statusFile) }

// DrainMarker exists while the node is drained.
func (c Config) DrainMarker() string { return filepath.Join(c.State(), drainMarker) }

// Lock is held by the one agent that may use the state.
func (c Config) Lock() string { return filepath.Join(c.State(), lockFile) }

// InstallID is a random value that the first enrolment makes.
func (c Config) InstallID() string { return filepath.Join(c.Identity(), installIDFor) }
