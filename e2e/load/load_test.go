// Package load measures a running control plane. It is started by tools/bench.sh.
package load

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkGet sends authenticated reads of one resource at a steady rate,
// whatever the answers take: a slow answer does not slow the questions down.
func BenchmarkGet(b *testing.B) {
	url, tokenFile := os.Getenv("GPUAAS_URL"), os.Getenv("GPUAAS_BENCH_TOKEN_FILE")
	if url == "" || tokenFile == "" {
		b.Fatal("run this through tools/bench.sh, which starts a control plane")
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		b.Fatal(err)
	}
	const perSecond = 200
	client := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}},
	}
	get := func() (time.Duration, error) {
		began := time.Now()
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url+"/api/v1/me", nil)
		if err != nil {
			return 0, err
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		answer, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer func() { _ = answer.Body.Close() }()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return 0, err
		}
		if answer.StatusCode != http.StatusOK {
			b.Errorf("answer %s", answer.Status)
		}
		return time.Since(began), nil
	}
	for range 50 { // connections and caches
		if _, err := get(); err != nil {
			b.Fatal(err)
		}
	}
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	ticks := time.NewTicker(time.Second / perSecond)
	defer ticks.Stop()
	b.ResetTimer()
	for range b.N {
		<-ticks.C
		wg.Go(func() {
			d, err := get()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				b.Error(err)
			}
			took = append(took, d)
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	b.ReportMetric(at(0.50), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
	b.ReportMetric(0, "ns/op")
}
