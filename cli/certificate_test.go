package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
)

// verifying runs the command as somebody would who never heard of a control plane.
func verifying(t *testing.T, args ...string) outcome {
	t.Helper()
	return newBench(t).run(append([]string{"certificate", "verify"}, args...)...)
}

func TestVerifyWorksOffline(t *testing.T) {
	got := verifying(t, issued+"handover_receipt.json", issued+"certificate.json", "--keys", issued+"keys.json")
	if got.exit != failure.OK || strings.Count(got.stdout, " valid ") != 2 ||
		!strings.Contains(got.err, "numbers 1 to 2 were given, without a gap") {
		t.Errorf("%+v", got)
	}
	golden(t, "output/certificate-verify.golden", got.stdout+"-- stderr --\n"+got.err)
	got = verifying(t, issued+"certificate.json", "--keys", issued+"keys.json")
	if got.exit != failure.OK || !strings.Contains(got.err, "numbers 2 to 2 were given; earlier ones were not") {
		t.Errorf("%+v", got)
	}
	b := newBench(t)
	b.in = issuedFile("handover_receipt.json")
	got = b.run("certificate", "verify", "-", "--keys", issued+"keys.json", "-o", "json")
	if got.exit != failure.OK || !strings.Contains(got.stdout, `"valid": true`) ||
		!strings.Contains(got.stdout, `"key_fingerprint": "sha256:`) {
		t.Errorf("%+v", got)
	}
}

// What show prints as JSON is the very file, which verifies.
func TestWhatIsShownVerifies(t *testing.T) {
	b := signedIn(t, newFakeAPI(t))
	for _, flags := range [][]string{{"--format", "json"}, {"-o", "json"}} {
		shown := b.run(append([]string{"certificate", "show", certificateID}, flags...)...)
		if shown.exit != failure.OK || shown.stdout != issuedFile("certificate.json") {
			t.Fatalf("%+v", shown)
		}
	}
	published := b.run("certificate", "keys", "-o", "json")
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, []byte(published.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := verifying(t, issued+"certificate.json", "--keys", keys); got.exit != failure.OK {
		t.Errorf("%+v", got)
	}
}

func TestVerifyNamesTheField(t *testing.T) {
	whole := issuedFile("certificate.json")
	for name, tc := range map[string]struct {
		from, to string
		says     string
	}{
		"a claim": {`"level":"none"`, `"level":"purg"`, "#/document/subjects/2/level: was changed"},
		"one byte": {
			`"covered_bytes":1920383410176`, `"covered_bytes":1920383410177`,
			"#/document/subjects/1/covered_bytes: was changed",
		},
		"a member":      {`"hostname":"c07u31",`, ``, "#/document/node/hostname: was removed"},
		"the signature": {`certificates-1","value":"`, `certificates-1","value":"A`, "#/signature/value: is no signature"},
		"a space":       {`{"document"`, `{ "document"`, "byte 1 differs"},
		"half a file":   {whole[len(whole)/2:], ``, "not a signed file"},
	} {
		file := filepath.Join(t.TempDir(), "changed.json")
		if err := os.WriteFile(file, []byte(strings.Replace(whole, tc.from, tc.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		got := verifying(t, issued+"handover_receipt.json", file, "--keys", issued+"keys.json")
		if got.exit != failure.Unsuccessful || !strings.Contains(got.stdout, "NOT VALID") ||
			!strings.Contains(got.err, tc.says) {
			t.Errorf("%s: %+v", name, got)
		}
		got = verifying(t, file, "--keys", issued+"keys.json", "-o", "json")
		if got.exit != failure.Unsuccessful || !strings.Contains(got.stdout, `"valid": false`) ||
			!strings.Contains(got.err, `"code":"certificate_invalid"`) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestVerifyRefusesBadInput(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	keys := issued + "keys.json"
	for args, exit := range map[string]int{
		"--keys " + keys:                                                          failure.Usage,
		issued + "certificate.json":                                               failure.Usage,
		"nowhere.json --keys " + keys:                                             failure.Usage,
		". --keys " + keys:                                                        failure.Usage,
		issued + "certificate.json --keys nowhere.json":                           failure.Usage,
		issued + "certificate.json --keys " + empty:                               failure.Usage,
		issued + "certificate.json --keys " + keys + " -o x":                      failure.Usage,
		issued + "certificate.json --keys " + issued + "certificate.json":         failure.Usage,
		empty + " --keys " + keys:                                                 failure.Unsuccessful,
		issued + "certificate.json " + issued + "certificate.json --keys " + keys: failure.Unsuccessful,
	} {
		if got := verifying(t, strings.Fields(args)...); got.exit != exit || got.err == "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
	b := signedIn(t, newFakeAPI(t))
	for _, args := range []string{
		"certificate show x", "certificate show " + certificateID + " --format pdf",
		"certificate show",
	} {
		if got := b.run(strings.Fields(args)...); got.exit != failure.Usage {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
