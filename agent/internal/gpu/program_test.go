package gpu_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuaas/agent/internal/gpu"
)

// script is a program that prints and ends as told.
type script struct {
	output string
	exit   int
	err    error
	hangs  bool // until the context ends
	argv   []string
}

func (s *script) Run(ctx context.Context, argv []string, onLine func([]byte)) (int, error) {
	s.argv = argv
	if s.output != "" {
		for line := range bytes.Lines([]byte(s.output)) {
			if ctx.Err() != nil {
				return -1, ctx.Err()
			}
			onLine(bytes.TrimSuffix(line, []byte("\n")))
		}
	}
	if s.hangs {
		<-ctx.Done()
		return -1, ctx.Err()
	}
	return s.exit, s.err
}

func helper(s *script) gpu.Helper { return gpu.Helper{Path: "/opt/gpuaas-gpu", Runner: s} }

// recorded returns an output of the real program; the program's own tests check
// these files.
func recorded(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "cmd", "gpuaas-gpu", "testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInspectOfRecordedHosts(t *testing.T) {
	for _, c := range []struct {
		name         string
		gpus         int
		pids         []int
		capabilities map[string]string
	}{
		{"inspect_h200", 1, nil, map[string]string{
			"gpu.vendor": "nvidia", "gpu.architecture": "hopper", "gpu.driver_series": "580.159", "compute.runtime": "cuda",
		}},
		{"inspect_in_use", 1, []int{439}, nil},
		{"inspect_none", 0, nil, map[string]string{
			"gpu.vendor": "none", "gpu.architecture": "none", "gpu.driver_series": "none", "compute.runtime": "none",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{output: recorded(t, c.name)}
			r, err := helper(s).Inspect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var pids []int
			for _, p := range r.Processes() {
				pids = append(pids, p.PID)
			}
			if len(r.GPUs) != c.gpus || !slices.Equal(pids, c.pids) {
				t.Errorf("%d GPUs, processes %v", len(r.GPUs), pids)
			}
			if d := cmp.Diff(c.capabilities, r.Capabilities()); c.capabilities != nil && d != "" {
				t.Errorf("capabilities (-want +got):\n%s", d)
			}
			if !slices.Equal(s.argv, []string{"/opt/gpuaas-gpu", "inspect"}) {
				t.Errorf("argv %v", s.argv)
			}
		})
	}
}

func TestCapabilitiesOfOtherHosts(t *testing.T) {
	for name, c := range map[string]struct {
		report gpu.Report
		want   string
	}{
		"AMD": {gpu.Report{
			Vendor: gpu.AMD, DriverSeries: "6.12",
			GPUs: []gpu.GPU{{Architecture: "gfx942"}, {Architecture: "gfx942"}},
		}, "amd gfx942 6.12 rocm"},
		"AMD without compute": {
			gpu.Report{Vendor: gpu.AMD, DriverSeries: "6.12", GPUs: []gpu.GPU{{}}},
			"amd none 6.12 none",
		},
		"NVIDIA of two kinds": {gpu.Report{
			Vendor: gpu.NVIDIA, DriverSeries: "580.1",
			GPUs: []gpu.GPU{{Architecture: "hopper"}, {Architecture: "ada"}},
		}, "nvidia ada,hopper 580.1 cuda"},
		"NVIDIA out of driver": {
			gpu.Report{Vendor: gpu.NVIDIA, Unreachable: []string{"0000:17:00.0"}},
			"nvidia none none none",
		},
	} {
		got := c.report.Capabilities()
		if s := strings.Join([]string{
			got["gpu.vendor"], got["gpu.architecture"], got["gpu.driver_series"],
			got["compute.runtime"],
		}, " "); s != c.want || len(got) != 4 {
			t.Errorf("%s: %q, want %q", name, s, c.want)
		}
	}
}

const h200 = "GPU-8e582dc1-31fd-aaaf-d92c-c0f18771e099"

func TestScrubOfRecordedHosts(t *testing.T) {
	for _, c := range []struct {
		name    string
		uuids   []string
		exit    int
		outcome gpu.Outcome
		phases  int
		clean   bool
		code    string
	}{
		{"scrub_h200", []string{h200}, 0, gpu.Scrubbed, 7, true, ""},
		{"scrub_in_use", nil, 3, gpu.Failed, 0, false, gpu.CodeInUse},
		{"scrub_none", nil, 0, gpu.NotApplicable, 0, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{output: recorded(t, c.name), exit: c.exit}
			phases := 0
			r, err := helper(s).Scrub(t.Context(), c.uuids, func(gpu.Phase) { phases++ })
			if err != nil {
				t.Fatal(err)
			}
			if r.Outcome != c.outcome || phases != c.phases || clean(r) != c.clean {
				t.Errorf("outcome %s, %d phases, clean %v", r.Outcome, phases, clean(r))
			}
			if c.code != "" && (r.GPUs[0].Failure() == nil || r.GPUs[0].Failure().Code != c.code) {
				t.Errorf("failure %+v", r.GPUs[0].Failure())
			}
			want := []string{"/opt/gpuaas-gpu", "scrub"}
			for _, u := range c.uuids {
				want = append(want, "--gpu", u)
			}
			if !slices.Equal(s.argv, want) {
				t.Errorf("argv %v", s.argv)
			}
		})
	}
}

