package fleet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
)

// Build is the version that simulated agents report.
var Build = agentwire.Build{Version: "sim-fleet", Commit: "sim-fleet"}

// Options say where the agents belong, and who is told about them.
type Options struct {
	// URL is the node-facing address of the control plane.
	URL string
	// Roots verify the control plane.
	Roots *x509.CertPool
	// WaitSeconds is how long a poll is held. 0 means the default of the
	// protocol.
	WaitSeconds int
	// Received is called for every task that passed verification.
	Received func(e agentwire.Envelope, at time.Time)
	// Answer returns the outcome of a task instead of the agent's own. If it
	// returns nothing, the agent answers itself.
	Answer func(node string, v agentwire.Verified) (output any, failure *agentwire.TaskError)
	// Print is called for every operation before it is answered, and sends what its
	// steps print. Nil means nothing.
	Print func(p *agentwire.OperationRunParams, send func(lines []agentwire.LogLine) error) error
	// Takes says how the agent of a node takes another version of the agent. Nil means
	// well.
	Takes func(node string) Taking
	// Hardware is the machine that an agent says it runs on. Nil means one
	// derived from its host name.
	Hardware *agentwire.Hardware
	// Trouble is called for every failed call. The agent goes on.
	Trouble func(node string, err error)
}

// Agent is one simulated agent.
type Agent struct {
	NodeID     string
	opts       Options
	line       *line
	verifiers  agentwire.VerifierSet
	domain     string // trust domain
	bundle     int64  // version of the bundle with which it verifies the control plane
	generation int64
	hostname   string
	build      agentwire.Build // what it says it is
	before     string          // the version that it can go back to
	started    time.Time       // when its process began
	leaks      bool
	// installation tells one simulated installation from the next.
	installation string
}

// Enroll makes a key, exchanges the token for a certificate and reports.
func (o Options) Enroll(ctx context.Context, token, hostname string) (*Agent, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an https address", o.URL)
	}
	key, csr, err := keyAndRequest()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS13, ClientSessionCache: nil}
	l := &line{base: base, config: config, header: http.Header{"Authorization": {"Bearer " + token}}}
	defer l.hangUp()
	instance := random()
	answer, err := l.enroll(ctx, agentwire.EnrollRequest{
		CSR: csr, Hostname: hostname, Instance: instance, Build: Build, Capabilities: capabilities(),
		Hardware: o.hardware(hostname),
	})
	if err != nil {
		return nil, fmt.Errorf("enrol %s: %w", hostname, err)
	}
	own, err := certificate(answer.Certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read certificate of %s: %w", hostname, err)
	}
	identified := config.Clone()
	identified.Certificates = []tls.Certificate{own}
	a := &Agent{
		NodeID: answer.NodeID, hostname: hostname, build: Build, installation: instance, opts: o, verifiers: answer.Verifiers,
		domain: answer.TrustBundle.Domain, generation: answer.Generation, started: time.Now(),
		line: &line{base: base, config: identified, header: http.Header{
			agentwire.HeaderAgentVersion: {Build.Version}, agentwire.HeaderAgentInstance: {instance},
			agentwire.HeaderAgentSession:    {random()},
			agentwire.HeaderVerifierVersion: {strconv.FormatInt(answer.Verifiers.Version, 10)},
			agentwire.HeaderTrustBundle:     {answer.TrustBundle.Fingerprint},
		}},
	}
	return a, a.handBaseline(ctx, key)
}

// keyAndRequest makes a key, and a request for its certificate.
func keyAndRequest() (*ecdsa.PrivateKey, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, "", fmt.Errorf("make certificate request: %w", err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})), nil
}

// handBaseline reports the inventory of the machine before anybody used it.
func (a *Agent) handBaseline(ctx context.Context, key *ecdsa.PrivateKey) error {
	raw, err := json.Marshal(a.inventory())
	if err != nil {
		return fmt.Errorf("encode baseline of %s: %w", a.NodeID, err)
	}
	signature, err := agentwire.SignBaseline(key, a.NodeID, raw)
	if err != nil {
		return fmt.Errorf("sign baseline of %s: %w", a.NodeID, err)
	}
	request := agentwire.BaselineRequest{Inventory: raw, Signature: signature}
	if _, err := a.line.call(ctx, http.MethodPost, a.path(agentwire.PathBaseline, ""), request, nil,
		time.Minute); err != nil {
		a.trouble(err) // the control plane is busy or older: the node then has no baseline
	}
	return nil
}

// enroll repeats the request while the refusal is only temporary.
func (l *line) enroll(ctx context.Context, in agentwire.EnrollRequest) (answer agentwire.EnrollResponse, err error) {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		_, err = l.call(ctx, http.MethodPost, agentwire.PathEnroll, in, &answer, time.Minute)
		if err == nil || refused(err) || !rest(ctx, pause/2+mathrand.N(pause)) { //nolint:gosec // chance, not secrecy
			return answer, err
		}
	}
}

func certificate(chain string, key *ecdsa.PrivateKey) (tls.Certificate, error) {
	own := tls.Certificate{PrivateKey: key}
	for rest := []byte(chain); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		own.Certificate = append(own.Certificate, block.Bytes)
	}
	if len(own.Certificate) == 0 {
		return own, errors.New("the answer holds no certificate")
	}
	return own, nil
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// hardware returns the same values for a host name at every enrolment, like a
// real server.
func (o Options) hardware(hostname string) *agentwire.Hardware {
	if o.Hardware != nil {
		return o.Hardware
	}
	sum := sha256.Sum256([]byte(hostname))
	return &agentwire.Hardware{
		UUID:         fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
		SystemSerial: "FLEET-" + hex.EncodeToString(sum[16:22]),
		MACs:         []string{fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[22], sum[23], sum[24])},
	}
}

