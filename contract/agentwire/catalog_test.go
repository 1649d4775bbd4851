package agentwire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

const allocation = `"allocation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c"`

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1t8Zq0 alice@example"

func terminalOpen(user, gateway string, columns, idle int) string {
	return fmt.Sprintf(
		`{"session_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","username":%q,"gateway_url":%q,"columns":%d,"rows":24,"idle_seconds":%d,"total_seconds":3600}`,
		user, gateway, columns, idle)
}

func TestTheCatalogIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range agentwire.Catalog() {
		if seen[s.Type] || s.Title == "" || s.Attempts < 1 || s.Window > 24*time.Hour {
			t.Errorf("%+v", s)
		}
		if s.Window < agentwire.Lease || s.Patience < agentwire.Lease {
			t.Errorf("%s: its window (%s) and patience (%s) must not be shorter than the lease (%s): raise them in its "+
				"type_*.go", s.Type, s.Window, s.Patience, agentwire.Lease)
		}
		seen[s.Type] = true
		switch s.Class {
		case agentwire.ClassExclusive, agentwire.ClassUser, agentwire.ClassConcurrent:
		default:
			t.Errorf("%s has class %q", s.Type, s.Class)
		}
		if found, ok := agentwire.Lookup(s.Type); !ok || found.Type != s.Type {
			t.Errorf("%s cannot be looked up", s.Type)
		}
		if len(s.Sound) == 0 {
			t.Errorf("%s has no example of its parameters", s.Type)
		}
		if s.Destroys != "" && !strings.HasSuffix(s.Destroys, ".") {
			t.Errorf("%s destroys %q", s.Type, s.Destroys)
		}
		if len(s.KeptOut) > 0 && !s.LetsIn {
			t.Errorf("%s keeps out whom it does not let in", s.Type)
		}
		for _, e := range s.Amends {
			if !slices.Contains(agentwire.EntryKinds, e.Kind) || !strings.HasPrefix(e.Name, "/") {
				t.Errorf("%s amends %+v", s.Type, e)
			}
		}
	}
	if _, ok := agentwire.Lookup("node.run_command"); ok || len(seen) == 0 {
		t.Error("there is a type that nobody knows of")
	}
}

func TestSoundParametersAreRead(t *testing.T) {
	for _, spec := range agentwire.Catalog() {
		for _, raw := range spec.Sound {
			p, err := spec.Decode(json.RawMessage(raw))
			if err != nil {
				t.Errorf("%s %s: %v", spec.Type, raw, err)
				continue
			}
			again, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := spec.Decode(again); err != nil || !reflect.DeepEqual(p, back) {
				t.Errorf("%s: %s became %s (%v)", spec.Type, raw, again, err)
			}
		}
	}
}

