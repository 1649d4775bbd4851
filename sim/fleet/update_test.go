package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"gpuaas/contract/agentwire"
)

// A simulated agent reports the version that it took, and only then says how it went.
func TestAgentsTakeAVersionInTheirWay(t *testing.T) {
	for _, takes := range Takings() {
		t.Run(string(takes), func(t *testing.T) {
			var reported []string
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var said agentwire.Report
				if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
					t.Error(err)
				}
				reported = append(reported, said.Build.Version)
				w.WriteHeader(http.StatusNoContent)
			}))
			t.Cleanup(server.Close)
			base, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			a := &Agent{
				NodeID: "n", hostname: "h", build: Build, opts: Options{Takes: func(string) Taking { return takes }},
				line: &line{
					base: base, config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, header: http.Header{},
				},
			}
			t.Cleanup(a.line.hangUp)
			_, failure, heard, err := a.update(t.Context(), &agentwire.SelfUpdateParams{Action: "update", Version: "1.1.0"})
			if err != nil {
				t.Fatal(err)
			}
			want := map[Taking]string{
				TakesWell: "1.1.0", TakesOther: unknownVersion, TakesCrash: Build.Version, TakesSilence: Build.Version,
			}[takes]
			if a.build.Version != want || heard == (takes == TakesSilence) || (failure != nil) != (takes == TakesCrash) {
				t.Fatalf("it runs %s, heard %t, %+v", a.build.Version, heard, failure)
			}
			_, failure, _, err = a.update(t.Context(), &agentwire.SelfUpdateParams{Action: "rollback"})
			if err != nil || a.build.Version != Build.Version || (failure != nil) != (want == Build.Version) {
				t.Errorf("after the way back it runs %s: %+v, %v", a.build.Version, failure, err)
			}
			expected := []string{want, Build.Version}
			if want == Build.Version {
				expected = nil
			}
			if !slices.Equal(reported, expected) {
				t.Errorf("it reported %v, not %v", reported, expected)
			}
		})
	}
}
