package agentwire

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
)

// StepHealthCheck asks whether something works.
const StepHealthCheck = "health.check"

var _ = declareStep[HealthCheckWith, HealthCheckResult](StepKind{
	Kind: StepHealthCheck, Title: "ask whether something works", Impact: ImpactRead, Interruptible: true,
	Checks: "All probes in one round must succeed; it goes on asking until they do, or the time is up.",
	Sound: []string{
		`{"probes":[{"kind":"file","path":"/etc/os-release"}]}`,
		`{"probes":[{"kind":"tcp","port":8080},{"kind":"http","port":8080,"url_path":"/health","expect_status":200}],` +
			`"within_seconds":60,"every_seconds":2}`,
		`{"probes":[{"kind":"unit","unit":"nginx.service"},{"kind":"disk","path":"/var","free_mib":1024},` +
			`{"kind":"process","process":"nginx"}]}`,
		`{"probes":[{"kind":"tcp","port":22,"address":"::1"}]}`,
	},
	Answer: `{"healthy":true,"tries":1,"probes":[]}`,
})

// HealthCheckWith says what to ask. All probes must succeed.
type HealthCheckWith struct {
	Probes []Probe `json:"probes"`
	// WithinSeconds is how long the step goes on asking. Zero: it asks once.
	WithinSeconds int `json:"within_seconds,omitempty"`
	EverySeconds  int `json:"every_seconds,omitempty"` // zero: 1
}

// Probe is one question.
type Probe struct {
	Kind string `json:"kind"` // tcp, http, unit, file, disk or process
	// Address is one of this machine itself, for tcp and http. Empty: 127.0.0.1.
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	// URLPath and ExpectStatus are of http. Empty: / and 200.
	URLPath      string `json:"url_path,omitempty"`
	ExpectStatus int    `json:"expect_status,omitempty"`
	Unit         string `json:"unit,omitempty"`     // that must be active
	Path         string `json:"path,omitempty"`     // of file, and a folder of the file system for disk
	FreeMiB      int64  `json:"free_mib,omitempty"` // for disk
	Process      string `json:"process,omitempty"`  // name of the program of a process that must exist
}

// Kinds of probes.
const (
	ProbeTCP     = "tcp"
	ProbeHTTP    = "http"
	ProbeUnit    = "unit"
	ProbeFile    = "file"
	ProbeDisk    = "disk"
	ProbeProcess = "process"
)

var (
	unitForm    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9:_.@\\-]{0,200}\.(service|socket|timer|target|mount|path)$`)
	processForm = regexp.MustCompile(`^[A-Za-z0-9_.+:-]{1,64}$`)
	urlPathForm = regexp.MustCompile(`^/[A-Za-z0-9/._~%?&=+:-]{0,500}$`)
)

// loopback are the addresses that a probe may ask.
var loopback = []string{"", "127.0.0.1", "::1"}

// Validate implements StepParams.
func (w HealthCheckWith) Validate() StepProblems {
	var p StepProblems
	if len(w.Probes) == 0 || len(w.Probes) > 32 {
		p.add("probes", "there must be between 1 and 32 probes")
	}
	if w.WithinSeconds < 0 || w.WithinSeconds > 3600 {
		p.add("within_seconds", "must be between 0 and 3600")
	}
	if w.EverySeconds < 0 || w.EverySeconds > 300 {
		p.add("every_seconds", "must be between 0 and 300")
	}
	for i, probe := range w.Probes {
		probe.validate(fmt.Sprintf("probes.%d", i), &p)
	}
	return p
}

func (q Probe) validate(at string, p *StepProblems) {
	fields := map[string]bool{
		"address": q.Address != "", "port": q.Port != 0, "url_path": q.URLPath != "", "expect_status": q.ExpectStatus != 0,
		"unit": q.Unit != "", "path": q.Path != "", "free_mib": q.FreeMiB != 0, "process": q.Process != "",
	}
	allowed := map[string][]string{
		ProbeTCP: {"address", "port"}, ProbeHTTP: {"address", "port", "url_path", "expect_status"}, ProbeUnit: {"unit"},
		ProbeFile: {"path"}, ProbeDisk: {"path", "free_mib"}, ProbeProcess: {"process"},
	}[q.Kind]
	if allowed == nil {
		p.add(at+".kind", "must be tcp, http, unit, file, disk or process")
		return
	}
	for _, name := range sorted(fields) {
		if fields[name] && !slices.Contains(allowed, name) {
			p.add(at+"."+name, "is not a field of a probe of the kind %s", q.Kind)
		}
	}
	switch q.Kind {
	case ProbeTCP, ProbeHTTP:
		q.validateNet(at, p)
	case ProbeUnit:
		unitName(at+".unit", q.Unit, p)
	case ProbeFile, ProbeDisk:
		absolute(at+".path", q.Path, p)
		if q.Kind == ProbeDisk && (q.FreeMiB < 1 || q.FreeMiB > 1<<30) {
			p.add(at+".free_mib", "must be between 1 and 2^30")
		}
	case ProbeProcess:
		if !processForm.MatchString(q.Process) {
			p.add(at+".process", "must be the name of a program")
		}
	}
}

func (q Probe) validateNet(at string, p *StepProblems) {
	if !slices.Contains(loopback, q.Address) {
		p.add(at+".address", "must be 127.0.0.1 or ::1: a node asks only itself")
	}
	if q.Port < 1 || q.Port > 65535 {
		p.add(at+".port", "must be between 1 and 65535")
	}
	if q.ExpectStatus != 0 && (q.ExpectStatus < 100 || q.ExpectStatus > 599) {
		p.add(at+".expect_status", "must be between 100 and 599")
	}
	if _, err := url.ParseRequestURI(q.URLPath); q.URLPath != "" && (err != nil || !urlPathForm.MatchString(q.URLPath)) {
		p.add(at+".url_path", "must be a path that begins with /")
	}
}

func unitName(at, name string, p *StepProblems) {
	if !unitForm.MatchString(name) {
		p.add(at, "must be the name of a unit with its type, such as nginx.service")
	}
}

// absolute checks the form of a path: absolute, clean, and not strange.
func absolute(at, name string, p *StepProblems) {
	if !path.IsAbs(name) || path.Clean(name) != name || len(name) > 1024 || !printable(name) {
		p.add(at, "must be an absolute path without . and .. in it")
	}
}

func printable(s string) bool {
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return false
		}
	}
	return true
}

// HealthCheckResult says how each probe ended.
type HealthCheckResult struct {
	Healthy bool          `json:"healthy"`
	Tries   int           `json:"tries"`
	Probes  []ProbeResult `json:"probes"`
}

// ProbeResult is the last answer to one probe.
type ProbeResult struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"` // what was asked
	OK      bool   `json:"ok"`
	Detail  string `json:"detail"`
}
