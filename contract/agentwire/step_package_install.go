package agentwire

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// StepPackageInstall installs packages of the operating system.
const StepPackageInstall = "package.install"

var _ = declareStep[PackageInstallWith, PackageInstallResult](StepKind{
	Kind: StepPackageInstall, Title: "install packages of the operating system", Impact: ImpactMutate,
	Checks: "What dpkg says is installed, before and after. Packages that have the wanted version are left alone, and " +
		"every package must have it in the end.",
	Sound: []string{
		`{"packages":[{"name":"nginx-light","version":"1.22.1-9"}],"sources":["system"]}`,
		`{"packages":[{"name":"demo","version":"1:1.0~rc1-2+b1"}],"sources":["system"],"allow_downgrade":true}`,
		`{"packages":[{"name":"demo","version":"1.0"}],"sources":["internal"],` +
			`"repositories":[{"name":"internal","uri":"https://apt.example/debian","suite":"stable","components":["main"],` +
			`"signed_by":"/etc/gpuaas-operations/keys/internal.asc"}]}`,
	},
	Answer: `{"packages":[{"name":"simulated","before":"","after":"1.0"}],"also":[]}`,
})

// PackageInstallWith says which packages, and from where.
type PackageInstallWith struct {
	Packages []PackageWanted `json:"packages"`
	// Sources are what packages may come from: system for what the machine is
	// configured with, or names of Repositories. Nothing else is asked.
	Sources []string `json:"sources"`
	// Repositories are sources that only this step uses.
	Repositories []PackageRepository `json:"repositories,omitempty"`
	// AllowDowngrade permits a version older than the one that is installed.
	AllowDowngrade bool `json:"allow_downgrade,omitempty"`
	// LockSeconds is how long to wait for another package manager. Zero: 60.
	LockSeconds int `json:"lock_seconds,omitempty"`
}

// PackageWanted is one package at one version.
type PackageWanted struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// PackageRepository is a source of packages.
type PackageRepository struct {
	Name       string   `json:"name"`
	URI        string   `json:"uri"` // https, or file
	Suite      string   `json:"suite"`
	Components []string `json:"components,omitempty"`
	// SignedBy is the file with the keys that must have signed the source. A
	// source of files on the machine itself may do without.
	SignedBy string `json:"signed_by,omitempty"`
}

// SourceSystem is what the machine is configured with.
const SourceSystem = "system"

var (
	debName    = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{1,99}$`)
	debVersion = regexp.MustCompile(`^([0-9]+:)?[0-9][A-Za-z0-9.+~-]{0,99}$`)
	suiteForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9./_-]{0,63}$|^\./$`)
)

// Validate implements StepParams.
func (w PackageInstallWith) Validate() StepProblems {
	var p StepProblems
	if len(w.Packages) == 0 || len(w.Packages) > 64 {
		p.add("packages", "there must be between 1 and 64 packages")
	}
	seen := map[string]bool{}
	for i, one := range w.Packages {
		at := fmt.Sprintf("packages.%d", i)
		if !debName.MatchString(one.Name) {
			p.add(at+".name", "must be the name of a Debian package")
		}
		if !debVersion.MatchString(one.Version) {
			p.add(at+".version", "must be one exact version")
		}
		if seen[one.Name] {
			p.add(at+".name", "occurs twice")
		}
		seen[one.Name] = true
	}
	if w.LockSeconds < 0 || w.LockSeconds > 3600 {
		p.add("lock_seconds", "must be between 0 and 3600")
	}
	w.validateSources(&p)
	return p
}

func (w PackageInstallWith) validateSources(p *StepProblems) {
	known := map[string]bool{SourceSystem: true}
	for i, r := range w.Repositories {
		at := fmt.Sprintf("repositories.%d", i)
		if !templateName.MatchString(r.Name) || known[r.Name] {
			p.add(at+".name", "must be a name of lower-case letters, digits and _ that no other source has")
		}
		known[r.Name] = true
		u, err := url.Parse(r.URI)
		local := err == nil && u.Scheme == "file"
		if err != nil || u.Scheme != "https" && !local || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
			!local && u.Host == "" || strings.ContainsAny(r.URI, " \t\n[]") || len(r.URI) > 500 {
			p.add(at+".uri", "must be an https or file address without a password, spaces or brackets")
		}
		if !suiteForm.MatchString(r.Suite) || strings.Contains(r.Suite, "..") {
			p.add(at+".suite", "must be the name of a suite, or ./ for a flat source")
		}
		for _, c := range r.Components {
			if !debName.MatchString(c) {
				p.add(at+".components", "%q is not the name of a component", clip(c))
			}
		}
		switch {
		case r.SignedBy != "":
			absolute(at+".signed_by", r.SignedBy, p)
			if strings.ContainsAny(r.SignedBy, " []") {
				p.add(at+".signed_by", "must not have spaces or brackets in it")
			}
		case !local:
			p.add(at+".signed_by", "a source over the network must be signed")
		}
	}
	if len(w.Sources) == 0 || len(w.Repositories) > 8 {
		p.add("sources", "name at least one source, and at most 8 repositories")
	}
	for _, s := range w.Sources {
		if !known[s] {
			p.add("sources", "there is no source %q: name system or one of the repositories", clip(s))
		}
	}
	for i, r := range w.Repositories {
		if !slices.Contains(w.Sources, r.Name) {
			p.add(fmt.Sprintf("repositories.%d.name", i), "is not one of the sources")
		}
	}
}

// PackageInstallResult says what was installed before and after.
type PackageInstallResult struct {
	Packages []PackageChange `json:"packages"`
	// Also are other packages that came, changed or went because of them.
	Also []PackageChange `json:"also"`
}

// PackageChange is one package. An empty version means that it is not installed.
type PackageChange struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}
