package agentrelease_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"gpuaas/contract/agentpackage"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/agentrelease"
	"gpuaas/controlplane/internal/fleet/node"
)

type object = map[string]any

type world struct {
	db, owner *postgres.DB
	api       *httpapi.API
	service   *agentrelease.Service
	key       ed25519.PrivateKey
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{key: private}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.api = httpapitest.New(w.db)
	w.service = agentrelease.New(agentrelease.Config{
		DB: w.db, Keys: []ed25519.PublicKey{public}, ControlPlane: "v2.0.0",
	})
	w.service.Register(w.api)
	return w
}

func (w *world) call(tb testing.TB, method, path string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: httpapitest.Root, Method: method, Path: path, Body: body,
	})
}

func program(machine byte) []byte {
	p := make([]byte, 1<<20)
	copy(p, "\x7fELF\x02\x01\x01")
	p[18] = machine
	for i := 64; i < len(p); i++ { // what compresses badly is stored in several parts
		p[i] = byte(i * i >> 3)
	}
	return p
}

func pack(tb testing.TB, version string, machine byte) []byte {
	tb.Helper()
	archive, err := agentpackage.Write(version, []agentpackage.File{
		{Name: agentpackage.ProgramAgent, Mode: 0o755, Content: program(machine)},
		{Name: agentpackage.ProgramGPU, Mode: 0o755, Content: program(machine)},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return archive
}

func statement(version string, archive []byte) agentpackage.Statement {
	sum := sha256.Sum256(archive)
	return agentpackage.Statement{
		Version: version, Commit: "0123456789ab", Architecture: "amd64", Digest: hex.EncodeToString(sum[:]),
		Size: int64(len(archive)), ProtocolMin: 1, ProtocolMax: 1,
	}
}

func (w *world) sign(tb testing.TB, s agentpackage.Statement) agentpackage.Signed {
	tb.Helper()
	signed, err := agentpackage.Sign(s, w.key)
	if err != nil {
		tb.Fatal(err)
	}
	return signed
}

const (
	releases = "/api/v1/admin/agent-releases"
	uploads  = "/api/v1/admin/agent-release-uploads"
	channels = "/api/v1/admin/agent-channels/"
	versions = "/api/v1/admin/agent-versions"
)

// upload sends an archive in parts, and returns the last answer.
func (w *world) upload(tb testing.TB, signed agentpackage.Signed, archive []byte) httpapitest.Answer {
	tb.Helper()
	var at agentrelease.UploadView
	begun := w.call(tb, http.MethodPost, uploads, signed)
	if begun.Status != http.StatusCreated {
		return begun
	}
	begun.Into(tb, http.StatusCreated, &at)
	for at.Received < at.Size {
		end := min(at.Received+at.MaxPart, int64(len(archive)))
		w.call(tb, http.MethodPost, uploads+"/"+at.UploadID.String()+"/parts", object{
			"version": signed.Statement.Version, "offset": at.Received, "data": archive[at.Received:end],
		}).Into(tb, http.StatusOK, &at)
	}
	return w.call(tb, http.MethodPost, uploads+"/"+at.UploadID.String()+"/complete", signed)
}

func (w *world) release(tb testing.TB, version string) {
	tb.Helper()
	archive := pack(tb, version, 62)
	if a := w.upload(tb, w.sign(tb, statement(version, archive)), archive); a.Status != http.StatusCreated {
		tb.Fatalf("upload of %s: %d %s", version, a.Status, a.Body)
	}
}

func (w *world) wanted(tb testing.TB, channel string) string {
	tb.Helper()
	found, err := w.service.Channels(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range found {
		if string(c.Channel) == channel {
			return c.Version
		}
	}
	return "no such channel"
}

func TestAReleaseIsUploadedPromotedAndWithdrawn(t *testing.T) {
	w := newWorld(t)
	archive := pack(t, "1.4.0", 62)
	var made agentrelease.View
	w.upload(t, w.sign(t, statement("1.4.0", archive)), archive).Into(t, http.StatusCreated, &made)
	if made.Status != "available" || made.Version != "1.4.0" || len(made.Channels) != 0 {
		t.Errorf("made %+v", made)
	}
	digest, err := w.service.Digest(t.Context(), "1.4.0")
	if err != nil || digest != made.Digest {
		t.Fatalf("digest %q, %v", digest, err)
	}
	if got, err := w.service.Archive(t.Context(), digest); err != nil || !bytes.Equal(got, archive) {
		t.Errorf("the archive is another one: %v", err)
	}
	w.release(t, "1.5.0")
	promote := func(version string) httpapitest.Answer {
		return w.call(t, http.MethodPut, channels+"stable", object{"version": version, "reason": "try"})
	}
	for _, version := range []string{"1.4.0", "1.5.0", "1.5.0"} {
		if a := promote(version); a.Status != http.StatusOK || w.wanted(t, "stable") != version {
			t.Fatalf("promote %s: %d %s", version, a.Status, a.Body)
		}
	}
	promote("3.0.0").Wants(t, http.StatusNotFound, "agent_release_not_found")
	w.call(t, http.MethodPost, releases+"/1.5.0/withdraw", object{"reason": "leaks"}).Into(t, http.StatusOK, &made)
	if made.Status != "withdrawn" || made.Because != "leaks" || w.wanted(t, "stable") != "1.4.0" {
		t.Errorf("withdrawn: %+v, and stable wants %s", made, w.wanted(t, "stable"))
	}
	promote("1.5.0").Wants(t, http.StatusConflict, "agent_release_withdrawn")
	if _, err := w.service.Digest(t.Context(), "1.5.0"); fault.CodeOf(err) != "agent_release_withdrawn" {
		t.Errorf("it is still given: %v", err)
	}
	w.call(t, http.MethodPost, versions+"/block", object{"version": "1.4.0", "reason": "crashes"}).
		Into(t, http.StatusOK, &agentrelease.BlockView{})
	if got := w.wanted(t, "stable"); got != "" {
		t.Errorf("stable wants %s", got)
	}
	var entries int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action LIKE 'agent_release.%'`).
		Scan(&entries); err != nil || entries != 8 {
		t.Errorf("%d entries in the audit log, %v: two uploads, promotions and retreats, a withdrawal and a block", entries, err)
	}
}

func TestWhatIsNoReleaseIsRefused(t *testing.T) {
	w := newWorld(t)
	whole := pack(t, "1.4.0", 62)
	short, script := whole[:len(whole)-9], []byte("#!/bin/sh\n")
	arm := pack(t, "1.4.0", 183)
	stranger := newWorld(t)
	unsigned := w.sign(t, statement("1.4.0", whole))
	unsigned.Signature = []byte{}
	changed := w.sign(t, statement("1.4.0", whole))
	changed.Statement.Commit = "ba9876543210"
	for name, c := range map[string]struct {
		signed  agentpackage.Signed
		archive []byte
		code    string
	}{
		"unsigned":             {unsigned, whole, "agent_release_unsigned"},
		"changed":              {changed, whole, "agent_release_untrusted"},
		"stranger":             {stranger.sign(t, statement("1.4.0", whole)), whole, "agent_release_untrusted"},
		"truncated":            {w.sign(t, statement("1.4.0", short)), short, "agent_release_truncated"},
		"foreign architecture": {w.sign(t, statement("1.4.0", arm)), arm, "agent_release_foreign_architecture"},
		"other version":        {w.sign(t, statement("1.4.1", whole)), whole, "agent_release_mismatch"},
		"no archive":           {w.sign(t, statement("1.4.0", script)), script, "agent_release_broken"},
		"no order":             {w.sign(t, statement("dev", whole)), whole, "agent_release_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			if a := w.upload(t, c.signed, c.archive); !strings.Contains(string(a.Body), `"`+c.code+`"`) {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
	var kept int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM agent_releases`).Scan(&kept); err != nil || kept != 0 {
		t.Errorf("%d releases were made, %v", kept, err)
	}
	w.release(t, "1.4.0")
	if a := w.upload(t, w.sign(t, statement("1.4.0", whole)), whole); !strings.Contains(string(a.Body),
		"agent_release_version_taken") {
		t.Errorf("given twice: %s", a.Body)
	}
}

func TestNothingIsGivenBelowTheFloorOrAgainstAPromise(t *testing.T) {
	w := newWorld(t)
	w.release(t, "1.4.0")
	floor := func(version string) httpapitest.Answer {
		return w.call(t, http.MethodPut, versions+"/floor", object{"version": version, "reason": "leaks"})
	}
	floor("new").Wants(t, http.StatusUnprocessableEntity, "agent_version_invalid")
	floor("1.4.1").Into(t, http.StatusOK, &agentrelease.FloorView{})
	for version, code := range map[string]string{
		"1.4.0": "agent_version_below_floor", "1.0.0": "agent_version_below_floor", "c94a3f06": "agent_version_unordered",
		"1.4.1": "",
	} {
		if _, err := w.service.Digest(t.Context(),
			version); err != nil && fault.CodeOf(err) != code || (err == nil) != (code == "") {
			t.Errorf("%s: %v, not %q", version, err, code)
		}
	}
	floor("").Into(t, http.StatusOK, &agentrelease.FloorView{})
	if _, err := w.service.Digest(t.Context(), "c94a3f06"); err != nil {
		t.Errorf("without a floor: %v", err)
	}
	for version, change := range map[string]func(*agentpackage.Statement){
		"1.6.0": func(s *agentpackage.Statement) { s.ProtocolMin, s.ProtocolMax = 2, 3 },
		"1.7.0": func(s *agentpackage.Statement) { s.MinimumControlPlane = "2.0.1" },
	} {
		archive := pack(t, version, 62)
		s := statement(version, archive)
		change(&s)
		if a := w.upload(t, w.sign(t, s), archive); a.Status != http.StatusCreated {
			t.Fatalf("%s: %s", version, a.Body)
		}
		a := w.call(t, http.MethodPut, channels+"candidate", object{"version": version, "reason": "try"})
		if a.Status != http.StatusConflict {
			t.Errorf("%s is promoted: %d %s", version, a.Status, a.Body)
		}
	}
}

// Nobody assigned the nodes of before to a channel, so nothing becomes wanted of them.
func TestNodesOfBeforeAreUnassigned(t *testing.T) {
	before := postgrestest.At(t, 110)
	exec := func(statement string) {
		t.Helper()
		if _, err := before.Owner.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	add := func(name string) {
		t.Helper()
		exec(`INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
			SELECT gen_random_uuid(), 'active', '` + name + `', '', min(id), 8, 'eu-1', 'manual' FROM skus`)
	}
	want := map[string]node.Channel{
		"old": node.Unassigned, "new": node.Unassigned, "pinned": node.Pinned, "candidate": node.Candidate,
	}
	for _, name := range []string{"old", "pinned", "candidate"} {
		add(name)
	}
	exec(`UPDATE nodes SET agent_channel = hostname WHERE hostname <> 'old'`)
	before.Forward(t)
	add("new")
	for name, channel := range want {
		var got node.Channel
		if err := before.Owner.QueryRow(t.Context(), `SELECT agent_channel FROM nodes WHERE hostname = $1`, name).
			Scan(&got); err != nil || got != channel {
			t.Errorf("%s follows %q, not %q (%v)", name, got, channel, err)
		}
	}
}
