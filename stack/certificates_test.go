package stack

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCertificatesAreMadeOnceAndReplacedInTime(t *testing.T) {
	c := certificates{filepath.Join(t.TempDir(), "tls")}
	now := time.Now()
	read := func() string {
		t.Helper()
		b, err := os.ReadFile(c.ca())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	ensure := func(at time.Time) string {
		t.Helper()
		if err := c.ensure(at); err != nil {
			t.Fatal(err)
		}
		if err := c.goodAt(at.Add(certificateLife / 3)); err != nil {
			t.Errorf("not good for a third of their life: %v", err)
		}
		return read()
	}
	first := ensure(now)
	if ensure(now.Add(certificateLife/3)) != first {
		t.Error("certificates that are good were replaced")
	}
	if ensure(now.Add(certificateLife*2/3)) == first {
		t.Error("certificates of which less than half is left were kept")
	}
	for _, broken := range []string{c.ca(), c.server(), c.serverKey(), c.client(), c.clientKey()} {
		before := read()
		if err := os.Remove(broken); err != nil {
			t.Fatal(err)
		}
		if ensure(now) == before {
			t.Errorf("a set without %s was kept", broken)
		}
	}
	other := certificates{filepath.Join(t.TempDir(), "tls")}
	if err := other.ensure(now); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other.client(), c.client()); err != nil { // as a kill between two files leaves it
		t.Fatal(err)
	}
	ensure(now)
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) != 5 {
		t.Errorf("%d files (%v), want five: the key of the CA is not kept", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", e.Name(), info.Mode(), err)
		}
	}
}

// A state folder of a launcher that did not know TLS.
func TestAFolderWithoutCertificatesGoesOn(t *testing.T) {
	dir := state(t)
	s := start(t, Options{State: dir, Only: []Engine{Temporal}})
	if err := putTemporal(t.Context(), s.Endpoints()); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	if err := os.RemoveAll(filepath.Join(dir, "temporal", "tls")); err != nil {
		t.Fatal(err)
	}
	s = start(t, Options{State: dir, Only: []Engine{Temporal}})
	if err := findTemporal(t.Context(), s.Endpoints()); err != nil {
		t.Error(err)
	}
}
