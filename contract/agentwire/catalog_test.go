package agentwire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

const allocation = `"allocation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c"`

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1t8Zq0 alice@example"

// sound holds parameters of every type that must be accepted.
var sound = map[string][]string{
	agentwire.TypeHeartbeatCheck: {`{}`},
	agentwire.TypeDrain: {
		`{}`, `{"reason":"r","revoke_users":true}`,
		`{"reason":"","resume":true,"revoke_users":false}`,
	},
	agentwire.TypeUninstall: {`{"keep_logs":true}`},
	agentwire.TypeHWSyncReseed: {
		`{"maas_url":"http://maas.example:5240/MAAS","system_id":"abc123","interval":"15m"}`,
		`{"maas_url":"http://m/","system_id":"abc123","interval":"15m","run_scripts_sha256":"` + strings.Repeat("ab", 32) +
			`"}`,
	},
	agentwire.TypeLoginLock: {`{"username":"hpcadmin"}`},
	agentwire.TypeStorageCleanup: {
		`{"scope":"local"}`,
		`{"scope":"all","scratch":["/scratch","/share3/tmp","/mnt/nvme0"]}`,
		`{"scope":"all","disks":"sanitize","minimum_level":"purge"}`, `{"scope":"local","disks":"sanitize"}`,
	},
	agentwire.TypeGPUScrub:      {`{"reset":true}`, `{"gpus":["GPU-0b1c"],"reset":false}`},
	agentwire.TypeValidateClean: {`{}`, `{"allowed_users":["ops","_svc-1"]}`},
	agentwire.TypeSelfUpdate: {
		`{"action":"rollback"}`,
		`{"action":"update","version":"1.2.3+b","digest":"sha256:` + strings.Repeat("a", 64) +
			`","size_bytes":1,"signer_version":"s","signature":"AA=="}`,
	},
	agentwire.TypeUpdateVerifiers: {`{"set":{"version":1,"verifiers":[{"id":"a","public_key":"` + strings.Repeat("A", 43) +
		`=","state":"active"}]}}`},
	agentwire.TypeProvisionUser: {`{` + allocation + `,"username":"alice","uid":20000,"gid":20000,"authorized_keys":["` +
		publicKey + `"],"sudo":true}`},
	agentwire.TypeDeprovisionUser: {`{` + allocation + `,"username":"alice","keep_home":true}`},
	agentwire.TypeRevokeUser:      {`{` + allocation + `,"username":"alice"}`},
	agentwire.TypeHealthProbe:     {`{}`},
	agentwire.TypeTerminalOpen:    {terminalOpen("alice", "wss://gateway.example:8444", 80, 600)},
	agentwire.TypeTerminalClose:   {`{"session_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c"}`},
}

func terminalOpen(user, gateway string, columns, idle int) string {
	return fmt.Sprintf(
		`{"session_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","username":%q,"gateway_url":%q,"columns":%d,"rows":24,"idle_seconds":%d,"total_seconds":3600}`,
		user, gateway, columns, idle)
}

func TestTheCatalogIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range agentwire.Catalog() {
		if seen[s.Type] || s.Title == "" || s.Attempts < 1 || s.Window < agentwire.Lease || s.Patience < agentwire.Lease ||
			s.Window > 24*time.Hour {
			t.Errorf("%+v", s)
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
		if len(sound[s.Type]) == 0 {
			t.Errorf("no test has parameters of %s", s.Type)
		}
	}
	if _, ok := agentwire.Lookup("node.run_command"); ok || len(seen) != len(sound) {
		t.Error("there is a type that nobody knows of")
	}
}

func TestSoundParametersAreRead(t *testing.T) {
	for kind, all := range sound {
		spec, _ := agentwire.Lookup(kind)
		for _, raw := range all {
			p, err := spec.Decode(json.RawMessage(raw))
			if err != nil {
				t.Errorf("%s %s: %v", kind, raw, err)
				continue
			}
			again, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := spec.Decode(again); err != nil || !reflect.DeepEqual(p, back) {
				t.Errorf("%s: %s became %s (%v)", kind, raw, again, err)
			}
		}
	}
}

func TestBadParametersAreRefused(t *testing.T) {
	digest := `"digest":"sha256:` + strings.Repeat("a", 64) + `"`
	provision := func(change string) string {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(sound[agentwire.TypeProvisionUser][0]), &fields); err != nil {
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
			`{"scope":"local","disks":1}`,
			`{"scope":"local","disks":"sanitize","minimum_level":"destroy"}`,
			`{"scope":"local","disks":"sanitize","minimum_level":"Purge"}`, `{"scope":"local","minimum_level":"clear"}`,
		},
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
		for _, raw := range sound[s.Type] {
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
