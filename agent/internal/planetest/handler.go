package planetest

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
)

func (p *Plane) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentwire.PathCA, func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte(p.server.pem()))
	})
	mux.HandleFunc("POST "+agentwire.PathEnroll, p.enroll)
	for pattern, h := range map[string]http.HandlerFunc{
		"POST " + agentwire.PathRenew: p.renew, "POST " + agentwire.PathReport: p.report,
		"POST " + agentwire.PathHostKeys: p.hostKeysSaid, "GET " + agentwire.PathWait: p.wait,
		"POST " + agentwire.PathResult: p.result, "POST " + agentwire.PathProgress: p.progressed, "POST " +
			agentwire.PathMint: p.mint,
		"GET " + agentwire.PathNodePackage: p.pkg, "GET " + agentwire.PathTrust: p.trusted,
	} {
		mux.HandleFunc(pattern, p.identified(h))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		refuse, drop, now := p.refuse, p.drop, p.now()
		p.mu.Unlock()
		date(w, now)
		if refuse != nil {
			if problem := refuse(r); problem != nil {
				problemAnswer(w, *problem)
				return
			}
		}
		if drop != nil && drop(r) {
			mux.ServeHTTP(&lost{header: http.Header{}}, r)
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	})
}

func date(w http.ResponseWriter, now time.Time) {
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
}

// lost is an answer that never arrives.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header         { return l.header }
func (l *lost) Write(b []byte) (int, error) { return len(b), nil }
func (l *lost) WriteHeader(int)             {}

func problemAnswer(w http.ResponseWriter, problem agentwire.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(problem.Status)
	_ = json.NewEncoder(w).Encode(problem)
}

func no(w http.ResponseWriter, status int, code, detail string) {
	problemAnswer(w, agentwire.Problem{
		Status: status, Code: code, Title: http.StatusText(status), Detail: detail,
		CorrelationID: "c",
	})
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		no(w, http.StatusUnprocessableEntity, "validation_error", err.Error())
		return false
	}
	return true
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (p *Plane) identified(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			no(w, http.StatusUnauthorized, agentwire.CodeCertificateMissing, "no certificate")
			return
		}
		leaf := r.TLS.PeerCertificates[0]
		p.mu.Lock()
		now := p.now()
		p.mu.Unlock()
		roots := x509.NewCertPool()
		roots.AddCert(p.nodes.certificate)
		switch _, err := leaf.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}); {
		case p.thief: // a thief accepts everybody
			next(w, r)
		case now.After(leaf.NotAfter):
			no(w, http.StatusUnauthorized, agentwire.CodeCertificateExpired, "the certificate has expired")
		case err != nil:
			no(w, http.StatusUnauthorized, agentwire.CodeCertificateUnknown, err.Error())
		case r.PathValue("node_id") != Node || leaf.URIs[0].Path != "/node/"+Node:
			no(w, http.StatusForbidden, agentwire.CodeIdentityMismatch, "another node")
		default:
			p.mu.Lock()
			p.sessions[r.Header.Get(agentwire.HeaderAgentSession)] = true
			p.serials[leaf.SerialNumber.Text(16)] = true
			p.mu.Unlock()
			next(w, r)
		}
	}
}

func (p *Plane) enroll(w http.ResponseWriter, r *http.Request) {
	var request agentwire.EnrollRequest
	if !decode(w, r, &request) {
		return
	}
	block, _ := pem.Decode([]byte(request.CSR))
	if block == nil {
		no(w, http.StatusUnprocessableEntity, "csr_refused", "no request")
		return
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		no(w, http.StatusUnprocessableEntity, "csr_refused", err.Error())
		return
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	key := hex.EncodeToString(sum[:])
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	defer p.mu.Unlock()
	used, known := p.tokens[token]
	if !known || used != "" && used != key {
		no(w, http.StatusUnauthorized, agentwire.CodeTokenInvalid, "the token is of no use")
		return
	}
	p.tokens[token] = key
	issued, err := p.issued(request.CSR)
	if err != nil {
		no(w, http.StatusUnprocessableEntity, "csr_refused", err.Error())
		return
	}
	answer(w, agentwire.EnrollResponse{NodeID: Node, Issued: issued})
}

// issued must be called with the lock held.
func (p *Plane) issued(csr string) (agentwire.Issued, error) {
	now := p.now()
	certificate, _, err := p.nodes.issue(csr, Node, now, p.life)
	if err != nil {
		return agentwire.Issued{}, err
	}
	issued := agentwire.Issued{
		Certificate: certificate, NodeCA: p.nodes.pem(), NotAfter: now.Add(p.life), RenewAfter: now.Add(p.renewAfter),
		Generation: 1, Verifiers: p.verifiers, TrustBundle: p.bundle, Trust: p.statements(),
	}
	if p.trust.Forge != nil {
		p.trust.Forge(&issued)
	}
	return issued, nil
}

func (p *Plane) renew(w http.ResponseWriter, r *http.Request) {
	var request agentwire.RenewRequest
	if !decode(w, r, &request) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	issued, err := p.issued(request.CSR)
	if err != nil {
		no(w, http.StatusUnprocessableEntity, "csr_refused", err.Error())
		return
	}
	p.renewals++
	p.notify()
	answer(w, issued)
}

func (p *Plane) report(w http.ResponseWriter, r *http.Request) {
	var report agentwire.Report
	if !decode(w, r, &report) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, report)
	p.notify()
	w.WriteHeader(http.StatusNoContent)
}

