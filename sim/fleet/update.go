package fleet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"gpuaas/contract/agentwire"
)

// Taking is how a simulated agent takes another version.
type Taking string

// The ways of taking a version. A way back always goes well.
const (
	TakesWell    Taking = "well"
	TakesCrash   Taking = "crash"   // the version crashes, and the one before runs on
	TakesSilence Taking = "silence" // nothing is heard of the agent any more
	TakesOther   Taking = "other"   // it says that all went well, and reports a version that nobody knows
	TakesLeak    Taking = "leak"    // all goes well, and the agent uses more memory with every second
	TakesLapse   Taking = "lapse"   // all goes well, and the agent cannot renew its certificate
)

// Takings are all ways of taking a version.
func Takings() []Taking {
	return []Taking{TakesWell, TakesCrash, TakesSilence, TakesOther, TakesLeak, TakesLapse}
}

// What a simulated agent uses, and how fast one that leaks grows: within a bake time of
// minutes it is several times as large.
const (
	usualMemory = 40 << 20
	leakRate    = 2 << 20 // a second
)

// unknownVersion is what an agent reports that takes another version than it was told.
const unknownVersion = "0.0.0-unknown"

// update takes another version of the agent, or goes back, and reports it. It says
// whether the agent is heard of again.
func (a *Agent) update(ctx context.Context, p *agentwire.SelfUpdateParams) (
	answer any, failure *agentwire.TaskError, heard bool, err error,
) {
	from, to := a.build.Version, p.Version
	takes := TakesWell
	if a.opts.Takes != nil {
		takes = a.opts.Takes(a.NodeID)
	}
	switch {
	case p.Action == "rollback" && a.before == "":
		return nil, &agentwire.TaskError{
			Code: "no_previous_version", Message: "there is no earlier version of the agent on this machine",
		}, true, nil
	case p.Action == "rollback":
		to = a.before
	case takes == TakesCrash:
		return nil, &agentwire.TaskError{
			Code: "update_rolled_back", Message: fmt.Sprintf("version %s was taken back, version %s runs again", to, from),
		}, true, nil
	case takes == TakesSilence:
		return nil, nil, false, nil
	case takes == TakesOther:
		to = unknownVersion
	}
	a.startAs(to)
	a.before = from
	if a.leaks = takes == TakesLeak && p.Action != "rollback"; p.Action != "rollback" && takes != TakesLapse {
		if err := a.renew(ctx); err != nil {
			return nil, nil, true, fmt.Errorf("renew certificate of %s: %w", a.NodeID, err)
		}
	}
	if _, err := a.line.call(ctx, http.MethodPost, a.path(agentwire.PathReport, ""), agentwire.Report{
		Build: a.build, VerifierVersion: a.verifiers.Version, Capabilities: capabilities(),
		Hardware: a.opts.hardware(a.hostname),
	}, nil, time.Minute); err != nil {
		return nil, nil, true, fmt.Errorf("report version %s of %s: %w", to, a.NodeID, err)
	}
	return agentwire.SelfUpdateOutput{From: from, To: p.Version}, nil, true, nil
}

// startAs is a process that begins as a version.
func (a *Agent) startAs(version string) {
	a.build.Version, a.started = version, time.Now()
	a.line.header.Set(agentwire.HeaderAgentVersion, version)
	a.sayVitals()
}

// sayVitals says with the calls that follow how the process is.
func (a *Agent) sayVitals() {
	v := agentwire.Vitals{MemoryBytes: usualMemory, Uptime: max(time.Since(a.started), time.Second)}
	if a.leaks {
		v.MemoryBytes += int64(time.Since(a.started) / time.Second * leakRate)
	}
	a.line.header.Set(agentwire.HeaderVitals, v.String())
}

// renew gets the next certificate, and uses it from the next call on.
func (a *Agent) renew(ctx context.Context) error {
	key, csr, err := keyAndRequest()
	if err != nil {
		return err
	}
	var issued agentwire.Issued
	if _, err := a.line.call(ctx, http.MethodPost, a.path(agentwire.PathRenew, ""), agentwire.RenewRequest{CSR: csr},
		&issued, time.Minute); err != nil {
		return err
	}
	own, err := certificate(issued.Certificate, key)
	if err != nil {
		return err
	}
	a.line.hangUp()
	a.line.config.Certificates = []tls.Certificate{own}
	return nil
}