func capabilities() agentwire.Capabilities {
	return agentwire.Capabilities{
		Facts: map[string]string{
			agentwire.FactHandover: "1", agentwire.FactArchitecture: "amd64",
			"gpu.vendor": "nvidia", "gpu.architecture": "simulated", "gpu.driver_series": "simulated",
			"compute.runtime": "none", "fabric.type": "ethernet", "container.runtime": "other",
		},
		CPUModel: "simulated", CPUs: 128, MemoryBytes: 2 << 40, NUMANodes: 2,
		Disks: []agentwire.Disk{{Name: "nvme0n1", SizeBytes: 4 << 40}},
		NICs:  []agentwire.NIC{{Name: "eth0", SpeedMbps: 100_000}}, GPUs: gpus(),
		StepKinds: stepKinds(), ResolverVersion: 1,
	}
}

// stepKinds are all that there are.
func stepKinds() []string {
	var kinds []string
	for _, k := range agentwire.StepKinds() {
		kinds = append(kinds, k.Kind)
	}
	return kinds
}

// Run polls, carries out tasks and reports until the context ends or the
// control plane refuses the agent for good.
func (a *Agent) Run(ctx context.Context) error {
	defer a.line.hangUp()
	wait := a.opts.WaitSeconds
	if wait == 0 {
		wait = agentwire.DefaultWaitSeconds
	}
	path := a.path(agentwire.PathWait, "") + "?wait_seconds=" + strconv.Itoa(wait)
	for pause := time.Duration(0); ctx.Err() == nil; {
		a.sayVitals()
		var e agentwire.Envelope
		status, err := a.line.call(ctx, http.MethodGet, path, nil, &e, time.Duration(wait)*time.Second+30*time.Second)
		if err == nil && status == http.StatusOK {
			err = a.carryOut(ctx, e)
		}
		switch {
		case err == nil:
			pause = 0
			continue
		case ctx.Err() != nil:
			return nil
		case refused(err):
			return err
		}
		a.trouble(err)
		pause = min(max(2*pause, 100*time.Millisecond), 10*time.Second)
		if !rest(ctx, mathrand.N(pause)) { //nolint:gosec // chance, not secrecy
			return nil
		}
	}
	return nil
}

func (a *Agent) trouble(err error) {
	if a.opts.Trouble != nil {
		a.opts.Trouble(a.NodeID, err)
	}
}

func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (a *Agent) carryOut(ctx context.Context, e agentwire.Envelope) error {
	now := time.Now()
	result := agentwire.ResultRequest{
		Attempt: e.Attempt, Status: agentwire.ResultSucceeded, StartedAt: now, Build: a.build,
	}
	verified, refusal := a.verifiers.Verify(e, a.NodeID, a.generation, now)
	if refusal != nil {
		result.Status = agentwire.ResultRefused
		result.Error = &agentwire.TaskError{Code: string(refusal.Reason), Message: refusal.Detail}
	} else {
		a.generation = max(a.generation, e.Generation)
		if a.opts.Received != nil {
			a.opts.Received(e, now)
		}
		if verified.Type == agentwire.TypeUpdateVerifiers {
			if err := a.look(ctx); err != nil {
				return err
			}
		}
		if err := a.print(ctx, e, verified); err != nil {
			return err
		}
		output, failure, heard, err := a.carriedOut(ctx, verified)
		if err != nil || !heard {
			return err
		}
		result.Output, result.Error, result.Build = output, failure, a.build
		if failure != nil {
			result.Status = agentwire.ResultFailed
		}
	}
	result.FinishedAt = time.Now()
	_, err := a.line.call(ctx, http.MethodPost, a.path(agentwire.PathResult, e.TaskID), result, nil, time.Minute)
	return err
}

// carriedOut returns the outcome of a task. An agent that is not heard of again sleeps
// until the end.
func (a *Agent) carriedOut(ctx context.Context, v agentwire.Verified) (
	output json.RawMessage, failure *agentwire.TaskError, heard bool, err error,
) {
	p, ok := v.Params.(*agentwire.SelfUpdateParams)
	if !ok || a.opts.Takes == nil {
		output, failure = a.result(v)
		return output, failure, true, nil
	}
	answer, failure, heard, err := a.update(ctx, p)
	if err != nil || failure != nil {
		return nil, failure, true, err
	}
	if !heard {
		<-ctx.Done()
		return nil, nil, false, nil
	}
	if output, err = json.Marshal(answer); err != nil {
		return nil, nil, true, fmt.Errorf("encode answer: %w", err)
	}
	return output, nil, true, nil
}

// print sends what the steps of an operation print.
func (a *Agent) print(ctx context.Context, e agentwire.Envelope, v agentwire.Verified) error {
	p, ok := v.Params.(*agentwire.OperationRunParams)
	if !ok || a.opts.Print == nil {
		return nil
	}
	return a.opts.Print(p, func(lines []agentwire.LogLine) error {
		_, err := a.line.call(ctx, http.MethodPost, a.path(agentwire.PathLogs, e.TaskID),
			agentwire.LogsRequest{Attempt: e.Attempt, Lines: lines}, nil, time.Minute)
		return err
	})
}

func (a *Agent) path(pattern, task string) string {
	return strings.NewReplacer("{node_id}", a.NodeID, "{task_id}", task).Replace(pattern)
}
