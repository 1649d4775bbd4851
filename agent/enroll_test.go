package agent

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/planetest"
	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

func fresh(t *testing.T) *rig {
	t.Helper()
	r := &rig{Plane: planetest.New(t), t: t}
	r.root = r.HostRoot()
	return r
}

func (r *rig) tryEnroll(token string) (Enrolled, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	return Enroll(ctx, Options{HostRoot: r.root, Build: testBuild}, token, nil)
}

func TestEnrolment(t *testing.T) {
	r := fresh(t)
	before, err := os.ReadFile(filepath.Join(r.root, config.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.tryEnroll(" " + r.Token() + "\n")
	if err != nil || got.NodeID != planetest.Node {
		t.Fatalf("%+v, %v", got, err)
	}
	r.Await("an authenticated poll", func(s *planetest.Seen) bool { return s.Polls == 1 && s.Serials == 1 })
	for name, mode := range map[string]os.FileMode{"key.pem": 0o600, "cert.pem": 0o600, "install-id": 0o600} {
		info, err := os.Stat(filepath.Join(r.root, "var/lib/gpuaas/identity", name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	after, err := os.ReadFile(filepath.Join(r.root, config.CAFile))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("enrolment changed what verifies the control plane: %v", err)
	}
	nodes, err := os.ReadFile(filepath.Join(r.root, config.NodeCAFile))
	if err != nil || bytes.Contains(nodes, before) {
		t.Errorf("the trust stores were merged: %v", err)
	}
}

func TestEnrolmentIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*rig) string
		want    string
	}{
		"without a token": {func(*rig) string { return "" }, "one word"},
		"with two words":  {func(*rig) string { return "a b" }, "one word"},
		"a foreign token": {func(*rig) string { return "foreign" }, agentwire.CodeTokenInvalid},
		"of another node": {func(r *rig) string {
			r.setEnv(
				"GPUAAS_NODE_ID=01890000-0000-7000-8000-000000000009")
			return r.Token()
		}, "the token belongs to node " + planetest.Node},
		"by somebody else": {
			func(r *rig) string { r.setCA(planetest.New(r.t).ServerCA()); return r.Token() },
			transport.CodeServerUnknownIssuer,
		},
		"by an IP address": {
			func(r *rig) string { r.setEnv("GPUAAS_API_URL=https://127.0.0.1:1"); return r.Token() },
			"GPUAAS_ALLOW_IP_URL",
		},
		"when it is fenced": {func(r *rig) string {
			r.refuse(403, agentwire.CodeNodeFenced,
				"/tasks/wait")
			return r.Token()
		}, "its first poll failed"},
		"when it expired": {
			func(r *rig) string { r.refuse(401, agentwire.CodeTokenExpired, "/enroll"); return r.Token() },
			agentwire.CodeTokenExpired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := fresh(t)
			if _, err := r.tryEnroll(c.prepare(r)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func (r *rig) setEnv(line string) {
	r.t.Helper()
	name, _, _ := strings.Cut(line, "=")
	path := filepath.Join(r.root, config.EnvFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	out := []string{line + "\n"}
	for l := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(l, name+"=") {
			out = append(out, l)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(out, "")), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) setCA(bundle string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.root, config.CAFile), []byte(bundle), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) refuse(status int, code, path string) {
	r.Update(func(s *planetest.Settings) {
		s.Refuse = func(q *http.Request) *agentwire.Problem {
			if strings.HasSuffix(q.URL.Path, path) {
				return &agentwire.Problem{Status: status, Code: code, Detail: "no"}
			}
			return nil
		}
	})
}

// The first machine uses the token up. That machine may ask again until it has
// its answer, because its key was on the disk before it asked.
func TestALostAnswerOfAnEnrolment(t *testing.T) {
	r := fresh(t)
	var lost atomic.Int32
	r.Update(func(s *planetest.Settings) {
		s.Drop = func(q *http.Request) bool { return strings.HasSuffix(q.URL.Path, "/enroll") && lost.Add(1) == 1 }
	})
	token := r.Token()
	if _, err := r.tryEnroll(token); err != nil {
		t.Fatal(err)
	}
	if lost.Load() != 2 {
		t.Errorf("asked %d times", lost.Load())
	}
	other := fresh(t)
	other.Plane = r.Plane
	other.root = r.HostRoot()
	_, err := other.tryEnroll(token)
	if transport.CodeOf(err) != agentwire.CodeTokenInvalid || Remedy(err) == "" {
		t.Errorf("another machine with the same token: %v", err)
	}
}

func TestATaskOfTheFirstPollIsNotLost(t *testing.T) {
	r := fresh(t)
	e := r.probe(nil)
	r.Deliver(e)
	r.enroll()
	r.start(map[string]task.Handler{agentwire.TypeHealthProbe: counting{root: r.root}})
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("result %+v", got)
	}
}

func TestACopyOfTheDiskIsAnotherMachine(t *testing.T) {
	r := newRig(t)
	instance := func() string {
		t.Helper()
		a, err := open(Options{HostRoot: r.root}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		return a.client.Header().Get(agentwire.HeaderAgentInstance)
	}
	one := instance()
	if again := instance(); again != one || len(one) != 64 {
		t.Errorf("the same machine is %q and %q", one, again)
	}
	if err := os.MkdirAll(filepath.Join(r.root, "sys/class/dmi/id"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.root, "sys/class/dmi/id/product_uuid"), []byte("AAAA"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other := instance(); other == one {
		t.Error("another machine has the same fingerprint")
	}
}

// A bundle that does not verify the control plane that sent it is not used,
// whoever has signed it.
func TestATrustBundleIsTakenOverOnlyWhenItFits(t *testing.T) {
	for name, c := range map[string]struct {
		bundle  func(*rig) string
		refused string
	}{
		"with another authority added": {bundle: func(r *rig) string { return planetest.New(r.t).ServerCA() + r.ServerCA() }},
		"of somebody else": {
			func(r *rig) string { return planetest.New(r.t).ServerCA() },
			agentwire.CodeTrustUnfit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			bundle := c.bundle(r)
			r.Update(func(s *planetest.Settings) { s.Bundle, s.Trust.BundleVersion = planetest.BundleOf("2", bundle), 2 })
			r.start(nil)
			if c.refused != "" {
				testkit.Eventually(r.t, "the refusal in the status", func() bool { return r.status().TrustRefused != nil })
			} else {
				r.Await("the new bundle reported", func(s *planetest.Seen) bool { return s.TrustBundles[sha256Of(bundle)] })
			}
			raw, err := os.ReadFile(filepath.Join(r.root, config.CAFile))
			if err != nil || (string(raw) == bundle) != (c.refused == "") {
				t.Errorf("taken over: %v; %v", string(raw) == bundle, err)
			}
			if got := r.status().TrustRefused; c.refused != "" && got.Code != c.refused {
				t.Errorf("refused as %+v", got)
			}
			e := r.probe(nil)
			r.Deliver(e)
			r.Result(e.TaskID)
		})
	}
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	r := fresh(t)
	check := func(name, status, detail string) {
		t.Helper()
		if c := find(Doctor(t.Context(), Options{HostRoot: r.root}), name); c.Status != status ||
			!strings.Contains(c.Detail, detail) {
			t.Errorf("%s: %+v, want %s with %q", name, c, status, detail)
		}
	}
	check("identity", CheckFailed, "not enrolled")
	r.enroll()
	check("agent", CheckFailed, "not running")
	r.start(nil)
	testkit.Eventually(r.t, "connected", func() bool { return r.status().State == StateConnected })
	for _, c := range Doctor(t.Context(), Options{HostRoot: r.root}) {
		if c.Status != CheckOK {
			t.Errorf("a healthy node: %+v", c)
		}
	}
	r.Await("one session besides that of the enrolment", func(s *planetest.Seen) bool { return s.Sessions == 2 })
	if err := os.Chmod(filepath.Join(r.root, "var/lib/gpuaas/identity/key.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("key", CheckFailed, "others can read it")
	if err := os.WriteFile(filepath.Join(r.root, config.NodeCAFile), []byte(r.ServerCA()), 0o600); err != nil {
		t.Fatal(err)
	}
	check("node certificate authority", CheckFailed, "not issued by")
	r.Stop()
	check("control plane", CheckFailed, "cannot be reached")
	if err := os.Remove(filepath.Join(r.root, config.EnvFile)); err != nil {
		t.Fatal(err)
	}
	check("settings", CheckFailed, "does not exist")
}
