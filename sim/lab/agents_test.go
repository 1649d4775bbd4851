package lab_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// plane is the part of a control plane that agents see. A token works once.
type plane struct {
	*httptest.Server
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	ca   string

	mu      sync.Mutex
	tokens  map[string]bool // true: not used yet
	enrols  int
	polling map[string]int // by node, polls that are held
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{tokens: map[string]bool{}, polling: map[string]int{}}
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, form, form, &p.key.PublicKey, p.key)
	if err != nil {
		t.Fatal(err)
	}
	if p.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+agentwire.PathEnroll, p.enrol)
	mux.HandleFunc("GET "+agentwire.PathWait, p.wait)
	p.Server = httptest.NewUnstartedServer(mux)
	p.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	p.StartTLS()
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	p.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}))
	return p
}

func (p *plane) enrol(w http.ResponseWriter, r *http.Request) {
	var in agentwire.EnrollRequest
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	good := p.tokens[token]
	p.tokens[token] = false
	p.mu.Unlock()
	if !good {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"code":"token_used","detail":"used"}`)
		return
	}
	block, _ := pem.Decode(nil)
	if json.NewDecoder(r.Body).Decode(&in) == nil {
		block, _ = pem.Decode([]byte(in.CSR))
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, form, p.cert, csr.PublicKey, p.key)
	if err != nil {
		http.Error(w, "no certificate", http.StatusInternalServerError)
		return
	}
	p.mu.Lock()
	p.enrols++
	p.mu.Unlock()
	answer := agentwire.EnrollResponse{NodeID: "node-of-" + in.Hostname}
	answer.Certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	_ = json.NewEncoder(w).Encode(answer)
}

func (p *plane) wait(w http.ResponseWriter, r *http.Request) {
	node := r.PathValue("node_id")
	if len(r.TLS.PeerCertificates) == 0 {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	p.count(node, 1)
	defer p.count(node, -1)
	<-r.Context().Done()
	w.WriteHeader(http.StatusNoContent)
}

func (p *plane) count(node string, by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polling[node] += by
}

func (p *plane) polls(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.polling[node] > 0
}

// payload returns user data as the control plane renders it.
func (p *plane) payload(token string, good bool) string {
	p.mu.Lock()
	p.tokens[token] = good
	p.mu.Unlock()
	indent := func(s string) string {
		return "      " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n      ") + "\n"
	}
	return "#cloud-config\nwrite_files:\n" +
		"  - path: /run/ca\n    content: |\n" + indent(p.ca) +
		"  - path: /run/token\n    content: |\n" + indent("Authorization: Bearer "+token) +
		"  - path: /run/go\n    content: |\n" + indent("curl '"+p.URL+agentwire.PathBootstrapScript+"'")
}

func TestDeployedMachinesBecomeAgents(t *testing.T) {
	const machines = 30
	p := newPlane(t)
	l := open(t, machines, nil)
	for n, id := range l.SystemIDs() {
		deploy(t, l, id, p.payload(fmt.Sprint("token-", n), true))
	}
	for _, b := range l.Overview() {
		testkit.Eventually(t, "a poll of "+b.Hostname, func() bool { return p.polls("node-of-" + b.Hostname) })
	}
	first := l.Overview()[0]
	node := "node-of-" + first.Hostname
	// The power goes and comes back: the agent is the same.
	for _, switched := range []string{"power_off", "power_on"} {
		if err := l.Happen(first.SystemID, switched); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, switched, func() bool { return p.polls(node) == (switched == "power_on") })
	}
	// After a reinstallation it is another agent with another token.
	release(t, l, first.SystemID)
	testkit.Eventually(t, "silence", func() bool { return !p.polls(node) })
	deploy(t, l, first.SystemID, p.payload("token-new", true))
	testkit.Eventually(t, "a poll", func() bool { return p.polls(node) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enrols != machines+1 {
		t.Errorf("%d enrolments of %d machines, one of them installed twice", p.enrols, machines)
	}
}

// A refused token leaves a record. After a fix, the first boot can be tried
// again over SSH.
func TestAFirstBootThatFails(t *testing.T) {
	p := newPlane(t)
	l := open(t, 1, nil)
	id := l.SystemIDs()[0]
	deploy(t, l, id, p.payload("token-canary", false))
	c, _ := enter(t, l, id)
	record := func(state string) func() bool {
		return func() bool {
			var r struct{ Layer, State, Reason string }
			text := mustSay(t, c, look, "")
			if strings.Contains(text, "canary") {
				t.Fatal("the record holds the token")
			}
			return json.Unmarshal([]byte(text), &r) == nil && r.Layer == "agent-bootstrap" && r.State == state
		}
	}
	testkit.Eventually(t, "a record of the failure", record("failed"))
	p.mu.Lock()
	p.tokens["token-canary"] = true
	p.mu.Unlock()
	mustSay(t, c, again, "")
	testkit.Eventually(t, "a record of the success", record("succeeded"))
	testkit.Eventually(t, "a poll", func() bool { return p.polls("node-of-" + brief(t, l, id).Hostname) })
}