// The types that let somebody in, are not for operators, or hand out what
// decides whom a machine believes. A change of one is a decision.
func TestWhoGetsInByATask(t *testing.T) {
	var lets, root, reserved, needs, asks []string
	for _, s := range agentwire.Catalog() {
		if s.LetsIn {
			lets = append(lets, s.Type)
		}
		if s.GivesRoot([]byte("unreadable")) {
			root = append(root, s.Type)
		}
		if s.Reserved != "" {
			reserved = append(reserved, s.Type)
		}
		if s.Needs != "" {
			needs = append(needs, s.Type+" "+s.Needs)
		}
		if len(s.Credentials) > 0 {
			asks = append(asks, s.Type)
		}
	}
	for name, c := range map[string]struct{ got, want []string }{
		"lets in":    {lets, []string{agentwire.TypeProvisionUser, agentwire.TypeTerminalOpen}},
		"gives root": {root, []string{agentwire.TypeProvisionUser, agentwire.TypeOperationRun}},
		"reserved": {reserved, []string{
			agentwire.TypeDeprovisionUser, agentwire.TypeProvisionUser, agentwire.TypeRevokeUser,
			agentwire.TypeUpdateVerifiers, agentwire.TypeResolverConfig, agentwire.TypeOperationRun, agentwire.TypeTerminalOpen,
		}},
		"needs": {needs, []string{agentwire.TypeHWSyncReseed + " site:manage"}},
		"asks for credentials": {asks, slices.Concat(agentwire.TypesThatMayAskFor(agentwire.CredentialMAASMachineToken),
			agentwire.TypesThatMayAskFor(agentwire.CredentialSourceRead))},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	provision, _ := agentwire.Lookup(agentwire.TypeProvisionUser)
	if provision.GivesRoot([]byte(`{"sudo":false}`)) || !provision.GivesRoot([]byte(`{"sudo":true}`)) {
		t.Error("an account gives root exactly if it may use sudo")
	}
}

func TestBadParametersAreRefused(t *testing.T) {
	digest := `"digest":"sha256:` + strings.Repeat("a", 64) + `"`
	sound, _ := agentwire.Lookup(agentwire.TypeProvisionUser)
	provision := func(change string) string {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(sound.Sound[0]), &fields); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(change), &fields); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for kind, all := range map[string][]string{
		agentwire.TypeHeartbeatCheck: {`{"x":1}`, `[]`, `null`, `"{}"`, `{}{}`},
		agentwire.TypeDrain: {
			`{"reason":1}`, `{"resume":true,"revoke_users":true}`, `{"Reason":"r"}`,
			`{"reason":"` + strings.Repeat("x", 501) + `"}`,
		},
		agentwire.TypeUninstall: {`{"keep_logs":"yes"}`},
		agentwire.TypeHWSyncReseed: {
			`{}`, `{"maas_url":"file:///etc/passwd","system_id":"abc123","interval":"15m"}`,
			`{"maas_url":"http://u:p@m/","system_id":"abc123","interval":"15m"}`,
			`{"maas_url":"http://m/","system_id":"../x","interval":"15m"}`,
			`{"maas_url":"http://m/","system_id":"abc123","interval":"15m;x"}`,
			`{"maas_url":"http://m/","system_id":"abc123","interval":"15m","run_scripts_sha256":"x /etc/shadow"}`,
		},
		agentwire.TypeLoginLock: {
			`{}`, `{"username":"root"}`, `{"username":"../etc"}`, `{"username":"-x"}`,
			`{"username":"a","force":true}`,
		},
		agentwire.TypeStorageCleanup: {
			`{}`, `{"scope":"everything"}`, `{"scope":"local","scratch":["/etc"]}`, `{"scope":"local","scratch":["/"]}`,
			`{"scope":"local","scratch":["/scratch/../etc"]}`,
			`{"scope":"local","scratch":["scratch"]}`, `{"scope":"local","scratch":["/scratchy"]}`,
			`{"scope":"local","scratch":["/share3x"]}`,
			`{"scope":"local","disks":"all"}`, `{"scope":"local","disks":"/dev/sda"}`, `{"scope":"weka","disks":"sanitize"}`,
			`{"scope":"local","disks":1}`, `{"scope":"local","blank_at_join":["A"]}`,
			`{"scope":"local","disks":"sanitize","blank_at_join":[""]}`,
			`{"scope":"local","disks":"sanitize","minimum_level":"destroy"}`,
			`{"scope":"local","disks":"sanitize","minimum_level":"Purge"}`, `{"scope":"local","minimum_level":"clear"}`,
		},
		agentwire.TypeDataDisks: {`{}`, `{"action":"format"}`, `{"action":"look","destroy":true}`, `{"action":"look","disks":["a"]}`},
		agentwire.TypeGPUScrub: {`{"gpus":["a b"]}`, `{"gpus":["--all"]  ,"x":1}`, `{"gpus":[""]}`, `{"gpus":["` +
			strings.Repeat("a", 65) + `"]}`},
		agentwire.TypeValidateClean: {`{"allowed_users":["Root"]}`, `{"allowed_users":["a\nb"]}`, `{"allowed_users":["-x"]}`},
		agentwire.TypeSelfUpdate: {
			`{}`, `{"action":"update"}`, `{"action":"update","version":"../x",` + digest +
				`,"size_bytes":1,"signer_version":"s","signature":"AA=="}`,
			`{"action":"update","version":"1",` + digest + `,"size_bytes":0,"signer_version":"s","signature":"AA=="}`,
			`{"action":"update","version":"1",` + digest + `,"size_bytes":999999999999,"signer_version":"s","signature":"AA=="}`,
			`{"action":"update","version":"1",` + digest + `,"size_bytes":1,"signer_version":"s"}`,
			`{"action":"update","version":"1","digest":"md5:00","size_bytes":1,"signer_version":"s","signature":"AA=="}`,
		},
		agentwire.TypeUpdateVerifiers: {
			`{}`, `{"set":null}`, `{"set":{"version":0,"verifiers":[]}}`,
			`{"set":{"version":1,"verifiers":[{"ID":"a"}]}}`,
		},
		agentwire.TypeProvisionUser: {
			`{}`, provision(`{"username":"root"}`), provision(`{"username":"a b"}`), provision(`{"uid":0}`),
			provision(`{"uid":1000}`), provision(`{"gid":0}`), provision(`{"uid":60001}`),
			provision(`{"allocation_id":"1"}`), provision(`{"authorized_keys":["command=\"x\" ` + publicKey + `"]}`),
			provision(`{"authorized_keys":["` + publicKey + `\nssh-rsa AAAA"]}`), provision(`{"uid":20000.5}`),
			provision(`{"password":"x"}`),
		},
		agentwire.TypeDeprovisionUser: {`{` + allocation + `,"username":"root"}`, `{"username":"alice"}`, `{` + allocation +
			`,"username":"../etc"}`},
		agentwire.TypeRevokeUser:  {`{` + allocation + `,"username":""}`},
		agentwire.TypeHealthProbe: {`{"checks":[]}`},
		agentwire.TypeTerminalOpen: {
			`{}`, terminalOpen("root", "wss://g.example", 80, 600), terminalOpen("alice", "ws://g.example", 80, 600),
			terminalOpen("alice", "wss://u@g.example", 80, 600),
			terminalOpen("alice", "wss://g.example", 0, 600), terminalOpen("alice", "wss://g.example", 1001, 600),
			terminalOpen("alice", "wss://g.example", 80, 0),
			terminalOpen("alice", "wss://g.example", 80, 86401),
		},
		agentwire.TypeTerminalClose: {`{}`, `{"session_id":"1"}`},
	} {
		spec, known := agentwire.Lookup(kind)
		if !known {
			t.Fatal(kind)
		}
		for _, raw := range all {
			if p, err := spec.Decode(json.RawMessage(raw)); err == nil {
				t.Errorf("%s: %s is accepted as %+v", kind, raw, p)
			}
		}
	}
}

