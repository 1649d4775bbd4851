package agentwire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

func TestTheCatalogOfStepKindsIsComplete(t *testing.T) {
	for _, k := range agentwire.StepKinds() {
		if found, ok := agentwire.LookupStep(k.Kind); !ok || found.Kind != k.Kind || k.Title == "" || len(k.Sound) == 0 {
			t.Errorf("%+v", k)
		}
		switch k.Impact {
		case agentwire.ImpactNone, agentwire.ImpactRead, agentwire.ImpactMutate, agentwire.ImpactDisrupt:
		default:
			t.Errorf("%s has impact %q", k.Kind, k.Impact)
		}
		for _, raw := range k.Sound {
			p, placed, err := k.Decode(json.RawMessage(raw))
			if err != nil {
				t.Errorf("%s %s: %v", k.Kind, raw, err)
				continue
			}
			if len(placed) > 0 {
				continue // what the references stand for is not in it
			}
			again, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			back, _, err := k.Decode(escaped(t, again))
			if err != nil || !reflect.DeepEqual(p, back) {
				t.Errorf("%s: %s became %s (%v)", k.Kind, raw, again, err)
			}
		}
		if _, err := k.Output(json.RawMessage(answerOf(k))); err != nil {
			t.Errorf("%s: what simulated agents answer: %v", k.Kind, err)
		}
		if _, err := k.Output(json.RawMessage(`{"no_such_field":1}`)); err == nil {
			t.Errorf("%s: an unknown field of an output is accepted", k.Kind)
		}
	}
}

func answerOf(k agentwire.StepKind) string {
	if k.Answer == "" {
		return "{}"
	}
	return k.Answer
}

