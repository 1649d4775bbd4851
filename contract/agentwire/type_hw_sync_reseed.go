package agentwire

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// TypeHWSyncReseed gives a machine its key to MAAS again.
const TypeHWSyncReseed = "node.hw_sync_reseed"

var _ = declare[HWSyncParams, HWSyncOutput](Spec{
	Type: TypeHWSyncReseed, Title: "set up MAAS hardware sync anew",
	Class: ClassExclusive, Window: 15 * time.Minute, Patience: time.Hour, Attempts: 3,
	Needs:       "site:manage", // its parameters say where a node fetches a program from that it runs as root
	Credentials: []string{CredentialMAASMachineToken},
	Amends: []Entry{
		{Kind: EntryUnit, Name: "/etc/systemd/system/maas_hardware_sync.timer.d/gpuaas.conf"},
		{Kind: EntryUnit, Name: "/etc/systemd/system/timers.target.wants/maas_hardware_sync.timer"},
		{Kind: EntryUnit, Name: "/etc/systemd/system/multi-user.target.wants/maas-agent.service"},
		{Kind: EntryUnit, Name: "/etc/systemd/system/maas_hardware_sync.service.d/gpuaas.conf"},
	},
	Sound: []string{
		`{"maas_url":"http://maas.example:5240/MAAS","system_id":"abc123","interval":"15m"}`,
		`{"maas_url":"http://m/","system_id":"abc123","interval":"15m","run_scripts_sha256":"` + strings.Repeat("ab", 32) +
			`"}`,
	},
})

var (
	sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)
	systemID  = regexp.MustCompile(`^[a-z0-9]{4,12}$`)
	interval  = regexp.MustCompile(`^[0-9]{1,6}[smh]$`)
)

// HWSyncParams names the region. The machine token is a credential that the
// handler asks for.
type HWSyncParams struct {
	MAASURL  string `json:"maas_url"`
	SystemID string `json:"system_id"`
	Interval string `json:"interval"`
	// RunScripts is the SHA-256 of the program that the machine fetches over
	// plain HTTP and runs as root. It is signed with the task, because whoever
	// answers for the control plane must not choose that program. If it is
	// empty, the machine keeps its present digest. Older agents refuse the
	// field.
	RunScripts string `json:"run_scripts_sha256,omitempty"`
}

// Validate implements Params.
func (p HWSyncParams) Validate() error {
	u, err := url.Parse(p.MAASURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("maas_url is not an http or https address")
	}
	if !systemID.MatchString(p.SystemID) {
		return errors.New("system_id is not one of MAAS")
	}
	if !interval.MatchString(p.Interval) {
		return errors.New("interval must look like 15m")
	}
	if p.RunScripts != "" && !sha256Hex.MatchString(p.RunScripts) {
		return errors.New("run_scripts_sha256 is no SHA-256")
	}
	return nil
}

// HWSyncOutput says what was set up.
type HWSyncOutput struct {
	CredentialsWritten bool     `json:"credentials_written"`
	UnitsRestarted     []string `json:"units_restarted"`
	// Pinned says that root runs only the program that the task named.
	Pinned bool `json:"pinned,omitempty"`
}
