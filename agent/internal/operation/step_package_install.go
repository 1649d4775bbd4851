package operation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

var _ = carries(agentwire.StepPackageInstall, func(m machine) Kind { return packageInstall{m} })

// packageInstall installs exact versions of packages with apt. Its lists and
// its configuration are its own, so that nothing but the allowed sources is
// asked and what others configured for the machine stays as it is.
type packageInstall struct{ machine }

// aptFolder is where its files are, in a folder for each task: plans run beside
// other tasks, and must not change what apt is told there.
const aptFolder = "/var/lib/gpuaas/operations/apt"

func folder(s *Step) string { return path.Join(aptFolder, s.run.task.TaskID) }

// clear removes the files of a step that is over.
func (h packageInstall) clear(s *Step) {
	if err := os.RemoveAll(h.Host.Path(folder(s))); err != nil {
		s.Say(agentwire.StreamAgent, "the lists of packages are not removed: "+err.Error())
	}
}

// Check implements Kind.
func (h packageInstall) Check(ctx context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.PackageInstallWith](s)
	if err != nil {
		return Look{}, err
	}
	now, err := h.installed(ctx)
	if err != nil {
		return Look{}, err
	}
	out, wanting := compared(w, now)
	if !wanting {
		return Look{Done: true, Output: out, Summary: "all packages are installed in their versions"}, nil
	}
	if s.run.params.Plan {
		return h.plan(ctx, s, w, out)
	}
	return Look{Summary: "installs " + changes(out.Packages)}, nil
}

// compared says what is there of what is wanted.
func compared(w *agentwire.PackageInstallWith, now map[string]string) (agentwire.PackageInstallResult, bool) {
	out := agentwire.PackageInstallResult{Also: []agentwire.PackageChange{}}
	wanting := false
	for _, p := range w.Packages {
		out.Packages = append(out.Packages, agentwire.PackageChange{Name: p.Name, Before: now[p.Name], After: p.Version})
		wanting = wanting || now[p.Name] != p.Version
	}
	return out, wanting
}

func changes(all []agentwire.PackageChange) string {
	var words []string
	for _, c := range all {
		switch {
		case c.Before == c.After:
		case c.Before == "":
			words = append(words, c.Name+" "+c.After)
		case c.After == "":
			words = append(words, c.Name+" goes")
		default:
			words = append(words, c.Name+" "+c.Before+" → "+c.After)
		}
	}
	return strings.Join(words, ", ")
}

// plan asks apt what it would do.
func (h packageInstall) plan(ctx context.Context, s *Step, w *agentwire.PackageInstallWith,
	out agentwire.PackageInstallResult,
) (Look, error) {
	defer h.clear(s)
	if err := h.configure(s, w); err != nil {
		return Look{}, err
	}
	if err := h.refresh(ctx, s, w); err != nil {
		return Look{}, err
	}
	also, err := h.simulate(ctx, s, w)
	if err != nil {
		return Look{}, err
	}
	out.Also = also
	return Look{Output: out, Summary: "installs " + changes(append(slices.Clone(out.Packages), also...))}, nil
}

// Apply implements Kind.
func (h packageInstall) Apply(ctx context.Context, s *Step) (Result, error) {
	w, err := params[agentwire.PackageInstallWith](s)
	if err != nil {
		return Result{}, err
	}
	before, err := h.installed(ctx)
	if err != nil {
		return Result{}, err
	}
	defer h.clear(s)
	if err := h.configure(s, w); err != nil {
		return Result{}, err
	}
	if s.Begun {
		// An installation was interrupted. Nothing can be installed before it is
		// finished.
		if _, err := h.apt(ctx, s, "dpkg", "--configure", "-a"); err != nil {
			return Result{}, aptFailure(err)
		}
	}
	if err := h.refresh(ctx, s, w); err != nil {
		return Result{}, err
	}
	if _, err := h.simulate(ctx, s, w); err != nil {
		return Result{}, err
	}
	s.point("installing")
	_, err = h.apt(ctx, s, "apt-get", install(w, "--yes")...)
	s.point("installed")
	after, second := h.installed(context.WithoutCancel(ctx))
	if second != nil {
		return Result{}, errors.Join(err, second)
	}
	out, _ := compared(w, before)
	for i := range out.Packages {
		out.Packages[i].After = after[out.Packages[i].Name]
	}
	out.Also = others(w, before, after)
	if _, wanting := compared(w, after); err != nil || wanting {
		f := aptFailure(err)
		f.Output = out
		return Result{}, f
	}
	return Result{Output: out, Changed: true, Summary: "installed " + changes(out.Packages)}, nil
}

