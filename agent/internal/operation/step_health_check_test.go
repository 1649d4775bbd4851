package operation

import (
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// said are the texts of the lines that a run sent, with their streams.
func said(lines []agentwire.LogLine) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.Step + " " + l.Stream + ": " + l.Text
	}
	return out
}

// Whoever reads the log of a check that fails, reads there what it saw and why it ended.
func TestTheLogSaysWhyANodeIsNotHealthy(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	b.Say("systemctl", "failed\n")
	b.Fail("systemctl")
	sent := b.takeLogs()
	o := b.one(agentwire.StepHealthCheck, `{"within_seconds":1,"probes":[{"kind":"unit","unit":"demo.service"}]}`)
	wantFailure(t, o, "probe_failed", agentwire.FailureTransient)
	const why = "unit demo.service: it is failed"
	if !strings.HasSuffix(o.Error.Message, "tries: "+why) {
		t.Errorf("%s", o.Error.Message)
	}
	want := []string{"only agent: not healthy yet: " + why, "only agent: failed: " + o.Error.Message}
	if got := said(sent()); !slices.Equal(got, want) || o.LogLines != 2 {
		t.Errorf("%d lines %q, want %q", o.LogLines, got, want)
	}
}

// A program that writes over its line, as for progress, leaves what stood there last.
func TestLinesThatWereWrittenOverAreKeptOnce(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl", "/usr/bin/journalctl")
	b.says("loaded", "failed", "enabled", "a")
	b.Say("journalctl", "Reading ... 5%\rReading ... 100%\rRead.\r\nplain\n")
	sent := b.takeLogs()
	wantFailure(t, b.one(agentwire.StepServiceControl, `{"unit":"demo.service","action":"start"}`), "start_failed",
		agentwire.FailurePermanent)
	got := said(sent())
	if !slices.Contains(got, "only stdout: Read.") || !slices.Contains(got, "only stdout: plain") {
		t.Errorf("%q", got)
	}
}
