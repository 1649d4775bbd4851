package enroll_test

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/enroll"
	"gpuaas/agent/internal/planetest"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

func enrolled(t *testing.T) (*planetest.Plane, config.Config) {
	t.Helper()
	plane := planetest.New(t)
	c, err := config.Load(plane.HostRoot(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enroll.NewStore(c).Load(); !errors.Is(err, enroll.ErrNotEnrolled) {
		t.Errorf("before enrolment: %v", err)
	}
	if _, _, err := enroll.Enroll(t.Context(), enroll.Options{Config: c, Session: "s", Now: time.Now},
		plane.Token()); err != nil {
		t.Fatal(err)
	}
	return plane, c
}

func renew(t *testing.T, c config.Config) *enroll.Identity {
	t.Helper()
	s := enroll.NewStore(c)
	id, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := s.Roots()
	if err != nil {
		t.Fatal(err)
	}
	trust, err := s.OpenTrust(id.Domain)
	if err != nil {
		t.Fatal(err)
	}
	client := transport.New(transport.Options{
		Base: c.API, Roots: roots, Node: id.Node, Now: time.Now,
		Certificate: func() *tls.Certificate { return id.Certificate },
	})
	next, err := s.Renew(t.Context(), client, trust, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Whatever file a crash leaves behind in the middle of a renewal, there is one
// pair of key and certificate that fits, and the next renewal works.
func TestAnInterruptedRenewalLeavesAPairThatFits(t *testing.T) {
	file := func(c config.Config, name string) string { return filepath.Join(c.Identity(), name) }
	for name, crash := range map[string]func(*testing.T, config.Config){
		"the next key was made": func(t *testing.T, c config.Config) {
			must(t, os.WriteFile(file(c, "key-next.pem"), otherKey(t), 0o600))
		},
		"half of the next key was written": func(t *testing.T, c config.Config) {
			must(t, os.WriteFile(file(c, "key-next.pem"), []byte("-----BEGIN PRI"), 0o600))
		},
		"the certificate is there, the key not in its place": func(t *testing.T, c config.Config) {
			must(t, os.Rename(file(c, "key.pem"), file(c, "key-next.pem")))
		},
		"and an older key is in it": func(t *testing.T, c config.Config) {
			must(t, os.Rename(file(c, "key.pem"), file(c, "key-next.pem")))
			must(t, os.WriteFile(file(c, "key.pem"), otherKey(t), 0o600))
		},
		"what goes with the certificate is missing": func(t *testing.T,
			c config.Config,
		) {
			must(t, os.Remove(file(c, "issued.json")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := enrolled(t)
			before, err := enroll.NewStore(c).Load()
			must(t, err)
			crash(t, c)
			after, err := enroll.NewStore(c).Load()
			must(t, err)
			if after.Serial != before.Serial || !after.RenewAfter.Before(after.NotAfter) {
				t.Errorf("identity %+v", after)
			}
			if next := renew(t, c); next.Serial == before.Serial {
				t.Error("not renewed")
			}
			if _, err := os.Stat(file(c, "key-next.pem")); err == nil {
				t.Error("the next key is still waiting")
			}
		})
	}
}

func otherKey(t *testing.T) []byte {
	t.Helper()
	_, c := enrolled(t)
	raw, err := os.ReadFile(filepath.Join(c.Identity(), "key.pem"))
	must(t, err)
	return raw
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnIdentityThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, config.Config) config.Config{
		"without its key": func(t *testing.T, c config.Config) config.Config {
			must(t, os.Remove(filepath.Join(c.Identity(), "key.pem")))
			return c
		},
		"with a broken certificate": func(t *testing.T, c config.Config) config.Config {
			must(t, os.WriteFile(filepath.Join(c.Identity(), "cert.pem"), []byte("x"), 0o600))
			return c
		},
		"of another node": func(_ *testing.T, c config.Config) config.Config {
			c.NodeID = "01890000-0000-7000-8000-000000000002"
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := enrolled(t)
			if _, err := enroll.NewStore(spoil(t, c)).Load(); err == nil || errors.Is(err, enroll.ErrNotEnrolled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestVerifierSets(t *testing.T) {
	plane, c := enrolled(t)
	trust, err := enroll.NewStore(c).OpenTrust(planetest.Domain)
	must(t, err)
	for _, step := range []struct{ version, want int64 }{{3, 3}, {2, 3}, {3, 3}, {4, 4}} {
		plane.Update(func(s *planetest.Settings) { s.Verifiers.Version = step.version })
		if _, err := trust.Take(plane.Statements(), nil, time.Now()); err != nil || trust.Verifiers().Version() != step.want {
			t.Errorf("version %d: %d, %v", step.version, trust.Verifiers().Version(), err)
		}
	}
	empty := plane.State(agentwire.Statement{
		About: agentwire.AboutVerifiers, Domain: planetest.Domain, Version: 5,
		Verifiers: &agentwire.VerifierSet{Version: 5},
	})
	if _, err := trust.Take([]agentwire.Statement{empty}, nil, time.Now()); err == nil {
		t.Error("a set without keys was adopted")
	}
	again, err := enroll.LoadVerifiers(c.Verifiers())
	must(t, err)
	if again.Version() != 4 {
		t.Errorf("version %d on the disk", again.Version())
	}
	must(t, os.WriteFile(c.Verifiers(), []byte(`{"version":1}`), 0o600))
	if _, err := enroll.LoadVerifiers(c.Verifiers()); err == nil {
		t.Error("a broken set was loaded")
	}
}

// A refusal is reported for long enough, and not for ever.
func TestARefusalIsRememberedForAWhile(t *testing.T) {
	plane, c := enrolled(t)
	open := func() *enroll.Trust {
		t.Helper()
		trust, err := enroll.NewStore(c).OpenTrust(planetest.Domain)
		must(t, err)
		return trust
	}
	good := plane.Statements()
	now := time.Now()
	forged := planetest.New(t)
	forged.Update(func(s *planetest.Settings) { s.Verifiers.Version = 2 })
	if _, err := open().Take(forged.Statements(), nil, now); err == nil {
		t.Fatal("statements of another control plane were taken over")
	}
	for _, step := range []struct {
		after time.Duration
		told  bool
	}{{time.Minute, true}, {50 * time.Minute, true}, {2 * time.Hour, false}} {
		if _, err := open().Take(good, nil, now.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		if told := open().Refused() != nil; told != step.told {
			t.Errorf("after %s: told %v", step.after, told)
		}
	}
}