func escaped(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	out, err := agentwire.Escape(raw)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kindOf(t *testing.T, name string) agentwire.StepKind {
	t.Helper()
	k, ok := agentwire.LookupStep(name)
	if !ok {
		t.Fatalf("no kind %s", name)
	}
	return k
}

// What is wrong is named with its path, and a reference excuses only the value
// that it stands for.
// A token is not sent where others can read it, whatever an input says.
func TestATokenIsSentByHTTPSOnly(t *testing.T) {
	kind := kindOf(t, agentwire.StepArtifactPullBlob)
	for url, accepted := range map[string]bool{"http://a.example/x": false, "https://a.example/x": true} {
		_, err := kind.DecodeFilled(json.RawMessage(pull(url, `,"token":"secret:t/a"`)))
		if (err == nil) != accepted {
			t.Errorf("%s: %v", url, err)
		}
	}
}

const anySum = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// pullOCI are parameters that unpack an artifact, with more fields.
func pullOCI(reference, more string) string {
	return fmt.Sprintf(`{"reference":"%s","bytes":1,"path":"/srv/x"%s}`, reference, more)
}

// pull are parameters that fetch a file, with more fields.
func pull(url, more string) string {
	return fmt.Sprintf(`{"url":"%s","sha256":"%064d","bytes":1,"path":"/srv/x"%s}`, url, 0, more)
}

func TestProblemsOfStepsHavePaths(t *testing.T) {
	for name, all := range map[string]map[string]string{
		agentwire.StepHealthCheck: {
			`{}`: "probes", `{"probes":[{"kind":"tcp","port":0}]}`: "probes.0.port",
			`{"probes":[{"kind":"tcp","port":"${inputs.port}","address":"10.0.0.1"}]}`: "probes.0.address",
			`{"probes":[{"kind":"file","path":"/etc/../x"}]}`:                          "probes.0.path",
			`{"probes":[{"kind":"file","path":"/x","port":1}]}`:                        "probes.0.port",
			`{"probes":[{"kind":"unit","unit":"-H evil.service"}]}`:                    "probes.0.unit",
			`{"probes":[{"kind":"shell"}]}`:                                            "probes.0.kind",
			`{"probes":[{"kind":"tcp","port":22}],"Within_seconds":1}`:                 "Within_seconds",
			`{"probes":[{"kind":"tcp","port":22,"x":{"y":1}}]}`:                        "probes.0.x",
			`{"probes":[{"kind":"tcp","port":"${inputs.port"}]}`:                       "probes.0.port",
			`{"probes":[{"kind":"file","path":"/etc/${inputs.name}"}]}`:                "probes.0.path",
			`{"probes":[{"kind":"file","path":"${environment.HOME}"}]}`:                "probes.0.path",
			`{"probes":[{"kind":"file","path":null}]}`:                                 "probes.0.path",
			`{"probes":[{"kind":"file","path":"${inputs.path|[1]}"}]}`:                 "probes.0.path",
			`{"probes":[{"kind":"http","port":80,"url_path":"http://evil.example/"}]}`: "probes.0.url_path",
			`{"probes":"all"}`:                       "",
			`{"probes":[{"kind":["tcp"]}]}`:          "probes.0.kind",
			`{"probes":{"kind":"tcp"}}`:              "probes",
			`{"probes":[{"kind":"tcp"}]} {}`:         "",
			`{"probes":[{"kind":"tcp","port":1.5}]}`: "",
		},
		agentwire.StepFileRender: {
			`{"path":"/root/x","format":"plain"}`:                                                                          "path",
			`{"path":"/etc/sudoers.d/x","format":"plain"}`:                                                                 "path",
			`{"path":"/etc/ssh/sshd_config","format":"plain"}`:                                                             "path",
			`{"path":"/etc/gpuaas/agent.env","format":"plain"}`:                                                            "path",
			`{"path":"/etc/systemd/system/gpuaas-node-agent.service","format":"systemd"}`:                                  "path",
			`{"path":"/etc/systemd/system.conf","format":"ini"}`:                                                           "path",
			`{"path":"/etc/cron.d/x","format":"plain"}`:                                                                    "path",
			`{"path":"/etc/ld.so.preload","format":"plain"}`:                                                               "path",
			`{"path":"/srv/.gpuaas-a.oci.json","format":"plain"}`:                                                          "path",
			`{"path":"/etc/demo/../shadow","format":"plain"}`:                                                              "path",
			`{"path":"/etc/demo/x","format":"lines","template":"a {{b}}","values":{"b":"c"}}`:                              "template",
			`{"path":"/etc","format":"plain"}`:                                                                             "path",
			`{"path":"/etc/demo","format":"perl"}`:                                                                         "format",
			`{"path":"/etc/demo","format":"plain","mode":"4755"}`:                                                          "mode",
			`{"path":"/etc/demo","format":"plain","mode":"0666"}`:                                                          "mode",
			`{"path":"/etc/demo","format":"plain","template":"{{a}}"}`:                                                     "template",
			`{"path":"/etc/demo","format":"plain","template":"{{a"}`:                                                       "template",
			`{"path":"/etc/demo","format":"plain","template":"{{if a}}"}`:                                                  "template",
			`{"path":"/etc/demo","format":"plain","values":{"a":1}}`:                                                       "values.a",
			`{"path":"/etc/demo","format":"plain","template":"{{a}}","values":{"a":[1]}}`:                                  "values.a",
			`{"path":"/etc/demo","format":"plain","template":"{{a}}","secrets":{"a":"hunter2"}}`:                           "secrets.a",
			`{"path":"/etc/demo","format":"plain","template":"{{a}}","secrets":{"a":"secret:x/y"}}`:                        "secrets.a",
			`{"path":"/etc/demo","action":"revert","template":"x"}`:                                                        "action",
			`{"path":"/etc/demo","action":"append"}`:                                                                       "action",
			`{"path":"/etc/demo","format":"plain","owner":"../x"}`:                                                         "owner",
			`{"path":"/etc/demo","format":"plain","template":"${inputs.whole} and more"}`:                                  "template",
			`{"path":"/etc/demo","format":"plain","template":"{{a}}","secrets":{"a":"${steps.t.values.a}"},"mode":"0644"}`: "mode",
		},
		agentwire.StepArtifactPullBlob: {
			pull("ftp://a.example/x", ""):                                                                    "url",
			pull("https://u:p@a.example/x", ""):                                                              "url",
			pull("https://a.example/x?token=1", ""):                                                          "url",
			pull("https://a.example/x?", ""):                                                                 "url",
			pull("https://a.example/x#y", ""):                                                                "url",
			pull("https://A.example/x", ""):                                                                  "url",
			pull("https://a.example", ""):                                                                    "url",
			pull("https://a.example/team/../x", ""):                                                          "url",
			pull("https://a.example/team//x", ""):                                                            "url",
			pull("https://a.example/team/%2e%2e/x", ""):                                                      "url",
			pull("https://a.example/team%2fx", ""):                                                           "url",
			pull(`https://a.example/team\\x`, ""):                                                            "url",
			pull("https:///x", ""):                                                                           "url",
			pull("https://a.example@b.example/x", ""):                                                        "url",
			pull("https://a.example/x", `,"mirrors":["file:///x"]`):                                          "mirrors.0",
			pull("https://a.example/x", `,"token":"hunter2"`):                                                "token",
			pull("https://a.example/x", `,"mode":"4755"`):                                                    "mode",
			pull("https://a.example/x", `,"parallel":17`):                                                    "parallel",
			pull("https://a.example/x", `,"mib_per_second":-1`):                                              "mib_per_second",
			pull("https://a.example/x", `,"keep_free_mib":-1`):                                               "keep_free_mib",
			`{"url":"https://a.example/x","sha256":"ABC","bytes":1,"path":"/srv/x"}`:                         "sha256",
			fmt.Sprintf(`{"url":"https://a.example/x","sha256":"%064d","bytes":0,"path":"/srv/x"}`, 0):       "bytes",
			fmt.Sprintf(`{"url":"https://a.example/x","sha256":"%064d","bytes":1,"path":"/etc/sudoers"}`, 0): "path",
		},
		agentwire.StepArtifactPullOCI: {
			pullOCI("a.example/x:latest", ""):                                     "reference",
			pullOCI("a.example/x@sha256:1", ""):                                   "reference",
			pullOCI("a.example/../x"+anySum, ""):                                  "reference",
			pullOCI("a.example/%2e%2e/x"+anySum, ""):                              "reference",
			pullOCI("https://a.example/x"+anySum, ""):                             "reference",
			pullOCI("u:p@a.example/x"+anySum, ""):                                 "reference",
			pullOCI("x"+anySum, ""):                                               "reference",
			pullOCI("a.example/x"+anySum, `,"mirrors":["b.example/x`+anySum+`"]`): "mirrors.0",
			pullOCI("a.example/x"+anySum, `,"files":-1`):                          "files",
			pullOCI("a.example/x"+anySum, `,"unpacked_bytes":-1`):                 "unpacked_bytes",
			pullOCI("a.example/x"+anySum, `,"keep_free_mib":-1`):                  "keep_free_mib",
		},
		agentwire.StepArtifactVerify: {
			`{"path":"/etc/shadow"}`: "path", `{"path":"/srv/x","sha256":"1"}`: "sha256",
			fmt.Sprintf(`{"path":"/srv/x","sha256":"%064d","bytes":-1}`, 0): "bytes",
		},
		agentwire.StepCredentialMint: {
			`{"credential_type":"root_password","values":["a"]}`: "credential_type",
			`{"credential_type":"oci_pull"}`:                     "values",
			`{"credential_type":"oci_pull","values":["A B"]}`:    "values",
		},
	} {
		kind := kindOf(t, name)
		for raw, path := range all {
			p, _, err := kind.Decode(json.RawMessage(raw))
			var problems agentwire.StepProblems
			if !errors.As(err, &problems) {
				t.Errorf("%s: %s is accepted as %+v (%v)", name, raw, p, err)
				continue
			}
			if problems[0].Path != path || problems[0].Message == "" {
				t.Errorf("%s: %s: %+v, want the path %q", name, raw, problems, path)
			}
		}
	}
}

func TestReferencesAreFoundAndFilledIn(t *testing.T) {
	kind := kindOf(t, agentwire.StepFileRender)
	with := json.RawMessage(`{"path":"${inputs.path}","format":"plain","template":"a {{name}} $${x}","values":{"name":"${steps.a.path}"},` +
		`"mode":"${inputs.mode|\"0640\"}","folders":"${inputs.folders}"}`)
	_, placed, err := kind.Decode(with)
	if err != nil {
		t.Fatal(err)
	}
	wants := map[string]string{}
	for _, p := range placed {
		wants[p.Path] = p.Wants + " " + p.String()
	}
	if want := map[string]string{
		"path": "string ${inputs.path}", "values.name": "any ${steps.a.path}", "mode": `string ${inputs.mode|"0640"}`,
		"folders": "boolean ${inputs.folders}",
	}; !reflect.DeepEqual(wants, want) {
		t.Errorf("%v", wants)
	}
	// The control plane fills in what it knows. A value that looks like a
	// reference stays a value.
	inputs := map[string]string{"path": `"/etc/demo/x"`, "folders": "true"}
	half, err := kind.Fill(with, func(r agentwire.Reference) (agentwire.Value, bool, error) {
		if r.Root != agentwire.RootInputs {
			return agentwire.Value{}, false, nil
		}
		return agentwire.Value{JSON: json.RawMessage(inputs[r.Path[0]])}, true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	evil := `"${steps.token.values.token} $${y}"`
	whole, err := kind.Fill(half, func(agentwire.Reference) (agentwire.Value, bool, error) {
		return agentwire.Value{JSON: json.RawMessage(evil)}, true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := kind.DecodeFilled(whole)
	if err != nil {
		t.Fatalf("%s: %v", whole, err)
	}
	got, ok := p.(*agentwire.FileRenderWith)
	if !ok || got.Mode != "0640" || !got.Folders || got.Path != "/etc/demo/x" || string(got.Values["name"]) != evil ||
		got.Template != "a {{name}} ${x}" {
		t.Errorf("%+v", got)
	}
}

func TestSecretsGoOnlyWhereSecretsMay(t *testing.T) {
	kind := kindOf(t, agentwire.StepFileRender)
	secret := func(r agentwire.Reference) (agentwire.Value, bool, error) {
		return agentwire.Value{JSON: json.RawMessage(`"secret:t/token"`), Secret: r.Path[0] == "t"}, true, nil
	}
	for with, sound := range map[string]bool{
		`{"path":"/etc/x/y","format":"plain","template":"{{a}}","secrets":{"a":"${steps.t.values.token}"}}`: true,
		`{"path":"/etc/x/y","format":"plain","template":"{{a}}","values":{"a":"${steps.t.values.token}"}}`:  false,
		`{"path":"/etc/x/y","format":"plain","template":"${steps.t.values.token}"}`:                         false,
		`{"path":"/etc/x/y","format":"plain","template":"{{a}}","secrets":{"a":"${steps.u.path}"}}`:         false,
	} {
		if _, err := kind.Fill(json.RawMessage(with), secret); (err == nil) != sound {
			t.Errorf("%s: %v", with, err)
		}
	}
}

func TestAnOperationIsReadAsAWhole(t *testing.T) {
	spec, _ := agentwire.Lookup(agentwire.TypeOperationRun)
	step := `{"id":"a","kind":"file.render","with":{"path":"/etc/demo/x","format":"plain"},"timeout_seconds":5,"attempts":1,"on_failure":"stop"}`
	with := func(steps, more string) string {
		return `{"operation_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","target_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3d",` +
			`"definition":"web.prepare@v1","digest":"sha256:` + strings.Repeat("0", 64) + `","begin":0` + more + `,"steps":[` + steps + `]}`
	}
	second := func(value string) string {
		return step + `,{"id":"b","kind":"file.render","with":{"path":"/etc/demo/y","format":"plain","template":"{{v}}",` + value +
			`},"timeout_seconds":5,"attempts":1,"on_failure":"stop"}`
	}
	for raw, sound := range map[string]bool{
		with(step, ""): true,
		with(second(`"values":{"v":"${steps.a.path}"}`), ""):                true,
		with(second(`"values":{"v":"${steps.a.no_such}"}`), ""):             false,
		with(second(`"values":{"v":"${steps.b.path}"}`), ""):                false,
		with(second(`"values":{"v":"${steps.c.path}"}`), ""):                false,
		with(second(`"values":{"v":"${inputs.x}"}`), ""):                    false,
		with(second(`"secrets":{"v":"${steps.a.path}"}`), ""):               false,
		with(step+","+step, ""):                                             false,
		with("", ""):                                                        false,
		with(step, `,"timeout_seconds":-1`):                                 false,
		with(strings.Replace(step, "file.render", "shell", 1), ""):          false,
		with(strings.Replace(step, `"stop"`, `"ignore"`, 1), ""):            false,
		with(strings.Replace(step, `"attempts":1`, `"attempts":99`, 1), ""): false,
		with(step, `,"earlier":{"a":{}}`):                                   false,
		strings.Replace(with(second(`"values":{"v":"${steps.a.path}"}`), `,"earlier":{"a":{"path":"/etc/demo/x","changed":true,"bytes":0}}`),
			`"begin":0`, `"begin":1`, 1): true,
		strings.Replace(with(second(`"values":{"v":"${steps.a.path}"}`), `,"earlier":{"a":{"evil":1}}`),
			`"begin":0`, `"begin":1`, 1): false,
	} {
		if _, err := spec.Decode(json.RawMessage(raw)); (err == nil) != sound {
			t.Errorf("%s: %v", raw, err)
		}
	}
	look, err := spec.Decode(json.RawMessage(spec.Sound[0]))
	if err != nil {
		t.Fatal(err)
	}
	change, err := spec.Decode(json.RawMessage(with(step, "")))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := spec.Decode(json.RawMessage(with(step, `,"plan":true`)))
	if err != nil {
		t.Fatal(err)
	}
	if spec.ClassFor(look) != agentwire.ClassConcurrent || spec.ClassFor(change) != agentwire.ClassExclusive ||
		spec.ClassFor(plan) != agentwire.ClassConcurrent {
		t.Error("what only looks is concurrent, what changes the node is exclusive")
	}
}

// Nothing that stands under "with" makes a decoder panic, and what was decoded
// once is decoded again with the same meaning.
func FuzzDecodeStep(f *testing.F) {
	kinds := agentwire.StepKinds()
	for i, k := range kinds {
		for _, raw := range k.Sound {
			f.Add(uint8(i), []byte(raw))
		}
	}
	f.Add(uint8(0), []byte(`{"probes":["${steps.a.b|1}",{"kind":"$${x}"}]}`))
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		kind := kinds[int(which)%len(kinds)]
		p, placed, err := kind.Decode(raw)
		if err != nil {
			return
		}
		if len(placed) > 0 {
			filled, err := kind.Fill(raw, func(agentwire.Reference) (agentwire.Value, bool, error) {
				return agentwire.Value{JSON: json.RawMessage(`"${steps.a.b}"`)}, true, nil
			})
			if err == nil {
				if _, left, err := kind.Decode(filled); err == nil && len(left) > 0 {
					t.Fatalf("%q: what was filled in became a reference: %s", raw, filled)
				}
			}
			return
		}
		once, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, _, err := kind.Decode(escaped(t, once))
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%s: %q became %s (%v)", kind.Kind, raw, once, err)
		}
	})
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"${inputs.a}", "${steps.a.b|1}", "$${x}", "a ${b}", `${target.facts.gpu.vendor|"x"}`, "${}", "${inputs.a|}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, is, err := agentwire.ParseReference(s)
		if err != nil || !is {
			return
		}
		again, is, err := agentwire.ParseReference(r.String())
		if err != nil || !is || !reflect.DeepEqual(r, again) {
			t.Fatalf("%q became %q (%v)", s, r, err)
		}
	})
}

