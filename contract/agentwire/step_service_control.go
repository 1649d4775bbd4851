package agentwire

import (
	"regexp"
	"slices"
)

// StepServiceControl starts and stops services.
const StepServiceControl = "service.control"

var _ = declareStep[ServiceControlWith, ServiceControlResult](StepKind{
	Kind: StepServiceControl, Title: "start, stop or restart a service", Impact: ImpactDisrupt,
	Checks: "What systemd says of the unit, before and after. A unit that is as wanted is left alone; a restart is done " +
		"once. What was started must stay so for a while.",
	Sound: []string{
		`{"unit":"nginx.service","action":"start"}`, `{"unit":"slurmd.service","action":"restart","stable_seconds":5}`,
		`{"unit":"demo.service","action":"enable"}`, `{"unit":"demo.service","action":"stop"}`,
		`{"unit":"demo.service","action":"disable"}`, `{"unit":"demo.service","action":"start","reload":true}`,
	},
	Answer: `{"unit":"simulated.service","before":{"active":"inactive","enabled":"disabled"},` +
		`"after":{"active":"active","enabled":"enabled"}}`,
})

// Actions on a service.
const (
	ServiceStart   = "start"
	ServiceStop    = "stop"
	ServiceRestart = "restart"
	ServiceEnable  = "enable"
	ServiceDisable = "disable"
)

// ServiceControlWith says which unit, and what to do with it.
type ServiceControlWith struct {
	Unit   string `json:"unit"`
	Action string `json:"action"` // start, stop, restart, enable or disable
	// StableSeconds is how long a started service must stay as it is. Zero: 2.
	StableSeconds int `json:"stable_seconds,omitempty"`
	// Reload lets the manager read its files again first.
	Reload bool `json:"reload,omitempty"`
}

// unitsKept are units that decide whether the node can be reached, or who has
// power over it. No step touches them.
var unitsKept = regexp.MustCompile(`^(` +
	`(systemd-|gpuaas-|dbus-org\.freedesktop\.|runlevel[0-9]|netplan-|cloud-|getty@|serial-getty@|autovt@|ssh@|sshd@|` +
	`sshd-|user@|user-runtime-dir@).*|` +
	`(dbus|dbus-broker|ssh|sshd|polkit|networking|NetworkManager|network-manager|debug-shell|console-getty|` +
	// other names of units of systemd
	`procps|kmod|module-init-tools|udev|urandom|syslog|rcS|rc|rc-local|display-manager)\.(service|socket)|` +
	`(emergency|rescue|poweroff|reboot|soft-reboot|halt|kexec|shutdown|exit|suspend|hibernate|hybrid-sleep|` +
	`suspend-then-hibernate|sleep|ctrl-alt-del|kbrequest|final|umount|default|multi-user|graphical|basic|sysinit|` +
	`local-fs|local-fs-pre|remote-fs|network|network-pre|network-online|sockets|timers|paths|initrd|` +
	`initrd-switch-root|factory-reset|system-update)\.target)$`)

// keptUnit says that no step touches a unit, nor its file and its settings.
func keptUnit(name string) bool { return unitsKept.MatchString(name) }

// Validate implements StepParams.
func (w ServiceControlWith) Validate() StepProblems {
	var p StepProblems
	unitName("unit", w.Unit, &p)
	if keptUnit(w.Unit) {
		p.add("unit", "the node cannot be managed without it, so no step touches it")
	}
	if !slices.Contains([]string{ServiceStart, ServiceStop, ServiceRestart, ServiceEnable, ServiceDisable}, w.Action) {
		p.add("action", "must be start, stop, restart, enable or disable")
	}
	if w.StableSeconds < 0 || w.StableSeconds > 600 {
		p.add("stable_seconds", "must be between 0 and 600")
	}
	return p
}

// ServiceControlResult says how the unit was and is.
type ServiceControlResult struct {
	Unit   string    `json:"unit"`
	Before UnitState `json:"before"`
	After  UnitState `json:"after"`
	// Journal is the end of the unit's log if it did not start.
	Journal []string `json:"journal,omitempty"`
}

// UnitState is how a unit is.
type UnitState struct {
	Active  string `json:"active"` // active, inactive, failed and so on
	Sub     string `json:"sub,omitempty"`
	Enabled string `json:"enabled"`
	PID     int64  `json:"pid,omitempty"`
}
