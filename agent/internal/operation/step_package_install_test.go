package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// repository makes a source of packages, as apt reads it.
func (b *bench) repository(packages ...string) string {
	b.t.Helper()
	dir := b.t.TempDir()
	var index strings.Builder
	for _, p := range packages {
		name, version, _ := strings.Cut(p, "=")
		version, more, _ := strings.Cut(version, " ")
		tree := b.t.TempDir()
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: t <t@example>\nDescription: test\n%s",
			name, version, strings.ReplaceAll(more, ";", "\n"))
		control = strings.TrimSpace(control) + "\n"
		b.file(tree+"/DEBIAN/control", control)
		b.file(tree+"/usr/share/"+name+"/version", version+"\n")
		deb := filepath.Join(dir, name+"_"+strings.ReplaceAll(version, ":", "%3a")+"_all.deb")
		if out, err := exec.CommandContext(b.t.Context(), "dpkg-deb", "--root-owner-group", "--build", tree, deb).
			CombinedOutput(); err != nil {
			b.t.Fatalf("%v: %s", err, out)
		}
		raw, err := os.ReadFile(deb)
		if err != nil {
			b.t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %s\n\n", control, filepath.Base(deb), len(raw),
			hex.EncodeToString(sum[:]))
	}
	b.file(dir+"/Packages", index.String())
	return dir
}

func (b *bench) file(path, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// apted is a machine with the real apt and dpkg, which work on its folder.
func apted(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.Install("/usr/bin/apt-get", "/usr/bin/dpkg", "/usr/bin/dpkg-query")
	b.Write("/stub/real", "")
	for _, dir := range []string{
		"/var/lib/dpkg/updates", "/var/lib/dpkg/info", "/var/lib/apt", "/var/log/apt", "/var/cache/apt",
	} {
		b.Mkdir(dir)
	}
	b.Write("/var/lib/dpkg/status", "")
	b.Write("/var/lib/dpkg/available", "")
	return b
}

func installs(repository, more string, packages ...string) string {
	var all []string
	for _, p := range packages {
		name, version, _ := strings.Cut(p, "=")
		all = append(all, fmt.Sprintf(`{"name":%q,"version":%q}`, name, version))
	}
	return fmt.Sprintf(`{"packages":[%s],"sources":["own"],"repositories":[{"name":"own","uri":"file://%s","suite":"./"}]%s}`,
		strings.Join(all, ","), repository, more)
}

func TestPackagesAreInstalledInTheirVersions(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("dpkg gives files away, which only root can: what apt is told is tested below")
		return
	}
	b := apted(t)
	source := b.repository("demo=1.0", "demo=2.0 Depends: helper;", "helper=1:0.5", "extra=1.0",
		"rival=1.0 Conflicts: helper;")
	b.plan = true
	o := b.one(agentwire.StepPackageInstall, installs(source, "", "demo=2.0"))
	wantOutcome(t, o, agentwire.StepPlanned, true)
	plan := outputOf[agentwire.PackageInstallResult](t, o)
	if !strings.Contains(o.Summary, "demo 2.0") || len(plan.Also) != 1 || plan.Also[0].Name != "helper" ||
		b.Exists("/usr/share/demo") {
		t.Fatalf("%s %+v", o.Summary, plan)
	}
	b.plan = false
	o = b.one(agentwire.StepPackageInstall, installs(source, "", "demo=1.0"))
	wantOutcome(t, o, agentwire.StepSucceeded, true)
	if b.Read("/usr/share/demo/version") != "1.0\n" {
		t.Error("not installed")
	}
	wantOutcome(t, b.one(agentwire.StepPackageInstall, installs(source, "", "demo=1.0")), agentwire.StepSucceeded, false)
	o = b.one(agentwire.StepPackageInstall, installs(source, "", "demo=2.0"))
	wantOutcome(t, o, agentwire.StepSucceeded, true)
	got := outputOf[agentwire.PackageInstallResult](t, o)
	if got.Packages[0] != (agentwire.PackageChange{Name: "demo", Before: "1.0", After: "2.0"}) || len(got.Also) != 1 ||
		got.Also[0].After != "1:0.5" {
		t.Errorf("%+v", got)
	}
	wantFailure(t, b.one(agentwire.StepPackageInstall, installs(source, "", "demo=1.0")), "would_downgrade",
		agentwire.FailurePolicy)
	wantOutcome(t, b.one(agentwire.StepPackageInstall, installs(source, `,"allow_downgrade":true`, "demo=1.0")),
		agentwire.StepSucceeded, true)
	wantFailure(t, b.one(agentwire.StepPackageInstall, installs(source, "", "demo=9.9")), "not_found",
		agentwire.FailurePermanent)
	wantFailure(t, b.one(agentwire.StepPackageInstall, installs(source, "", "rival=1.0")), "would_remove",
		agentwire.FailurePolicy)
	wantFailure(t, b.one(agentwire.StepPackageInstall, installs(t.TempDir()+"/none", "", "extra=1.0")), "source_failed",
		agentwire.FailureTransient)
}

