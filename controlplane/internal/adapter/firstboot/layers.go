package firstboot

import (
	"bytes"
	_ "embed" // scripts and units
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/redact"
)

// The layers that gpuaas owns, and their versions. The site bundle has the
// version that its owner gave it.
const (
	SiteBundleLayer     = "site-bundle"
	DeployUserLayer     = "deploy-user"
	HardwareSyncLayer   = "hardware-sync"
	DiskInitLayer       = "disk-init"
	RoCERoutingLayer    = "roce-routing"
	AgentBootstrapLayer = agentwire.FirstBootAgentLayer

	deployUserVersion     = "2"
	hardwareSyncVersion   = "3"
	diskInitVersion       = "1"
	roceRoutingVersion    = "1"
	agentBootstrapVersion = "1"
)

// MaxSiteBundle limits what one machine gets at its first boot.
const MaxSiteBundle = 1 << 20

// SiteBundle runs a program of the owners of the site, as root. They decide
// what it does. If it fails, the record on the machine says so, with its
// version.
func SiteBundle(program []byte, version string) (Layer, error) {
	switch {
	case len(program) > MaxSiteBundle:
		return Layer{}, invalid(SiteBundleLayer, "its program has %d bytes, more than %d", len(program), MaxSiteBundle)
	case !bytes.HasPrefix(program, []byte("#!/")) && !bytes.HasPrefix(program, []byte("\x7fELF")):
		return Layer{}, invalid(SiteBundleLayer,
			"its program cannot be executed").WithRemedy("begin a script with #!/bin/sh, or give an executable")
	}
	const path = scripts + "/site-bundle"
	return checked(Layer{
		Name: SiteBundleLayer, Version: version,
		Files:    []File{{path, 0o700, redact.New(string(program))}},
		Commands: [][]string{{path}},
	})
}

// SharedLoginVersion is the version of the deploy-user layer that gave machines
// the password of their site. First boots with it may still be under way.
const SharedLoginVersion = "1"

// DeployUser makes the account with which a machine is set up until it has an
// agent. The account may become root without a password, and logs in over SSH
// with a key for this machine alone; the machine has its own host key. The
// account is made even if the site bundle failed, so that somebody can look.
func DeployUser(name, loginKey string, host HostKey) (Layer, error) {
	if host.IsZero() {
		return Layer{}, invalid(DeployUserLayer,
			"the machine has no host key, so that whoever answers in its place would not be noticed")
	}
	return checked(Layer{
		Name: DeployUserLayer, Version: deployUserVersion,
		Users: []User{{Name: name, Keys: []string{loginKey}}}, HostKey: host, Rescue: true,
	})
}

var (
	//go:embed scripts/maas_hardware_sync.service
	syncServiceText string
	//go:embed scripts/maas_hardware_sync.timer
	syncTimerText string

	syncUnits = template.Must(template.Must(template.New(SyncService).Parse(syncServiceText)).New(SyncTimer).Parse(
		syncTimerText))
)

// Where MAAS itself puts hardware sync, and where the agent looks for it.
const (
	SyncCredentialsFile = "/etc/maas/maas-machine-creds.yml" //nolint:gosec // the name of a file
	SyncService         = "maas_hardware_sync.service"
	SyncTimer           = "maas_hardware_sync.timer"
	SyncPinFile         = "/etc/maas/maas-run-scripts.sha256" // digest of the program that reports

	syncProgram  = "/usr/bin/maas-run-scripts"
	syncCAFile   = "/etc/maas/gpuaas-maas-ca.pem"
	unitFolder   = "/lib/systemd/system/"
	syncSettings = "/etc/systemd/system/" + SyncTimer + ".d/gpuaas.conf"
)

// MachineToken is the token of one machine for its MAAS.
type MachineToken struct{ ConsumerKey, TokenKey, TokenSecret redact.Secret }

