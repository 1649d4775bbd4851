package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// events are what go test -json says of two packages: one passes, one fails.
const events = `{"Action":"start","Package":"gpuaas/a"}
{"Action":"output","Package":"gpuaas/a","Test":"TestQuick","Output":"    a_test.go:1: chatter of a test that passes\n"}
{"Action":"pass","Package":"gpuaas/a","Test":"TestQuick","Elapsed":0.5}
{"Action":"pass","Package":"gpuaas/a","Test":"TestSlow/part","Elapsed":20}
{"Action":"pass","Package":"gpuaas/a","Test":"TestSlow","Elapsed":21}
{"Action":"output","Package":"gpuaas/a","Output":"ok  \tgpuaas/a\t22s\n"}
{"Action":"pass","Package":"gpuaas/a","Elapsed":22}
{"Action":"output","Package":"gpuaas/none","Output":"?   \tgpuaas/none\t[no test files]\n"}
{"Action":"skip","Package":"gpuaas/none","Elapsed":0}
{"Action":"output","Package":"gpuaas/b","Test":"TestFine","Output":"    b_test.go:1: more chatter\n"}
{"Action":"pass","Package":"gpuaas/b","Test":"TestFine","Elapsed":1}
{"Action":"output","Package":"gpuaas/b","Test":"TestBroken/part","Output":"    b_test.go:9: got 1, want 2\n"}
{"Action":"output","Package":"gpuaas/b","Test":"TestBroken/part","Output":"--- FAIL: TestBroken/part (0.10s)\n"}
{"Action":"fail","Package":"gpuaas/b","Test":"TestBroken/part","Elapsed":0.1}
{"Action":"fail","Package":"gpuaas/b","Test":"TestBroken","Elapsed":0.1}
{"Action":"fail","Package":"gpuaas/b","Elapsed":3}
`

func follow(t *testing.T, in string) (out string, failed bool) {
	t.Helper()
	var said strings.Builder
	failed, err := run(nil, 20, false, strings.NewReader(in), &said)
	if err != nil {
		t.Fatal(err)
	}
	return said.String(), failed
}

func summary(t *testing.T, most int, ins ...string) (out string, failed bool) {
	t.Helper()
	var files []string
	for i, in := range ins {
		files = append(files, filepath.Join(t.TempDir(), string(rune('a'+i))))
		if err := os.WriteFile(files[i], []byte(in), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said strings.Builder
	failed, err := run(files, most, false, nil, &said)
	if err != nil {
		t.Fatal(err)
	}
	return said.String(), failed
}

func TestFollowingTellsWhatEndedAndWhyItFailed(t *testing.T) {
	out, failed := follow(t, "go: downloading something\n"+events)
	if !failed {
		t.Error("the failure was not noticed")
	}
	for _, want := range []string{
		"go: downloading", "22.0 s  a\n", "21.0 s  a TestSlow\n", "got 1, want 2",
		"FAIL gpuaas/b\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	for _, noise := range []string{"chatter", "no test files", "TestQuick", "part\n     "} {
		if strings.Contains(out, noise) {
			t.Errorf("it says %q:\n%s", noise, out)
		}
	}
}

func TestTheSummaryNamesTheSlowestFirstAndWhatFailed(t *testing.T) {
	other := `{"Action":"pass","Package":"gpuaas/c","Test":"TestSlowest","Elapsed":70}` + "\n" +
		`{"Action":"pass","Package":"gpuaas/c","Elapsed":71}`
	out, failed := summary(t, 2, events, other)
	want := `
the slowest packages:
     71.0 s  c
     22.0 s  a

the slowest tests:
     70.0 s  c TestSlowest
     21.0 s  a TestSlow

what failed:
FAIL gpuaas/b
    b_test.go:9: got 1, want 2
--- FAIL: TestBroken/part (0.10s)
`
	if !failed || out != want {
		t.Errorf("failed: %v, it says\n%s\nwant\n%s", failed, out, want)
	}
}

func TestEverythingThatIsNoPassIsAFailure(t *testing.T) {
	for name, in := range map[string]string{
		"does not build": `{"ImportPath":"gpuaas/b","Action":"build-output","Output":"b.go:3: undefined: x\n"}
{"ImportPath":"gpuaas/b","Action":"build-fail"}`,
		"panic": `{"Action":"output","Package":"gpuaas/b","Test":"TestX","Output":"panic: test timed out after 1s\n"}
{"Action":"fail","Package":"gpuaas/b","Elapsed":1}`,
		"without a verdict": `{"Action":"start","Package":"gpuaas/b"}
{"Action":"run","Package":"gpuaas/b","Test":"TestX"}
{"Action":"output","Package":"gpuaas/b","Test":"TestX","Output":"=== RUN TestX\n"}`,
	} {
		out, failed := summary(t, 1, in)
		if !failed || !strings.Contains(out, "FAIL gpuaas/b") || !strings.Contains(out, name) {
			t.Errorf("%s: failed: %v\n%s", name, failed, out)
		}
	}
	if _, err := run(nil, 1, false, strings.NewReader("make: nothing to be done\n"), &strings.Builder{}); err == nil {
		t.Error("a run that tested nothing passes")
	}
}

func TestAPackageThatPassesAtTheSecondTryIsUnsteadyNotFailed(t *testing.T) {
	second := `{"Action":"pass","Package":"gpuaas/b","Test":"TestBroken","Elapsed":0.1}` + "\n" +
		`{"Action":"pass","Package":"gpuaas/b","Elapsed":1}`
	out, failed := summary(t, 1, events, second)
	if failed || !strings.Contains(out, "unsteady, mend it:\nFAIL gpuaas/b\n    b_test.go:9: got 1, want 2\n") {
		t.Errorf("failed: %v\n%s", failed, out)
	}
	if out, failed := summary(t, 1, events, events); !failed || strings.Contains(out, "unsteady") {
		t.Errorf("a package that failed twice: failed: %v\n%s", failed, out)
	}
}

func TestWhatIsWorthASecondTry(t *testing.T) {
	many := strings.Builder{}
	for _, name := range strings.Fields("A B C D E F G H I") {
		many.WriteString(`{"Action":"fail","Package":"gpuaas/b","Test":"Test` + name + `","Elapsed":1}` + "\n")
	}
	for name, c := range map[string]struct{ in, want string }{
		"a failed test":    {events, "gpuaas/b ^(TestBroken)$\n"},
		"a killed package": {`{"Action":"fail","Package":"gpuaas/b","Elapsed":1}`, "gpuaas/b .\n"},
		"a broken build":   {events + `{"ImportPath":"gpuaas/c","Action":"build-fail"}`, ""},
		"too many":         {many.String() + `{"Action":"fail","Package":"gpuaas/b","Elapsed":1}`, ""},
	} {
		file := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(file, []byte(c.in), 0o600); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		if _, err := run([]string{file}, 1, true, nil, &said); err != nil {
			t.Fatal(err)
		}
		if said.String() != c.want {
			t.Errorf("%s: %q, want %q", name, said.String(), c.want)
		}
	}
}