// others are the packages that came, changed or went besides.
func others(w *agentwire.PackageInstallWith, before, after map[string]string) []agentwire.PackageChange {
	asked := map[string]bool{}
	for _, p := range w.Packages {
		asked[p.Name] = true
	}
	names := map[string]bool{}
	for n := range before {
		names[n] = true
	}
	for n := range after {
		names[n] = true
	}
	out := []agentwire.PackageChange{}
	for n := range names {
		if !asked[n] && before[n] != after[n] && len(out) < 200 {
			out = append(out, agentwire.PackageChange{Name: n, Before: before[n], After: after[n]})
		}
	}
	slices.SortFunc(out, func(a, b agentwire.PackageChange) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// installed lists the packages that are installed, with their versions.
func (h packageInstall) installed(ctx context.Context) (map[string]string, error) {
	out, err := h.Host.Do(ctx, hostexec.Command{
		Program: "dpkg-query", Args: []string{"--show", "--showformat=${db:Status-Status} ${Package} ${Version}\n"},
		Timeout: time.Hour,
	})
	var exit *hostexec.ExitError
	switch {
	case errors.Is(err, hostexec.ErrNoProgram):
		return nil, fail(agentwire.FailureCapability, "no_dpkg", "this node has no Debian packages",
			"use an image with apt", err)
	case errors.As(err, &exit) && exit.Exit == 1: // no package at all
	case err != nil:
		return nil, fmt.Errorf("ask for the installed packages: %w", err)
	}
	all := map[string]string{}
	for _, l := range lines(string(out.Stdout)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "installed" {
			all[f[1]] = f[2]
		}
	}
	return all, nil
}

// configure writes apt's configuration and the sources that it may use.
func (h packageInstall) configure(s *Step, w *agentwire.PackageInstallWith) error {
	at := func(name string) string { return h.Host.Path(path.Join(folder(s), name)) }
	var sources strings.Builder
	for _, r := range w.Repositories {
		option := "[trusted=yes]"
		if r.SignedBy != "" {
			option = "[signed-by=" + h.Host.Path(r.SignedBy) + "]"
		}
		fmt.Fprintf(&sources, "deb %s %s %s %s\n", option, r.URI, r.Suite, strings.Join(r.Components, " "))
	}
	config := fmt.Sprintf(`Dir::State::Lists %q;
Dir::Cache %q;
Dir::Etc::SourceList %q;
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Get::AutomaticRemove "false";
APT::Sandbox::User "root";
Acquire::Retries "2";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Acquire::AllowInsecureRepositories "false";
DPkg::Options { "--force-confold"; "--force-confdef"; };
DPkg::Lock::Timeout "%d";
`, at("lists"), at("cache"), at("sources.list"), orDefault(int64(w.LockSeconds), 60))
	if !slices.Contains(w.Sources, agentwire.SourceSystem) {
		config += fmt.Sprintf("Dir::Etc::SourceParts %q;\n", at("no-parts"))
	} else {
		system, err := os.ReadFile(h.Host.Path("/etc/apt/sources.list"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read the sources of the machine: %w", err)
		}
		sources.Write(system)
	}
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "no-parts"} {
		if err := os.MkdirAll(at(dir), 0o700); err != nil {
			return fmt.Errorf("make folder for apt: %w", err)
		}
	}
	return errors.Join(atomicfile.Write(at("apt.conf"), []byte(config), 0o600),
		atomicfile.Write(at("sources.list"), []byte(sources.String()), 0o600))
}

func (h packageInstall) refresh(ctx context.Context, s *Step, w *agentwire.PackageInstallWith) error {
	if _, err := h.apt(ctx, s, "apt-get", "update", "-o", "APT::Update::Error-Mode=any"); err != nil {
		return fail(agentwire.FailureTransient, "source_failed", "the package sources "+strings.Join(w.Sources, ", ")+
			" cannot be read", "look at the log of the step; check that the node reaches them and that their keys are there",
			err)
	}
	return nil
}

// simulate asks apt what it would do besides, and refuses what nobody asked for.
func (h packageInstall) simulate(ctx context.Context, s *Step, w *agentwire.PackageInstallWith) (
	[]agentwire.PackageChange, error,
) {
	text, err := h.apt(ctx, s, "apt-get", install(w, "--simulate")...)
	if err != nil {
		return nil, aptFailure(err)
	}
	also, removed := parsePlan(text, w)
	if len(removed) > 0 {
		return nil, fail(agentwire.FailurePolicy, "would_remove", "apt would remove "+strings.Join(removed, ", "),
			"choose versions that go together, or remove these in an operation of their own", nil)
	}
	return also, nil
}

// parsePlan reads lines such as "Inst name [old] (new source)".
func parsePlan(text string, w *agentwire.PackageInstallWith) (also []agentwire.PackageChange, removed []string) {
	also = []agentwire.PackageChange{}
	for _, l := range lines(text) {
		f := strings.Fields(l)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "Remv":
			removed = append(removed, f[1])
		case "Inst":
			c := agentwire.PackageChange{Name: f[1]}
			for _, word := range f[2:] {
				if strings.HasPrefix(word, "[") && c.After == "" {
					c.Before = strings.Trim(word, "[]")
				}
				if strings.HasPrefix(word, "(") && c.After == "" {
					c.After = strings.Trim(word, "()")
				}
			}
			if !slices.ContainsFunc(w.Packages, func(p agentwire.PackageWanted) bool { return p.Name == c.Name }) {
				also = append(also, c)
			}
		}
	}
	return also, removed
}

func install(w *agentwire.PackageInstallWith, how string) []string {
	args := []string{"install", how, "--no-install-recommends", "--no-remove", "--quiet"}
	if how == "--simulate" {
		args = slices.DeleteFunc(args, func(a string) bool { return a == "--no-remove" })
	}
	if w.AllowDowngrade {
		args = append(args, "--allow-downgrades")
	}
	args = append(args, "--")
	for _, p := range w.Packages {
		args = append(args, p.Name+"="+p.Version)
	}
	return args
}

func (h packageInstall) apt(ctx context.Context, s *Step, program string, args ...string) (string, error) {
	s.Say(agentwire.StreamAgent, program+" "+strings.Join(args, " "))
	var text strings.Builder
	out, err := h.Host.Do(ctx, hostexec.Command{
		Program: program, Args: args, Timeout: 12 * time.Hour, Held: true,
		Env: []string{
			"APT_CONFIG=" + h.Host.Path(path.Join(folder(s), "apt.conf")), "DEBIAN_FRONTEND=noninteractive",
			"APT_LISTCHANGES_FRONTEND=none",
		},
		OnLine: func(l []byte) {
			line := strings.ToValidUTF8(string(l), "?")
			s.Say(agentwire.StreamStdout, line)
			if text.Len() < 1<<20 {
				text.WriteString(line + "\n")
			}
		},
	})
	for _, l := range lines(string(out.Stderr)) {
		s.Say(agentwire.StreamStderr, l)
	}
	if err != nil {
		return text.String(), fmt.Errorf("%s %s: %w: %s", program, args[0], err, aptErrors(string(out.Stderr)))
	}
	return text.String(), nil
}

// aptErrors are the lines in which apt says what is wrong.
func aptErrors(text string) string {
	var found []string
	for _, l := range lines(text) {
		if strings.HasPrefix(l, "E:") || strings.HasPrefix(l, "dpkg:") {
			found = append(found, l)
		}
	}
	return strings.Join(found, " ")
}

// aptFailure names what is wrong.
func aptFailure(err error) *Failure {
	text := ""
	if err != nil {
		text = err.Error()
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case errors.Is(err, hostexec.ErrNoProgram):
		return fail(agentwire.FailureCapability, "no_apt", "this node has no apt", "use an image with apt", err)
	case has("Could not get lock", "Unable to acquire the dpkg frontend lock", "is locked by"):
		return fail(agentwire.FailureTransient, "lock_timeout", "another package manager is at work on the node",
			"wait until it is done; raise lock_seconds", err)
	case has("Version '", "Unable to locate package", "has no installation candidate"):
		return fail(agentwire.FailurePermanent, "not_found", "the allowed sources do not have a package in its version",
			"name a version that they have", err)
	case has("Packages were downgraded"):
		return fail(agentwire.FailurePolicy, "would_downgrade", "a newer version is installed",
			"set allow_downgrade: true if that is meant", err)
	case has("unmet dependencies", "broken packages", "Unable to correct problems"):
		return fail(agentwire.FailurePermanent, "unmet", "the packages do not go together with what is installed",
			"the log of the step says which dependency is missing", err)
	case has("No space left", "enough free space"):
		return fail(agentwire.FailurePermanent, "no_space", "there is no space for the packages",
			"free space on the node", err)
	default:
		return fail(agentwire.FailureAmbiguous, "install_failed", "the packages are not installed as wanted",
			"the log of the step says why; mend it and go on at this step", err)
	}
}