// SyncCredentials returns the content of SyncCredentialsFile: where a machine
// reports its hardware, and with which token. The agent writes the same.
func SyncCredentials(maasURL, systemID string, token MachineToken) (redact.Secret, error) {
	base, err := syncBase(maasURL, systemID, "15m")
	if err != nil {
		return redact.Secret{}, err
	}
	var text strings.Builder
	text.WriteString("reporting:\n  maas:\n")
	fmt.Fprintf(&text, "    endpoint: %s\n", strconv.Quote(base+"/metadata/status/"+systemID))
	for _, part := range []struct {
		name  string
		value redact.Secret
	}{{"consumer_key", token.ConsumerKey}, {"token_key", token.TokenKey}, {"token_secret", token.TokenSecret}} {
		// Such values mean the same in Go's quotes and in YAML's.
		if plain := part.value.Reveal(); plain == "" ||
			strings.ContainsFunc(plain, func(r rune) bool { return r < ' ' || r > '~' }) {
			return redact.Secret{}, invalid(HardwareSyncLayer, "the machine token has no usable %s", part.name)
		}
		fmt.Fprintf(&text, "    %s: %s\n", part.name, strconv.Quote(part.value.Reveal()))
	}
	return redact.New(text.String()), nil
}

// syncBase returns the address of MAAS in the form that units and credentials
// use.
func syncBase(maasURL, systemID, interval string) (string, error) {
	if err := (agentwire.HWSyncParams{MAASURL: maasURL, SystemID: systemID, Interval: interval}).Validate(); err != nil {
		return "", invalid(HardwareSyncLayer, "%s", err)
	}
	base := strings.TrimRight(maasURL, "/")
	if strings.ContainsFunc(base, func(r rune) bool {
		return r <= ' ' || r > '~' ||
			strings.ContainsRune(`%"'\$;#?`, r)
	}) {
		return "", invalid(HardwareSyncLayer, "the address of MAAS cannot stand in a unit of systemd")
	}
	return base, nil
}

// SyncSource is where a machine gets the program that reports its hardware.
// Root runs it, so something must vouch for it: the certificate of MAAS, or a
// digest.
type SyncSource struct {
	URL    string // of MAAS
	CA     string // PEM of the CA of MAAS; empty: the CAs that the machine trusts
	Digest string // SHA-256 of the program, in hex; empty: unknown
	// Plain says that somebody decided to run whatever plain HTTP brings.
	Plain bool
}

var syncDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check refuses a source that nothing vouches for.
func (s SyncSource) check() error {
	switch {
	case s.Digest != "" && !syncDigest.MatchString(s.Digest):
		return invalid(HardwareSyncLayer, "the digest of the program that reports is no SHA-256")
	case !strings.HasPrefix(s.URL, "https://") && s.Digest == "" && !s.Plain:
		return invalid(HardwareSyncLayer, "root would run what plain HTTP brings, and nobody has decided that").
			WithRemedy("use https for MAAS, or pin the program")
	}
	return nil
}

// files are the files by which the machine checks the source.
func (s SyncSource) files() []File {
	var out []File
	if s.CA != "" {
		out = append(out, File{syncCAFile, 0o644, redact.New(s.CA)})
	}
	if s.Digest != "" {
		out = append(out, File{SyncPinFile, 0o644, redact.New(s.Digest + "  " + syncProgram + ".new\n")})
	}
	return out
}

// HardwareSync makes the machine report its hardware to MAAS at an interval
// such as 15m. It writes the same files as the agent when it sets sync up
// again.
//
// The credentials are not among them: MAAS makes the token of a machine when it
// deploys the machine, after the first boot was written. The service waits for them.
func HardwareSync(source SyncSource, systemID, interval string) (Layer, error) {
	base, err := syncBase(source.URL, systemID, interval)
	if err == nil {
		err = source.check()
	}
	if err != nil {
		return Layer{}, err
	}
	l := Layer{
		Name: HardwareSyncLayer, Version: hardwareSyncVersion,
		Files: append(source.files(),
			File{syncSettings, 0o644, redact.New("[Timer]\nOnCalendar=\nOnActiveSec=30s\nOnUnitActiveSec=" + interval + "\n")}),
		Commands: [][]string{
			{"systemctl", "daemon-reload"},
			{"systemctl", "enable", SyncTimer},
			{"systemctl", "restart", SyncTimer},
		},
	}
	values := map[string]any{
		"URL": base, "Interval": interval, "Credentials": SyncCredentialsFile, "Program": syncProgram,
		"TLS": strings.HasPrefix(base, "https://"), "CA": "", "Pin": "",
	}
	if source.CA != "" {
		values["CA"] = syncCAFile
	}
	if source.Digest != "" {
		values["Pin"] = SyncPinFile
	}
	for _, unit := range []string{SyncService, SyncTimer} {
		var text strings.Builder
		if err := syncUnits.ExecuteTemplate(&text, unit, values); err != nil {
			return Layer{}, fmt.Errorf("render unit of hardware sync: %w", err)
		}
		l.Files = append(l.Files, File{unitFolder + unit, 0o644, redact.New(text.String())})
	}
	return checked(l)
}