func TestLowCoverageIsNotClean(t *testing.T) {
	output := strings.ReplaceAll(recorded(t, "scrub_h200"), `"bytes_covered":149`, `"bytes_covered":139`)
	r, err := helper(&script{output: output}).Scrub(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := r.GPUs[0].Failure(); clean(r) || f == nil || f.Code != gpu.CodeCoverage {
		t.Errorf("clean %v, failure %+v", clean(r), f)
	}
}

func TestTheProgramFails(t *testing.T) {
	good := recorded(t, "scrub_h200")
	none := recorded(t, "scrub_none")
	busy := recorded(t, "scrub_in_use")
	lines := strings.SplitAfter(good, "\n")
	for _, c := range []struct {
		name   string
		script script
		kind   gpu.Kind
	}{
		{"not there", script{exit: -1, err: errors.New("no such file")}, gpu.NotStarted},
		{"another version", script{exit: 2}, gpu.NotStarted},
		{"crash at once", script{exit: -1}, gpu.Crashed},
		{"crash on the way", script{output: strings.Join(lines[:3], ""), exit: 139}, gpu.Crashed},
		{"crash in a line", script{output: good[:len(good)/2], exit: -1}, gpu.Crashed},
		{"crash after the result", script{output: good, exit: 139}, gpu.Crashed},
		{"silence", script{}, gpu.NoResult},
		{"ends early", script{output: strings.Join(lines[:4], "")}, gpu.NoResult},
		{"truncated", script{output: good[:len(good)-40]}, gpu.Garbage},
		{"text", script{output: "Segmentation fault\n"}, gpu.Garbage},
		{"empty line", script{output: "\n" + good}, gpu.Garbage},
		{"not an object", script{output: "[]\n"}, gpu.Garbage},
		{"unknown type", script{output: `{"type":"song"}` + "\n"}, gpu.Garbage},
		{"unknown field", script{output: strings.Replace(none, `"vendor"`, `"colour":1,"vendor"`, 1)}, gpu.Garbage},
		{"two results", script{output: none + none}, gpu.Garbage},
		{"two values", script{output: strings.TrimSpace(none) + " 1\n"}, gpu.Garbage},
		{"unknown vendor", script{output: strings.Replace(none, `"none"`, `"acme"`, 1)}, gpu.Garbage},
		{"unknown outcome", script{output: strings.Replace(none, `"not_applicable"`, `"fine"`, 1)}, gpu.Garbage},
		{"success without GPU", script{output: strings.Replace(none, `"not_applicable"`, `"scrubbed"`, 1)}, gpu.Garbage},
		{
			"failure without GPU",
			script{output: strings.Replace(none, `"not_applicable"`, `"failed"`, 1), exit: 3},
			gpu.Garbage,
		},
		{"not applicable with a GPU", script{output: strings.Replace(busy, `"outcome":"failed"`, `"outcome":"not_applicable"`,
			1)}, gpu.Garbage},
		{
			"success with a failed GPU",
			script{output: strings.Replace(busy, `"outcome":"failed"`, `"outcome":"scrubbed"`, 1)},
			gpu.Garbage,
		},
		{
			"success with words left",
			script{output: strings.Replace(good, `"words_nonzero":0`, `"words_nonzero":5`, 1)},
			gpu.Garbage,
		},
		{
			"more covered than there is",
			script{output: strings.Replace(good, `"bytes_total":150`, `"bytes_total":1`, 1)},
			gpu.Garbage,
		},
		{"success, bad exit", script{output: good, exit: 1}, gpu.Crashed},
		{"failure, good exit", script{output: busy}, gpu.Crashed},
		{"floods", script{output: strings.Repeat(lines[0], 20000)}, gpu.Garbage},
		{"one endless line", script{output: `{"type":"` + strings.Repeat("x", 2<<20)}, gpu.Garbage},
		{"garbage, then hangs", script{output: "nonsense\n", hangs: true}, gpu.Garbage},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := helper(&c.script).Scrub(t.Context(), nil, nil)
			var failed *gpu.HelperError
			if !errors.As(err, &failed) || failed.Kind != c.kind {
				t.Fatalf("err %v, want %s", err, c.kind)
			}
			if len(err.Error()) > 600 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			if c.kind == gpu.Garbage && clean(r) {
				t.Error("garbage counts as clean")
			}
		})
	}
}