func TestResultsAreReadAsStrictly(t *testing.T) {
	spec, _ := agentwire.Lookup(agentwire.TypeHeartbeatCheck)
	good := `{"build":{"version":"1","commit":"c"},"now":"2026-03-01T12:00:00Z","uptime_seconds":1,"tasks_running":0,"unsent_results":0,"draining":false}`
	got, err := spec.DecodeOutput(json.RawMessage(good))
	if o, ok := got.(*agentwire.HeartbeatOutput); err != nil || !ok || o.Build.Version != "1" ||
		!o.Now.Equal(noon.Truncate(time.Second)) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		`{"x":1}`, `{"build":{"Version":"1"}}`, `{"now":"yesterday"}`, `{"uptime_seconds":1.5}`,
		`[]`, `{}x`,
	} {
		if o, err := spec.DecodeOutput(json.RawMessage(bad)); err == nil {
			t.Errorf("%s is accepted as %+v", bad, o)
		}
	}
	// Every output that the catalog knows can be written and read again.
	for _, s := range agentwire.Catalog() {
		empty, err := s.DecodeOutput(nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(empty)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := s.DecodeOutput(b); err != nil || !reflect.DeepEqual(empty, back) {
			t.Errorf("%s: %s (%v)", s.Type, b, err)
		}
	}
}

// Nothing that a node is sent makes a decoder panic. Accepted parameters are
// accepted again, with the same meaning, after they were encoded again.
func FuzzDecodeParams(f *testing.F) {
	catalog := agentwire.Catalog()
	for i, s := range catalog {
		for _, raw := range s.Sound {
			f.Add(uint8(i), []byte(raw))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		spec := catalog[int(which)%len(catalog)]
		if _, err := spec.DecodeOutput(raw); err == nil && len(raw) > 0 && !json.Valid(raw) {
			t.Fatalf("an output that is not JSON: %q", raw)
		}
		p, err := spec.Decode(raw)
		if err != nil {
			return
		}
		once, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := spec.Decode(once)
		if err != nil {
			t.Fatalf("%s: accepted %q, not %q: %v", spec.Type, raw, once, err)
		}
		twice, err := json.Marshal(q)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s: %q became %q (%v)", spec.Type, once, twice, err)
		}
	})
}
