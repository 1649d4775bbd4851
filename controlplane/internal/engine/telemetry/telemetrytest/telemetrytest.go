// Package telemetrytest lets tests read metrics as a scraper does.
package telemetrytest

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/telemetry"
)

// Scraper reads the metrics of a test.
type Scraper struct{ metrics *telemetry.Telemetry }

// New gives the test metrics that begin at zero. Tests that use it do not run in
// parallel, since the meter provider is one for the process.
func New(tb testing.TB) Scraper {
	tb.Helper()
	tel, err := telemetry.Start(tb.Context(), telemetry.Config{}, io.Discard)
	if err != nil {
		tb.Fatal(err)
	}
	return Scraper{tel}
}

// Scrape is what a scraper gets.
func (s Scraper) Scrape(tb testing.TB) string {
	tb.Helper()
	var out bytes.Buffer
	if err := s.metrics.WriteMetrics(&out); err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

// Wants fails the test for every line that a scraper does not get, and says what
// it gets of the product's own.
func (s Scraper) Wants(tb testing.TB, lines ...string) {
	tb.Helper()
	got := s.Scrape(tb)
	var own []string
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "gpuaas_") {
			own = append(own, line)
		}
	}
	for _, line := range lines {
		if !strings.Contains(got, line+"\n") {
			tb.Errorf("no line %s in\n%s", line, strings.Join(own, ""))
		}
	}
}