func TestAReportThatCannotBe(t *testing.T) {
	good, none := recorded(t, "inspect_in_use"), recorded(t, "inspect_none")
	for name, output := range map[string]string{
		"a result":          recorded(t, "scrub_none"),
		"a phase":           strings.SplitAfter(recorded(t, "scrub_h200"), "\n")[0],
		"an option":         strings.Replace(good, h200, "--all", 1),
		"a process 0":       strings.Replace(good, `"pid":439`, `"pid":0`, 1),
		"too much used":     strings.Replace(good, `"memory_total_bytes":150754820096`, `"memory_total_bytes":1`, 1),
		"GPUs of nobody":    strings.Replace(good, `"vendor":"nvidia"`, `"vendor":"none"`, 1),
		"missing of nobody": strings.Replace(none, `"unreachable":[]`, `"unreachable":["0000:17:00.0"]`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := helper(&script{output: output}).Inspect(t.Context())
			var failed *gpu.HelperError
			if !errors.As(err, &failed) || failed.Kind != gpu.Garbage {
				t.Errorf("err %v", err)
			}
		})
	}
	if _, err := helper(&script{output: none, exit: 1}).Inspect(t.Context()); err == nil {
		t.Error("a bad exit status is taken for an answer")
	}
}

func TestAGPUThatWasAskedForMustBeInTheResult(t *testing.T) {
	_, err := helper(&script{output: recorded(t, "scrub_h200")}).Scrub(t.Context(), []string{h200, "GPU-other"}, nil)
	if err == nil || !strings.Contains(err.Error(), "GPU-other") {
		t.Errorf("err %v", err)
	}
}

func TestAMalformedUUIDIsNotPassedOn(t *testing.T) {
	for _, uuid := range []string{"", "--gpu", "GPU 1", "GPU-1\n", strings.Repeat("a", 65)} {
		s := &script{output: recorded(t, "scrub_none")}
		if _, err := helper(s).Scrub(t.Context(), []string{uuid}, nil); err == nil || s.argv != nil {
			t.Errorf("%q: err %v, argv %v", uuid, err, s.argv)
		}
	}
}

func TestAHangEndsWithTheDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := helper(&script{hangs: true}).Scrub(ctx, nil, nil)
	var failed *gpu.HelperError
	if !errors.As(err, &failed) || failed.Kind != gpu.Hung || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err %v", err)
	}
}

func TestAnInterruptIsNoHang(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := helper(&script{output: recorded(t, "scrub_h200"), hangs: true}).Scrub(ctx, nil, func(gpu.Phase) { cancel() })
	var failed *gpu.HelperError
	if !errors.As(err, &failed) || failed.Kind != gpu.Interrupted {
		t.Errorf("err %v", err)
	}
}

// Whatever the program prints: no panic, and no success without evidence.
func FuzzScrub(f *testing.F) {
	for _, name := range []string{"scrub_h200", "scrub_in_use", "scrub_none", "inspect_h200"} {
		f.Add(recorded(f, name), 0)
	}
	f.Add(recorded(f, "scrub_in_use"), 3)
	f.Add("\x00{}\n\n", -1)
	f.Fuzz(func(t *testing.T, output string, exit int) {
		r, err := helper(&script{output: output, exit: exit}).Scrub(t.Context(), nil, nil)
		if err != nil {
			return
		}
		if clean(r) && (exit != 0 || len(r.GPUs) == 0) {
			t.Errorf("clean with exit %d and %d GPUs", exit, len(r.GPUs))
		}
		for _, g := range r.GPUs {
			if g.Failure() == nil && (g.WordsNonzero != 0 || g.WordsMismatched != 0 || g.Coverage() < gpu.MinimumCoverage ||
				g.Coverage() > 1) {
				t.Errorf("no failure: %+v", g)
			}
		}
	})
}

func FuzzInspect(f *testing.F) {
	for _, name := range []string{"inspect_h200", "inspect_in_use", "inspect_none", "scrub_none"} {
		f.Add(recorded(f, name), 0)
	}
	f.Fuzz(func(t *testing.T, output string, exit int) {
		r, err := helper(&script{output: output, exit: exit}).Inspect(t.Context())
		if err != nil {
			return
		}
		if c := r.Capabilities(); exit != 0 || len(c) != 4 || c["gpu.vendor"] == "" {
			t.Errorf("exit %d, capabilities %v", exit, c)
		}
		for _, g := range r.GPUs {
			commands, _ := gpu.ResetCommands(r.Vendor, g)
			for _, argv := range commands {
				if strings.HasPrefix(argv[len(argv)-1], "-") {
					t.Errorf("argv %v", argv)
				}
			}
		}
	})
}

// clean says whether there was a GPU and every GPU was scrubbed.
func clean(r gpu.ScrubReport) bool {
	return r.Outcome == gpu.Scrubbed && len(r.GPUs) > 0 &&
		!slices.ContainsFunc(r.GPUs, func(g gpu.ScrubbedGPU) bool { return g.Failure() != nil })
}