//go:embed scripts/disk-init.sh
var diskScript string

// DiskSpec says what may be done to the disks of a machine.
type DiskSpec struct {
	// Destroy must be set by somebody who knows that disks will be formatted.
	Destroy bool
	// Reformat also formats disks that hold data: partitions, file systems,
	// shares of an earlier installation.
	Reformat   bool
	Filesystem string // ext4 or xfs
}

// DiskInit formats all disks except the root disk and mounts them as /share1,
// /share2 and so on. It DESTROYS DATA, and does nothing by default.
func DiskInit(spec DiskSpec) (Layer, error) {
	if !spec.Destroy {
		return Layer{}, invalid(DiskInitLayer, "it formats disks, and nobody has said that this is meant").
			WithRemedy("leave the layer out, or say destroy")
	}
	if spec.Filesystem != "ext4" && spec.Filesystem != "xfs" {
		return Layer{}, invalid(DiskInitLayer, "%q is no file system for shares",
			spec.Filesystem).WithRemedy("use ext4 or xfs")
	}
	const path = scripts + "/disk-init.sh"
	command := []string{"sh", path, "--destroy"}
	if spec.Reformat {
		command = append(command, "--reformat")
	}
	return checked(Layer{
		Name: DiskInitLayer, Version: diskInitVersion,
		Files:    []File{{path, 0o700, redact.New(diskScript)}},
		Commands: [][]string{append(command, spec.Filesystem, "/etc/fstab", "/", Folder+"/disks")},
	})
}

// AgentBootstrap takes over the user data that makes a machine a node, as the
// gateway of agents renders it.
func AgentBootstrap(userData redact.Secret) (Layer, error) {
	text, ok := strings.CutPrefix(userData.Reveal(), "#cloud-config\n")
	if !ok {
		return Layer{}, invalid(AgentBootstrapLayer, "its user data is no cloud-config")
	}
	var doc struct {
		WriteFiles []struct {
			Path        string `yaml:"path"`
			Owner       string `yaml:"owner"`
			Permissions string `yaml:"permissions"`
			Content     string `yaml:"content"`
		} `yaml:"write_files"`
		RunCmd [][]string `yaml:"runcmd"`
	}
	reader := yaml.NewDecoder(strings.NewReader(text))
	reader.KnownFields(true)
	// The decoder's error may quote the document, which holds a secret.
	if err := reader.Decode(&doc); err != nil || !errors.Is(reader.Decode(new(yaml.Node)), io.EOF) {
		return Layer{}, invalid(AgentBootstrapLayer, "its user data has more than files and argument lists")
	}
	l := Layer{Name: AgentBootstrapLayer, Version: agentBootstrapVersion, Commands: doc.RunCmd}
	for _, f := range doc.WriteFiles {
		mode, err := strconv.ParseUint(f.Permissions, 8, 32)
		if err != nil || f.Owner != "root:root" {
			return Layer{}, invalid(AgentBootstrapLayer, "%q is not a file of root with a mode", f.Path)
		}
		l.Files = append(l.Files, File{f.Path, fs.FileMode(mode), redact.New(f.Content)})
	}
	return checked(l)
}

// checked returns a layer that can be composed, or an error.
func checked(l Layer) (Layer, error) {
	if err := l.check(); err != nil {
		return Layer{}, err
	}
	return l, nil
}