// A template is read without a panic, and what it consists of gives it back.
func FuzzParseTemplate(f *testing.F) {
	for _, s := range []string{"a {{b}} c", "{{{{ {{x}}", "{{", "{{a}}{{b}}", "}}", "{{ a }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := agentwire.ParseTemplate(s)
		if err != nil {
			return
		}
		if len(p.Texts) != len(p.Names)+1 {
			t.Fatalf("%q: %+v", s, p)
		}
		var again strings.Builder
		for i, text := range p.Texts {
			again.WriteString(strings.ReplaceAll(text, "{{", "{{{{"))
			if i < len(p.Names) {
				again.WriteString("{{" + p.Names[i] + "}}")
			}
		}
		if q, err := agentwire.ParseTemplate(again.String()); err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%q became %q: %+v (%v)", s, again.String(), q, err)
		}
	})
}

// The lists of what no step runs, writes or touches have no well-known holes.
func TestListsOfWhatIsKeptOut(t *testing.T) {
	refused := func(kind, with string, wanted bool) {
		t.Helper()
		if _, _, err := kindOf(t, kind).Decode(json.RawMessage(with)); (err != nil) != wanted {
			t.Errorf("%s %s: %v", kind, with, err)
		}
	}
	for program, bad := range map[string]bool{
		"sg": true, "stdbuf": true, "prlimit": true, "setarch": true, "x86_64": true, "chrt": true, "ssh-agent": true,
		"systemd-inhibit": true, "ip": true, "unshare": true, "nsenter": true, "useradd": true, "systemctl": true,
		"iperf3": false, "nvidia-smi": false, "chronyc": false, "resize2fs": false, "ibstat": false, "sgdisk": false,
	} {
		refused(agentwire.StepCommandExec, `{"profile":{"id":"x","command":"/usr/bin/`+program+`","timeout_seconds":1}}`, bad)
	}
	for path, bad := range map[string]bool{
		"/etc/default/nginx": true, "/etc/sysctl.d/x.conf": true, "/etc/tmpfiles.d/x.conf": true,
		"/etc/modules-load.d/x.conf": true, "/etc/ld.so.anything": true, "/etc/dhcp/dhclient-exit-hooks.d/x": true,
		"/etc/ssl/openssl.cnf": true, "/run/tmpfiles.d/x.conf": true, "/usr/local/share/ca-certificates/x.crt": true,
		"/etc/systemd/system/ssh.service.d/x.conf": true, "/etc/systemd/system/runlevel6.target": true,
		"/etc/systemd/system/gpuaas-x.service": true, "/etc/systemd/system/demo.service": false,
		"/etc/systemd/system/nginx.service.d/x.conf": false, "/etc/nginx/nginx.conf": false, "/etc/ssl/private/x.pem": false,
		"/etc/defaults": false,
	} {
		refused(agentwire.StepFileRender, `{"path":"`+path+`","format":"plain","template":"x"}`, bad)
	}
	for unit, bad := range map[string]bool{
		"runlevel0.target": true, "runlevel6.target": true, "ctrl-alt-del.target": true, "procps.service": true,
		"systemd-sysctl.service": true, "dbus-org.freedesktop.login1.service": true, "soft-reboot.target": true,
		"getty@tty1.service": true, "ssh@1.service": true, "multi-user.target": true, "nginx.service": false,
		"slurmd.service": false, "docker.socket": false, "demo.target": false, "sshguard.service": false,
	} {
		refused(agentwire.StepServiceControl, `{"unit":"`+unit+`","action":"start"}`, bad)
	}
}

// A definition may write a unit. Whoever only runs it does not choose that.
func TestNoInputNamesAUnitFile(t *testing.T) {
	kind := kindOf(t, agentwire.StepFileRender)
	with := json.RawMessage(`{"path":"${inputs.path}","format":"plain","template":"{{a}}","values":{"a":"${inputs.path}"}}`)
	for path, bad := range map[string]bool{
		"/etc/systemd/system/demo.service": true, "/etc/docker/daemon.json": true, "/etc/demo/demo.conf": false,
		"/etc/dockerish": false,
	} {
		_, err := kind.Fill(with, func(agentwire.Reference) (agentwire.Value, bool, error) {
			return agentwire.Value{JSON: json.RawMessage(`"` + path + `"`)}, true, nil
		})
		var problems agentwire.StepProblems
		if bad != errors.As(err, &problems) || bad && problems[0].Path != "path" {
			t.Errorf("%s: %v", path, err)
		}
	}
}