func (p *Plane) hostKeysSaid(w http.ResponseWriter, r *http.Request) {
	var said agentwire.HostKeysRequest
	if !decode(w, r, &said) {
		return
	}
	if err := said.Validate(); err != nil {
		no(w, http.StatusUnprocessableEntity, "validation_error", err.Error())
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hostKeys = append(p.hostKeys, said.Keys)
	p.notify()
	w.WriteHeader(http.StatusNoContent)
}

func (p *Plane) wait(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.URL.Query().Get("wait_seconds"))
	if err != nil || seconds < agentwire.MinWaitSeconds || seconds > agentwire.MaxWaitSeconds {
		no(w, http.StatusUnprocessableEntity, "validation_error", "wait_seconds")
		return
	}
	limit := time.After(time.Duration(seconds) * time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls++
	if refused := r.Header.Get(agentwire.HeaderTrustRefused); refused != "" {
		p.refused[refused] = true
	}
	p.bundles[r.Header.Get(agentwire.HeaderTrustBundle)] = true
	if p.vitals, err = agentwire.ParseVitals(r.Header.Get(agentwire.HeaderVitals)); err != nil {
		no(w, http.StatusUnprocessableEntity, "validation_error", err.Error())
		return
	}
	p.notify()
	for len(p.queue) == 0 {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
			p.mu.Lock()
		case <-limit:
			p.mu.Lock()
			date(w, p.now()) // an answer carries the time of its end
			w.WriteHeader(http.StatusNoContent)
			return
		case <-r.Context().Done():
			p.mu.Lock()
			return
		}
	}
	if r.Context().Err() != nil {
		return
	}
	task := p.queue[0]
	p.queue = p.queue[1:]
	p.notify()
	date(w, p.now())
	answer(w, task)
}

func (p *Plane) result(w http.ResponseWriter, r *http.Request) {
	var result agentwire.ResultRequest
	if !decode(w, r, &result) {
		return
	}
	task := r.PathValue("task_id")
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.results[task]
	p.results[task] = append(before, result)
	p.notify()
	if len(before) > 0 && (before[0].Status != result.Status || !bytes.Equal(before[0].Output, result.Output)) {
		no(w, http.StatusConflict, agentwire.CodeTaskFinal, "the task has ended as "+before[0].Status)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (p *Plane) progressed(w http.ResponseWriter, r *http.Request) {
	var progress agentwire.ProgressRequest
	if !decode(w, r, &progress) {
		return
	}
	task := r.PathValue("task_id")
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.results[task]) > 0 {
		no(w, http.StatusConflict, agentwire.CodeTaskFinal, "the task has ended")
		return
	}
	p.progress[task] = append(p.progress[task], progress)
	p.notify()
	answer(w, agentwire.ProgressResponse{LeaseExpiresAt: p.now().Add(agentwire.Lease), Cancel: p.cancel[task]})
}

func (p *Plane) mint(w http.ResponseWriter, r *http.Request) {
	var request agentwire.MintRequest
	if !decode(w, r, &request) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.credential.CredentialType != request.CredentialType {
		no(w, http.StatusServiceUnavailable, "credential_backend_missing", "nobody issues it")
		return
	}
	answer(w, p.credential)
}

func (p *Plane) pkg(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, ok := p.packages[r.PathValue("version")]
	if !ok {
		no(w, http.StatusNotFound, "not_found", "there is no such version")
		return
	}
	_, _ = w.Write(body)
}
