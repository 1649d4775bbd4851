package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

var _ = carries(agentwire.StepHealthCheck, func(m machine) Kind { return healthCheck{m} })

// healthCheck asks until all probes succeed or its time is up.
type healthCheck struct{ machine }

// probeTime limits one probe.
const probeTime = 10 * time.Second

// Check implements Kind.
func (h healthCheck) Check(ctx context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.HealthCheckWith](s)
	if err != nil {
		return Look{}, err
	}
	if s.run.params.Plan {
		return Look{Done: true, Summary: fmt.Sprintf("asks %d probes", len(w.Probes))}, nil
	}
	end := time.Now().Add(time.Duration(w.WithinSeconds) * time.Second)
	out := agentwire.HealthCheckResult{}
	for said := ""; ; {
		out.Tries++
		h.ask(ctx, w, &out)
		if err := context.Cause(ctx); err != nil && !errors.Is(err, errTimeout) {
			return Look{}, err
		}
		if out.Healthy {
			return Look{Done: true, Output: out, Summary: fmt.Sprintf("%d probes succeeded", len(out.Probes))}, nil
		}
		if ctx.Err() != nil || !time.Now().Before(end) {
			return Look{}, unhealthy(out)
		}
		if now := failing(out); now != said {
			said = now
			s.Say(agentwire.StreamAgent, "not healthy yet: "+now)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(max(1, w.EverySeconds)) * time.Second):
		}
	}
}

// Apply implements Kind. There is nothing to change.
func (h healthCheck) Apply(ctx context.Context, s *Step) (Result, error) {
	look, err := h.Check(ctx, s)
	return Result{Output: look.Output, Summary: look.Summary}, err
}

// failing says which probes failed, and why.
func failing(out agentwire.HealthCheckResult) string {
	var why []string
	for _, p := range out.Probes {
		if !p.OK {
			why = append(why, p.Kind+" "+p.Subject+": "+p.Detail)
		}
	}
	return strings.Join(why, "; ")
}

func unhealthy(out agentwire.HealthCheckResult) error {
	tries := strconv.Itoa(out.Tries) + " tries"
	if out.Tries == 1 {
		tries = "one try"
	}
	f := fail(agentwire.FailureTransient, "probe_failed", "not healthy after "+tries+": "+failing(out),
		"find out on the node why the probe fails; its step before says what was started", nil)
	f.Output = out
	return f
}

func (h healthCheck) ask(ctx context.Context, w *agentwire.HealthCheckWith, out *agentwire.HealthCheckResult) {
	out.Healthy, out.Probes = true, nil
	for _, p := range w.Probes {
		within, cancel := context.WithTimeout(ctx, probeTime)
		subject, detail, err := h.probe(within, p)
		cancel()
		r := agentwire.ProbeResult{Kind: p.Kind, Subject: subject, OK: err == nil, Detail: detail}
		if err != nil {
			r.Detail, out.Healthy = err.Error(), false
		}
		out.Probes = append(out.Probes, r)
	}
}

func (h healthCheck) probe(ctx context.Context, p agentwire.Probe) (subject, detail string, err error) {
	address := p.Address
	if address == "" {
		address = "127.0.0.1"
	}
	address = net.JoinHostPort(address, strconv.Itoa(p.Port))
	switch p.Kind {
	case agentwire.ProbeTCP:
		return address, "accepts connections", dial(ctx, address)
	case agentwire.ProbeHTTP:
		detail, err = fetch(ctx, address, p)
		return "http://" + address + p.URLPath, detail, err
	case agentwire.ProbeUnit:
		out, err := h.Host.Do(ctx, hostexec.Command{Program: "systemctl", Args: []string{"is-active", "--", p.Unit}})
		state := strings.TrimSpace(string(out.Stdout))
		if err != nil {
			if state != "" { // systemctl was asked and has answered
				return p.Unit, "", fmt.Errorf("it is %s", state)
			}
			return p.Unit, "", fmt.Errorf("ask systemd: %w", err)
		}
		return p.Unit, state, nil
	case agentwire.ProbeFile:
		_, err := os.Stat(h.Host.Path(p.Path))
		return p.Path, "is there", err
	case agentwire.ProbeDisk:
		detail, err = free(h.Host.Path(p.Path), p.FreeMiB)
		return p.Path, detail, err
	default:
		detail, err = h.process(p.Process)
		return p.Process, detail, err
	}
}

func dial(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return c.Close()
}

// fetch asks this machine only: no proxy, and no redirect to elsewhere.
func fetch(ctx context.Context, address string, p agentwire.Probe) (string, error) {
	path := p.URLPath
	if path == "" {
		path = "/"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", fmt.Errorf("make request: %w", err)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	want := p.ExpectStatus
	if want == 0 {
		want = http.StatusOK
	}
	if answer.StatusCode != want {
		return "", fmt.Errorf("it answers %d, not %d", answer.StatusCode, want)
	}
	return "answers " + strconv.Itoa(answer.StatusCode), nil
}

func free(path string, wantMiB int64) (string, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return "", fmt.Errorf("look at the file system: %w", err)
	}
	mib := int64(fs.Bavail) * fs.Bsize >> 20 //nolint:gosec // far below the limit of the type
	if mib < wantMiB {
		return "", fmt.Errorf("only %d MiB are free, not %d", mib, wantMiB)
	}
	return fmt.Sprintf("%d MiB are free", mib), nil
}

func (h healthCheck) process(name string) (string, error) {
	found, err := filepath.Glob(h.Host.Path("/proc/[0-9]*/comm"))
	if err != nil {
		return "", fmt.Errorf("list processes: %w", err)
	}
	// The kernel keeps 15 characters of a name.
	short := name[:min(15, len(name))]
	for _, f := range found {
		if raw, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(raw)) == short {
			return "process " + filepath.Base(filepath.Dir(f)), nil
		}
	}
	return "", errors.New("no process has this name")
}
