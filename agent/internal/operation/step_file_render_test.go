package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

func TestAFileIsWrittenOnceAndBroughtBack(t *testing.T) {
	b := newBench(t)
	write := func(text string) agentwire.StepOutcome {
		t.Helper()
		return b.one(agentwire.StepFileRender, render1("/etc/demo/a", text))
	}
	wantOutcome(t, write("one\ntwo\nthree\n"), agentwire.StepSucceeded, true)
	wantOutcome(t, write("one\ntwo\nthree\n"), agentwire.StepSucceeded, false) // the second time changes nothing
	o := write("one\n2\nthree\n")
	wantOutcome(t, o, agentwire.StepSucceeded, true)
	out := outputOf[agentwire.FileRenderResult](t, o)
	if out.Diff != "@@ line 1 @@\n one\n-two\n+2\n three\n" || out.Created || out.Before == "" || out.Mode != "0644" {
		t.Errorf("%+v", out)
	}
	revert := func(action string) agentwire.StepOutcome {
		t.Helper()
		return b.one(agentwire.StepFileRender, fmt.Sprintf(`{"path":"/etc/demo/a","action":%q}`, action))
	}
	for _, changed := range []bool{true, false} {
		wantOutcome(t, revert("revert"), agentwire.StepSucceeded, changed)
		if b.Read("/etc/demo/a") != "one\ntwo\nthree\n" {
			t.Errorf("%q", b.Read("/etc/demo/a"))
		}
	}
	for _, changed := range []bool{true, false} {
		wantOutcome(t, revert("remove"), agentwire.StepSucceeded, changed)
	}
	if b.Exists("/etc/demo/a") {
		t.Error("not removed")
	}
	wantOutcome(t, revert("revert"), agentwire.StepSucceeded, true)
	wantFailure(t, b.one(agentwire.StepFileRender, `{"path":"/etc/demo/never","action":"revert"}`), "no_backup",
		agentwire.FailurePermanent)
	wantFailure(t, b.one(agentwire.StepFileRender, `{"path":"/etc/none/x","format":"plain"}`), "folder_missing",
		agentwire.FailurePermanent)
	wantFailure(t, b.one(agentwire.StepFileRender, `{"path":"/etc/demo/x","format":"plain","owner":"nobodyelse"}`),
		"account_missing", agentwire.FailurePermanent)
	// What not everybody may read is not shown.
	b.Write("/etc/demo/private", "the secret\n")
	o = b.one(agentwire.StepFileRender, render1("/etc/demo/private", "other\n"))
	if strings.Contains(string(o.Output), "the secret") {
		t.Errorf("%s", o.Output)
	}
	info, err := os.Stat(b.Path(backups))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
}

// Whatever a value is, it becomes one scalar of its format.
func TestValuesAreEscapedForTheirFormat(t *testing.T) {
	for _, c := range []struct{ format, value, want string }{
		{"json", "a\"b\nc", `"a\"b\nc"`},
		{"yaml", "x: [1, 2]\n- y", `"x: [1, 2]\n- y"`},
		{"toml", `a"b\c`, `"a\"b\\c"`},
		{"env", "a\"$b`c\\", "\"a\\\"\\$b\\`c\\\\\""},
		{"ini", "a b=c", "a b=c"},
		{"plain", "a b", "a b"},
		{"lines", "a\n\tb\n", "a\n\tb\n"},
		{"lines", "a\rb", ""},
		{"systemd", "/usr/bin/x%i", "/usr/bin/x%%i"},
		{"ini", "a\n[section]", ""},
		{"ini", "[x]", ""},
		{"ini", "a ;b", ""},
		{"plain", "a\nb", ""},
		{"toml", "a\nb", ""},
		{"env", "a\nB=c", ""},
		{"systemd", "a b", ""},
		{"systemd", "a;b", ""},
		{"systemd", "$HOME", ""},
		{"systemd", "", ""},
		{"systemd", "a\nExecStart=/bin/sh", ""},
	} {
		got, err := escape(c.format, c.value, nil)
		if c.want == "" && err == nil || c.want != "" && got != c.want {
			t.Errorf("%s %q became %q (%v)", c.format, c.value, got, err)
		}
	}
	w := &agentwire.FileRenderWith{
		Format: "json", Template: "{{a}} {{{{ {{ b }}", Values: map[string]json.RawMessage{"a": []byte(`7`), "b": []byte(`"{{a}}"`)},
	}
	out, err := render(w, func(agentwire.Secret) (string, error) { return "", errors.New("none") })
	if err != nil || string(out) != `7 {{ "{{a}}"` {
		t.Errorf("%q %v", out, err)
	}
}
