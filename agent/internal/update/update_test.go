package update_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/agent/internal/hostexec/hosttest"
	"gpuaas/agent/internal/update"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

var self = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("/proc/self/exe") })

type entry struct {
	name string
	body []byte
	kind byte
	link string
}

// pack makes a package; without entries, a good one of the version.
func pack(t *testing.T, version string, entries ...entry) (update.Package, []byte) {
	t.Helper()
	if len(entries) == 0 {
		program, err := self()
		if err != nil {
			t.Fatal(err)
		}
		entries = []entry{
			{name: "./", kind: tar.TypeDir},
			{name: "gpuaas-agent", body: program},
			{name: "version.txt", body: []byte(version)},
		}
	}
	var raw bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&raw, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewWriter(zipped)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		if err := files.WriteHeader(&tar.Header{
			Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.body)),
			Mode: 0o777,
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw.Bytes())
	return update.Package{Version: version, Digest: "sha256:" + hex.EncodeToString(sum[:]), SizeBytes: int64(raw.Len())},
		raw.Bytes()
}

func clock() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// installed is a machine on which version 1.0 was installed by the bootstrap.
func installed(t *testing.T) *hosttest.Machine {
	m := hosttest.New(t)
	m.Install("/opt/gpuaas/agent/1.0/gpuaas-agent")
	m.Write("/opt/gpuaas/agent/1.0/version.txt", "1.0")
	if err := os.Symlink("1.0", m.Path("/opt/gpuaas/agent/current")); err != nil {
		t.Fatal(err)
	}
	return m
}

func open(m *hosttest.Machine, running string) *update.Store {
	return update.New(m.Host(), running, clock)
}

