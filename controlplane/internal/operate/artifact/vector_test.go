package artifact

import (
	"os"
	"strings"
	"testing"
)

// A bundle that sigstore-go v1.3.0 has signed is read as it is meant, and in no other way.
func TestABundleOfSigstore(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/sigstore-go.json")
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile("testdata/sigstore-go.pub")
	if err != nil {
		t.Fatal(err)
	}
	keys := []Key{{Name: "release", PEM: string(public), Repositories: []string{"registry.example/team"}}}
	of := subject{"registry.example/team/llm", "sha256:f0d2f87a458889af4e52cd904f9eb55751fdfb49a1703453522955273428173e"}
	if k, err := of.checkBundle(raw, keys); err != nil || k.Name != "release" {
		t.Errorf("as it is: %+v, %v", k, err)
	}
	for what, c := range map[string]struct{ repository, digest, old, new string }{
		"another digest":     {of.repository, strings.Replace(of.digest, "f0d2", "f0d3", 1), "", ""},
		"another repository": {"registry.example/teams/llm", of.digest, "", ""},
		"another signature":  {of.repository, of.digest, `"sig":"MEYC`, `"sig":"MEYD`},
		"another payload":    {of.repository, of.digest, `"payload":"eyJf`, `"payload":"eyJg`},
	} {
		if !strings.Contains(string(raw), c.old) {
			t.Fatalf("%s: nothing would be changed", what)
		}
		changed := []byte(strings.Replace(string(raw), c.old, c.new, 1))
		if k, err := (subject{c.repository, c.digest}).checkBundle(changed, keys); err == nil {
			t.Errorf("%s: accepted by %s", what, k.Name)
		}
	}
}
