package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

// A simulated agent reports the version that it took, and only then says how it went.
func TestAgentsTakeAVersionInTheirWay(t *testing.T) {
	for _, takes := range Takings() {
		t.Run(string(takes), func(t *testing.T) {
			var reported []string
			renewals, memory := 0, int64(0)
			var server *httptest.Server
			server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				vitals, err := agentwire.ParseVitals(r.Header.Get(agentwire.HeaderVitals))
				if err != nil || vitals.Uptime < time.Second {
					t.Errorf("it says %+v of itself, %v", vitals, err)
				}
				memory = vitals.MemoryBytes
				if strings.HasSuffix(r.URL.Path, "/cert/renew") {
					renewals++
					chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
					if err := json.NewEncoder(w).Encode(agentwire.Issued{Certificate: string(chain)}); err != nil {
						t.Error(err)
					}
					return
				}
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
				TakesLeak: "1.1.0", TakesLapse: "1.1.0",
			}[takes]
			if a.build.Version != want || heard == (takes == TakesSilence) || (failure != nil) != (takes == TakesCrash) {
				t.Fatalf("it runs %s, heard %t, %+v", a.build.Version, heard, failure)
			}
			if proves := takes == TakesWell || takes == TakesOther || takes == TakesLeak; renewals != yes(proves) {
				t.Errorf("it renewed its certificate %d times", renewals)
			}
			if want != Build.Version {
				a.started = time.Now().Add(-time.Minute)
				if a.sayVitals(); a.renew(t.Context()) != nil || (memory > 2*usualMemory) != (takes == TakesLeak) {
					t.Errorf("after a minute it uses %d MiB", memory>>20)
				}
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

func yes(b bool) int {
	if b {
		return 1
	}
	return 0
}