// activated goes as far as the restart into the new version.
func activated(t *testing.T, m *hosttest.Machine, from, to string) {
	t.Helper()
	p, raw := pack(t, to)
	s := open(m, from)
	folder, err := s.Stage(t.Context(), p, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Activate("task-"+to, p, folder); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, m *hosttest.Machine, name string) string {
	t.Helper()
	to, err := os.Readlink(m.Path("/opt/gpuaas/agent/" + name))
	if err != nil {
		return ""
	}
	return to
}

func wantLinks(t *testing.T, m *hosttest.Machine, current, previous string) {
	t.Helper()
	if c, p := link(t, m, "current"), link(t, m, "previous"); c != current || p != previous {
		t.Errorf("current is %q and previous %q, want %q and %q", c, p, current, previous)
	}
}

func TestAnUpdateThatWorks(t *testing.T) {
	m := installed(t)
	m.Mkdir("/opt/gpuaas/agent/0.9")
	activated(t, m, "1.0", "2.0")
	wantLinks(t, m, "2.0", "1.0")
	if _, pending, err := open(m, "1.0").Pending(); pending || err != nil {
		t.Errorf("the old version takes itself for the one on trial (%v)", err)
	}
	s := open(m, "2.0")
	c, pending, err := s.Pending()
	if err != nil || !pending || c.From != "1.0" || c.To != "2.0" || c.TaskID != "task-2.0" {
		t.Fatalf("pending %v %+v, %v", pending, c, err)
	}
	if _, err := s.Guard(); err != nil {
		t.Fatal(err)
	}
	if err := s.Confirm(); err != nil {
		t.Fatal(err)
	}
	<-s.Settled()
	if c, _, _ = s.Last(); c.State != update.Confirmed || c.Starts != 1 {
		t.Errorf("record %+v", c)
	}
	if m.Exists("/opt/gpuaas/agent/0.9") || !m.Exists("/opt/gpuaas/agent/1.0/gpuaas-agent") {
		t.Error("the wrong versions were removed")
	}
	for range 5 {
		if back, err := s.Guard(); back || err != nil {
			t.Fatalf("the guard takes a confirmed version back: %v %v", back, err)
		}
	}
	if err := s.Rollback("too late"); err != nil {
		t.Fatal(err)
	}
	wantLinks(t, m, "2.0", "1.0")
}

func TestAVersionThatNeverConfirmsIsTakenBack(t *testing.T) {
	m := installed(t)
	activated(t, m, "1.0", "2.0")
	for start := 1; start <= 3; start++ {
		if back, err := open(m, "1.0").Guard(); back || err != nil {
			t.Fatalf("start %d: %v %v", start, back, err)
		}
	}
	back, err := open(m, "1.0").Guard()
	if !back || err != nil {
		t.Fatalf("fourth start: %v %v", back, err)
	}
	if link(t, m, "current") != "1.0" {
		t.Errorf("current is %s", link(t, m, "current"))
	}
	c, _, err := open(m, "1.0").Last()
	if err != nil || c.State != update.RolledBack || !strings.Contains(c.Reason, "started 3 times") {
		t.Errorf("record %+v, %v", c, err)
	}
}

func TestRollbackRestoresTheWayBack(t *testing.T) {
	m := installed(t)
	activated(t, m, "1.0", "2.0")
	s := open(m, "2.0")
	if err := s.Confirm(); err != nil {
		t.Fatal(err)
	}
	activated(t, m, "2.0", "3.0")
	wantLinks(t, m, "3.0", "2.0")
	s = open(m, "3.0")
	if err := s.Rollback("no contact in 60 s"); err != nil {
		t.Fatal(err)
	}
	<-s.Settled()
	wantLinks(t, m, "2.0", "1.0")
}

// The guard repairs a crash between the record and the links of a rollback.
func TestGuardFinishesARollback(t *testing.T) {
	m := installed(t)
	activated(t, m, "1.0", "2.0")
	m.Write("/var/lib/gpuaas/update.json", strings.Replace(m.Read("/var/lib/gpuaas/update.json"), "on_trial",
		"rolled_back", 1))
	back, err := open(m, "1.0").Guard()
	if !back || err != nil || link(t, m, "current") != "1.0" {
		t.Errorf("%v %v, current %s", back, err, link(t, m, "current"))
	}
}

// A crash between the record and the links of an activation leaves a trial
// without a version on trial.
func TestAnActivationThatWasCutShort(t *testing.T) {
	m := installed(t)
	activated(t, m, "1.0", "2.0")
	if err := errors.Join(os.Remove(m.Path("/opt/gpuaas/agent/current")),
		os.Symlink("1.0", m.Path("/opt/gpuaas/agent/current"))); err != nil {
		t.Fatal(err)
	}
	s := open(m, "1.0")
	if _, pending, err := s.Pending(); pending || err != nil {
		t.Errorf("pending %v, %v", pending, err)
	}
	for range 5 {
		if back, err := s.Guard(); back || err != nil {
			t.Errorf("guard %v, %v", back, err)
		}
	}
}

func TestReturnToTheVersionBefore(t *testing.T) {
	m := installed(t)
	s := open(m, "1.0")
	if err := s.Return(t.Context(), "task"); !errors.Is(err, update.ErrNoPrevious) {
		t.Fatalf("without a version before: %v", err)
	}
	activated(t, m, "1.0", "2.0")
	s = open(m, "2.0")
	if err := s.Confirm(); err != nil {
		t.Fatal(err)
	}
	if err := s.Return(t.Context(), "back"); err != nil {
		t.Fatal(err)
	}
	wantLinks(t, m, "1.0", "2.0")
	s = open(m, "1.0")
	if c, pending, err := s.Pending(); !pending || !c.Back || err != nil {
		t.Fatalf("pending %v %+v %v", pending, c, err)
	}
	if err := s.Confirm(); err != nil {
		t.Fatal(err)
	}
	wantLinks(t, m, "1.0", "2.0")
}

// Another package of the running version goes into its own folder.
func TestTheSameVersionAgain(t *testing.T) {
	m := installed(t)
	p, raw := pack(t, "1.0")
	s := open(m, "1.0")
	folder, err := s.Stage(t.Context(), p, bytes.NewReader(raw))
	if err != nil || folder == "1.0" {
		t.Fatalf("staged in %s, %v", folder, err)
	}
	if again, err := s.Stage(t.Context(), p, nil); err != nil || again != folder {
		t.Errorf("a second time in %s, %v", again, err)
	}
	if err := s.Activate("task", p, folder); err != nil {
		t.Fatal(err)
	}
	wantLinks(t, m, folder, "1.0")
}

func TestBadPackagesChangeNothing(t *testing.T) {
	program, err := self()
	if err != nil {
		t.Fatal(err)
	}
	good := entry{name: "gpuaas-agent", body: program}
	version := entry{name: "version.txt", body: []byte("2.0")}
	many := make([]entry, 100)
	for i := range many {
		many[i] = entry{name: "f" + strings.Repeat("x", i)}
	}
	for name, c := range map[string]struct {
		entries []entry
		code    string
	}{
		"parent":        {[]entry{good, version, {name: "../evil", body: []byte("x")}}, "package_unsafe"},
		"absolute":      {[]entry{good, version, {name: "/etc/evil", body: []byte("x")}}, "package_unsafe"},
		"folder":        {[]entry{good, version, {name: "sub/file", body: []byte("x")}}, "package_unsafe"},
		"symbolic link": {[]entry{{name: "gpuaas-agent", kind: tar.TypeSymlink, link: "/bin/sh"}}, "package_unsafe"},
		"hard link": {
			[]entry{good, version, {name: "passwd", kind: tar.TypeLink, link: "/etc/passwd"}},
			"package_unsafe",
		},
		"device":        {[]entry{good, version, {name: "null", kind: tar.TypeChar}}, "package_unsafe"},
		"twice":         {[]entry{good, good}, "package_unsafe"},
		"digest file":   {[]entry{good, version, {name: "package.sha256", body: []byte("x")}}, "package_unsafe"},
		"too many":      {many, "package_unsafe"},
		"no agent":      {[]entry{version}, "package_broken"},
		"not a program": {[]entry{{name: "gpuaas-agent", body: []byte("\x7fELF")}, version}, "package_broken"},
		"it fails":      {[]entry{good}, "package_broken"},
		"other version": {[]entry{good, {name: "version.txt", body: []byte("6.6")}}, "package_broken"},
		"empty":         {[]entry{{name: "./", kind: tar.TypeDir}}, "package_broken"},
		"two links deep": {
			[]entry{{name: "a", kind: tar.TypeSymlink, link: "."}, {name: "a/gpuaas-agent", body: program}},
			"package_unsafe",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := installed(t)
			p, raw := pack(t, "2.0", c.entries...)
			_, err := open(m, "1.0").Stage(t.Context(), p, bytes.NewReader(raw))
			wantRefusal(t, m, err, c.code)
		})
	}
}

