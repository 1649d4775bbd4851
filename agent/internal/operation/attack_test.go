package operation

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// A definition that an admin was talked into cannot run a shell or anything
// that runs what it is given, in any way of writing it.
func TestAttackAHostileDefinitionRunsNoShell(t *testing.T) {
	kind, _ := agentwire.LookupStep(agentwire.StepCommandExec)
	for _, profile := range []string{
		`{"id":"x","command":"/bin/sh","base_args":["-c","id"],"timeout_seconds":1}`,
		`{"id":"x","command":"/usr/bin/python3.11","base_args":["-c","1"],"timeout_seconds":1}`,
		`{"id":"x","command":"/usr/bin/env","base_args":["sh"],"timeout_seconds":1}`,
		`{"id":"x","command":"/usr/bin/../bin/bash","timeout_seconds":1}`,
		`{"id":"x","command":"/tmp/evil","timeout_seconds":1}`,
		`{"id":"x","command":"/home/tenant/bin/tool","timeout_seconds":1}`,
		`{"id":"x","command":"sh","timeout_seconds":1}`,
		`{"id":"x","command":"/usr/bin/tool","env":["LD_PRELOAD"],"timeout_seconds":1}`,
		`{"id":"x","command":"/usr/bin/tool","env":["PATH"],"timeout_seconds":1}`,
		`{"id":"x","command":"/usr/bin/tool","arguments":[{"name":"a","type":"string"}],"timeout_seconds":1}`,
		`{"id":"x","command":"/usr/sbin/chroot","base_args":["/","sh"],"timeout_seconds":1}`,
		`{"id":"x","command":"/usr/bin/systemd-run","base_args":["sh"],"timeout_seconds":1}`,
		`{"id":"x","command":"/usr/bin/sudo","base_args":["sh"],"timeout_seconds":1}`,
	} {
		if p, _, err := kind.Decode(json.RawMessage(`{"profile":` + profile + `}`)); err == nil {
			t.Errorf("%s is accepted as %+v", profile, p)
		}
	}
	// A value can be neither an option nor more than one argument.
	argument := `{"profile":{"id":"x","command":"/usr/bin/tool","timeout_seconds":1,"arguments":[{"name":"a","type":"string","pattern":".*"}]},"arguments":{"a":%q}}`
	for _, value := range []string{"--config=/etc/shadow", "-x", "a\nb", "\x00"} {
		if _, _, err := kind.Decode(json.RawMessage(fmt.Sprintf(argument, value))); err == nil {
			t.Errorf("the value %q is accepted", value)
		}
	}
	p, _, err := kind.Decode(json.RawMessage(fmt.Sprintf(argument, "a b;$(id)")))
	if err != nil {
		t.Fatal(err)
	}
	with, _ := p.(*agentwire.CommandExecWith)
	if line, err := with.Line(); err != nil || len(line) != 1 || line[0] != "a b;$(id)" {
		t.Errorf("%q %v", line, err)
	}
}

// No step writes outside its roots, nor what decides who has power.
func TestAttackAStepWritesNothingOutsideItsRoots(t *testing.T) {
	kind, _ := agentwire.LookupStep(agentwire.StepFileRender)
	for _, path := range []string{
		"/root/x", "/home/tenant/x", "/etc/shadow", "/etc/passwd", "/etc/sudoers.d/evil", "/bin/ls",
		"/usr/bin/x", "/boot/x", "/etc/ssh/sshd_config.d/x.conf", "/etc/pam.d/sshd", "/etc/ld.so.preload",
		"/proc/sys/kernel/core_pattern",
		"/etc/cron.d/x", "/var/spool/cron/crontabs/root", "/etc/gpuaas/agent.env", "/opt/gpuaas/agent/current/gpuaas-agent",
		"/var/lib/gpuaas/identity", "/etc/demo/../shadow", "/etc//shadow", "etc/x", "/dev/sda", "/etc/systemd/system.conf",
		"/etc/systemd/system/gpuaas-node-agent.service", "/etc/apt/sources.list.d/evil.list", "/etc/profile.d/x.sh",
		"/tmp/x",
	} {
		with := fmt.Sprintf(`{"path":%q,"format":"plain","template":"x","folders":true}`, path)
		if _, _, err := kind.Decode(json.RawMessage(with)); err == nil {
			t.Errorf("%s may be written", path)
		}
	}
}