// An installation that was interrupted is finished before anything else.
func TestAnInterruptedInstallationIsTakenUp(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/apt-get", "/usr/bin/dpkg", "/usr/bin/dpkg-query")
	b.notes.values["step/0/begun"] = "1"
	var conf, list string
	b.deps.Hook = func(p string) {
		if p == "only:installing" {
			conf, list = b.Read(folder(b.at())+"/apt.conf"), b.Read(folder(b.at())+"/sources.list")
		}
	}
	o := b.run(step("only", agentwire.StepPackageInstall, installs("/srv/debs", "", "demo=1.0")))[0]
	wantFailure(t, o, "install_failed", agentwire.FailureAmbiguous) // the stubs install nothing
	calls := strings.Join(b.Calls(), "\n")
	configured, update := strings.Index(calls, "dpkg --configure -a"), strings.Index(calls, "apt-get update")
	install := strings.Index(calls, "apt-get install --yes --no-install-recommends --no-remove --quiet -- demo=1.0")
	if configured < 0 || update < configured || install < update {
		t.Errorf("%s", calls)
	}
	if !strings.Contains(conf, "no-parts") || !strings.Contains(conf, `Install-Recommends "false"`) {
		t.Errorf("%s", conf)
	}
	if list != "deb [trusted=yes] file:///srv/debs ./ \n" {
		t.Errorf("%q", list)
	}
}

// A plan runs beside a task that installs. What apt is told by the one is not
// changed by the other, and nothing is left behind, not even after a crash.
func TestAPlanLeavesTheConfigurationOfAnInstallationAlone(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/apt-get", "/usr/bin/dpkg", "/usr/bin/dpkg-query")
	before, after := "", ""
	b.deps.Hook = func(p string) {
		if p != "only:installing" {
			return
		}
		before = b.Read(folder(b.at()) + "/sources.list")
		other := newBench(t)
		other.Machine, other.deps.Host, other.plan = b.Machine, b.deps.Host, true
		other.id = "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3f"
		wantOutcome(t, other.one(agentwire.StepPackageInstall, installs("/srv/others", "", "demo=2.0")),
			agentwire.StepPlanned, true)
		after = b.Read(folder(b.at()) + "/sources.list")
	}
	b.one(agentwire.StepPackageInstall, installs("/srv/debs", "", "demo=1.0"))
	if before == "" || before != after {
		t.Errorf("the sources were %q and became %q", before, after)
	}
	b.Mkdir(aptFolder + "/crashed")
	b.Mkdir(aptFolder + "/goes-on")
	New(b.deps).Start(t.Context(), func(task string) bool { return task == "goes-on" })
	if left, err := os.ReadDir(b.Path(aptFolder)); err != nil || len(left) != 1 || left[0].Name() != "goes-on" {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// at is a step of the bench's task.
func (b *bench) at() *Step {
	t := &task.Task{}
	t.TaskID = b.id
	return &Step{run: &run{task: t}}
}