func TestPackagesThatAreNotTheAnnouncedOne(t *testing.T) {
	p, raw := pack(t, "2.0")
	for name, c := range map[string]struct {
		body []byte
		code string
	}{
		"changed": {append(bytes.Clone(raw[:len(raw)-1]), raw[len(raw)-1]^1), "digest_mismatch"},
		"short":   {raw[:len(raw)/2], "digest_mismatch"},
		"longer":  {append(bytes.Clone(raw), 0), "digest_mismatch"},
		"nothing": {nil, "digest_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			m := installed(t)
			_, err := open(m, "1.0").Stage(t.Context(), p, bytes.NewReader(c.body))
			wantRefusal(t, m, err, c.code)
		})
	}
	t.Run("not compressed", func(t *testing.T) {
		m := installed(t)
		sum := sha256.Sum256([]byte("plain"))
		_, err := open(m, "1.0").Stage(t.Context(),
			update.Package{Version: "2.0", Digest: "sha256:" + hex.EncodeToString(sum[:]), SizeBytes: 5},
			strings.NewReader("plain"))
		wantRefusal(t, m, err, "package_broken")
	})
}

// wantRefusal also checks that only the version in use is left.
func wantRefusal(t *testing.T, m *hosttest.Machine, err error, code string) {
	t.Helper()
	var r *update.PackageError
	if !errors.As(err, &r) || r.Code != code {
		t.Fatalf("error %v, want a refusal with code %s", err, code)
	}
	left, err := filepath.Glob(m.Path("/opt/gpuaas/agent/*"))
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if m.Exists("/opt/gpuaas/evil") || m.Exists("/etc/evil") {
		t.Error("a file outside of its folder was written")
	}
}

func TestACancelledStageLeavesNothing(t *testing.T) {
	m := installed(t)
	p, raw := pack(t, "2.0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(m, "1.0").Stage(ctx, p, bytes.NewReader(raw)); err == nil {
		t.Fatal("staged all the same")
	}
	if left, _ := filepath.Glob(m.Path("/opt/gpuaas/agent/*")); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}

func TestADamagedRecordIsAnError(t *testing.T) {
	m := installed(t)
	m.Write("/var/lib/gpuaas/update.json", "{")
	s := open(m, "1.0")
	if _, _, err := s.Last(); err == nil {
		t.Error("Last")
	}
	if _, err := s.Guard(); err == nil {
		t.Error("Guard")
	}
	if err := s.Confirm(); err == nil {
		t.Error("Confirm")
	}
}

func TestAnAgentThatWasNotInstalledCannotBeExchanged(t *testing.T) {
	m := hosttest.New(t)
	p, raw := pack(t, "2.0")
	s := open(m, "dev")
	folder, err := s.Stage(t.Context(), p, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Activate("task", p, folder); err == nil {
		t.Error("activated all the same")
	}
}

// An agent that was killed between the two links of a return does it once more.
func TestAReturnThatWasCutShort(t *testing.T) {
	m := installed(t)
	activated(t, m, "1.0", "2.0")
	if err := open(m, "2.0").Confirm(); err != nil {
		t.Fatal(err)
	}
	if err := open(m, "2.0").Return(t.Context(), "back"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(m.Path("/opt/gpuaas/agent/current")),
		os.Symlink("2.0", m.Path("/opt/gpuaas/agent/current"))); err != nil {
		t.Fatal(err)
	}
	wantLinks(t, m, "2.0", "2.0")
	s := open(m, "2.0")
	if err := s.Return(t.Context(), "another task"); !errors.Is(err, update.ErrNoPrevious) {
		t.Errorf("for another task: %v", err)
	}
	if err := s.Return(t.Context(), "back"); err != nil {
		t.Fatal(err)
	}
	wantLinks(t, m, "1.0", "2.0")
	if err := open(m, "1.0").Rollback("no contact in 60 s"); err != nil {
		t.Fatal(err)
	}
	wantLinks(t, m, "2.0", "1.0")
}

func TestPackagesOfKilledDownloadsAreRemoved(t *testing.T) {
	m := installed(t)
	m.Write("/opt/gpuaas/agent/package-123", "x")
	m.Write("/opt/gpuaas/agent/staging-123/gpuaas-agent", "x")
	m.Write("/opt/gpuaas/agent/note", "x")
	activated(t, m, "1.0", "2.0")
	if err := open(m, "2.0").Confirm(); err != nil {
		t.Fatal(err)
	}
	if m.Exists("/opt/gpuaas/agent/package-123") || m.Exists("/opt/gpuaas/agent/staging-123") ||
		!m.Exists("/opt/gpuaas/agent/note") {
		t.Error("the wrong files were removed")
	}
}