// Whatever links or folders a tenant lays in the way, nothing is written
// through them and nothing is read through them.
func TestAttackALinkOfATenantIsNotFollowed(t *testing.T) {
	b := newBench(t)
	b.Write("/root/secret", "the secret of root\n")
	link := func(target, name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(b.Path(name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, b.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	link(b.Path("/root/secret"), "/etc/demo/file")
	link(b.Path("/root"), "/etc/linked")
	link("../../root", "/srv/x/up")
	if err := os.Link(b.Path("/root/secret"), b.Path("/etc/demo/hard")); err != nil {
		t.Fatal(err)
	}
	b.Mkdir("/srv/tenant")
	if err := os.Chmod(b.Path("/srv/tenant"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/etc/demo/file", "/etc/linked/secret", "/etc/linked/new/deep", "/srv/x/up/secret", "/etc/demo/hard",
		"/srv/tenant/x",
	} {
		o := b.one(agentwire.StepFileRender, render1(path, "evil\n"))
		wantFailure(t, o, "path_denied", agentwire.FailurePolicy)
		if strings.Contains(string(o.Output)+o.Error.Message, "the secret of root") {
			t.Errorf("%s: what is behind the link is told", path)
		}
	}
	if b.Read("/root/secret") != "the secret of root\n" || b.Exists("/root/new") {
		t.Error("something behind a link was changed")
	}
}

// A minted secret is in no log, output, summary or checkpoint, in whatever form
// a step writes it.
func TestAttackASecretLeaksIntoNoLog(t *testing.T) {
	const secret = "s3cr3t/Token+with=signs\"and\nlines-9f8e7d"
	b := newBench(t)
	sent := b.takeLogs()
	b.mint = func(r agentwire.MintRequest) (agentwire.Credential, error) {
		return agentwire.Credential{CredentialType: r.CredentialType, Values: map[string]string{"token": secret}}, nil
	}
	first := strings.Split(secret, "\n")[0]
	b.real("/usr/bin/printenv")
	b.real("/usr/bin/base64")
	b.Write("/srv/data/x", "user:"+first+"!")
	out := b.run(
		step("mint", agentwire.StepCredentialMint, `{"credential_type":"oci_pull","values":["token"]}`),
		step("print", agentwire.StepCommandExec, `{"profile":{"id":"p","command":"/usr/bin/printenv","env":["APP_TOKEN"],`+
			`"timeout_seconds":60},"secrets":{"APP_TOKEN":"${steps.mint.values.token}"}}`),
		step("encode", agentwire.StepCommandExec, command("/usr/bin/base64", "", "-w0", b.Path("/srv/data/x"))),
		step("file", agentwire.StepFileRender, `{"path":"/etc/demo/token","format":"json","folders":true,`+
			`"template":"{\"token\":{{token}}}","secrets":{"token":"${steps.mint.values.token}"}}`),
	)
	for _, o := range out {
		wantOutcome(t, o, agentwire.StepSucceeded, o.ID != "mint")
	}
	if !strings.Contains(b.Read("/etc/demo/token"), "lines-9f8e7d") {
		t.Error("the file does not have the secret")
	}
	told, err := json.Marshal(struct {
		Out   any
		Notes any
		Lines any
	}{out, b.notes.values, sent()})
	if err != nil {
		t.Fatal(err)
	}
	text := string(told)
	if !strings.Contains(text, hidden) {
		t.Error("nothing was hidden, so nothing was tried")
	}
	for _, form := range []string{
		first, "lines-9f8e7d", url.QueryEscape(first), hex.EncodeToString([]byte(first)),
		base64.StdEncoding.EncodeToString([]byte(first))[:20],
		base64.StdEncoding.EncodeToString([]byte("user:" + first))[8:24],
	} {
		if strings.Contains(text, form) {
			t.Errorf("%q is told: %s", form, text)
		}
	}
	// A literal secret, a secret as an argument and a secret in a plain value are
	// refused before anything runs.
	for _, bad := range []string{
		`{"profile":{"id":"p","command":"/bin/echo","timeout_seconds":1,` +
			`"arguments":[{"name":"a","type":"string","pattern":".*"}]},` +
			`"arguments":{"a":"${steps.mint.values.token}"}}`,
		`{"profile":{"id":"p","command":"/bin/echo","base_args":["${steps.mint.values.token}"],"timeout_seconds":1}}`,
		`{"profile":{"id":"p","command":"/bin/echo","env":["A"],"timeout_seconds":1},"secrets":{"A":"hunter2"}}`,
		`{"profile":{"id":"p","command":"/bin/echo","env":["A"],"timeout_seconds":1},` +
			`"env":{"A":"${steps.mint.values.token}"}}`,
	} {
		params := agentwire.OperationRunParams{
			OperationID: "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c", TargetID: "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3d",
			Definition: "test.op@v1", Digest: "sha256:" + strings.Repeat("0", 64), Steps: []agentwire.OperationStep{
				step("mint", agentwire.StepCredentialMint, `{"credential_type":"oci_pull","values":["token"]}`),
				step("use", agentwire.StepCommandExec, bad),
			},
		}
		if err := params.Validate(); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
