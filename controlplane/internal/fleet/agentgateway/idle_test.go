package agentgateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agentgateway"
	"gpuaas/controlplane/internal/fleet/node"
)

// What one held poll costs the process that holds it. The agents are a process
// of their own, which is this test again.

const pollersVariable = "AGENTGATEWAY_TEST_POLLERS" // address count folder

func TestMain(m *testing.M) {
	if spec := os.Getenv(pollersVariable); spec != "" {
		if err := pollers(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// pollers opens many connections with a poll on each, and keeps them until its
// standard input ends.
func pollers(spec string) error {
	fields := strings.Fields(spec)
	count, err := strconv.Atoi(fields[1])
	if err != nil {
		return err
	}
	certs, err := readCertificates(fields[2])
	if err != nil {
		return err
	}
	conns := make(chan net.Conn, count)
	failed := make(chan error, 4)
	todo := make(chan tls.Certificate, count)
	for _, cert := range certs {
		todo <- cert
	}
	close(todo)
	var dialling sync.WaitGroup
	for range 4 {
		dialling.Go(func() {
			for cert := range todo {
				// The certificate of the server is not what is measured here.
				conn, err := tls.Dial("tcp", fields[0], &tls.Config{
					Certificates:       []tls.Certificate{cert},
					InsecureSkipVerify: true,
				})
				if err == nil {
					_, err = conn.Write([]byte(pollOf(cert)))
				}
				if err != nil {
					failed <- err
					return
				}
				conns <- conn
			}
		})
	}
	dialling.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(conns)
	return err
}

func pollOf(cert tls.Certificate) string {
	node := cert.Leaf.URIs[0].Path[len("/node/"):]
	return "GET " + strings.Replace(agentwire.PathWait, "{node_id}", node, 1) +
		"?wait_seconds=55 HTTP/1.1\r\nHost: x\r\n" +
		agentwire.HeaderAgentInstance + ": 0123456789abcdef0123456789abcdef\r\n" + agentwire.HeaderAgentSession +
		": ABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n" +
		"User-Agent: gpuaas-agent/1.2.3\r\nAccept-Encoding: gzip\r\n\r\n"
}

// readCertificates reads what writeCertificates wrote.
func readCertificates(folder string) ([]tls.Certificate, error) {
	var blocks []*pem.Block
	for _, name := range []string{"key.pem", "certs.pem"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			blocks = append(blocks, block)
		}
	}
	key, err := x509.ParsePKCS8PrivateKey(blocks[0].Bytes)
	if err != nil {
		return nil, err
	}
	certs := make([]tls.Certificate, 0, len(blocks)-1)
	for _, block := range blocks[1:] {
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf})
	}
	return certs, nil
}

// crowd is a control plane that holds every poll.
type crowd struct {
	agentgateway.Nodes
	agentgateway.Tasks
	held chan struct{}
}

func (c *crowd) Note(id.Node, agentwire.Vitals) {}

func (c *crowd) Authorize(_ context.Context, p node.Presented) (node.Identity, error) {
	return node.Identity{Node: p.Node, Status: node.Active, Generation: 1}, nil
}

func (c *crowd) Polled(context.Context, node.Identity) error { return nil }

func (c *crowd) Wait(ctx context.Context, _ id.Node, _ int64, hold time.Duration) (*agentwire.Envelope, error) {
	woken := make(chan struct{}, 1)
	timer := time.NewTimer(hold)
	defer timer.Stop()
	c.held <- struct{}{}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-woken:
	}
	return nil, nil
}

// writeCertificates writes certificates of so many nodes: what one may poll is
// bounded.
func writeCertificates(tb testing.TB, e *engine, count int) string {
	tb.Helper()
	key, folder := newKey(tb), tb.TempDir()
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	var certs []byte
	for range count {
		der := e.nodes.sign(tb, key.Public(), clientTemplate("spiffe://"+domain+"/node/"+id.New[id.Node]().String()))
		certs = append(certs, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	for name, text := range map[string][]byte{
		"certs.pem": certs, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return folder
}

// inUse is what the program has on its heap and stacks, in bytes. What the race
// detector adds beside them is not in it.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// resident is what the process has in memory, in bytes.
func resident(tb testing.TB) int64 {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// costOfPolls holds polls and answers how much the program has grown by that, and
// the size of the process.
func costOfPolls(tb testing.TB, count int) (grown, size int64) {
	tb.Helper()
	e := newEngine(tb)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &crowd{held: make(chan struct{}, count)}
	quiet := slog.New(slog.DiscardHandler)
	trust := agentgateway.NewTrust(agentgateway.TrustConfig{PKI: e, Names: []string{"127.0.0.1"}, Logger: quiet})
	if err := trust.Refresh(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	g := agentgateway.New(agentgateway.Config{
		Nodes: c, Contacts: c, Tasks: c, Trust: trust, Logger: quiet,
		Settings: agentgateway.Settings{TrustDomain: domain},
	})
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, listener) }()
	before := inUse()

	agents := exec.CommandContext(ctx, os.Args[0])
	agents.Env = append(os.Environ(), pollersVariable+"="+fmt.Sprintf("%s %d %s", listener.Addr(), count,
		writeCertificates(tb, e, count)))
	agents.Stderr = os.Stderr
	leave, err := agents.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := agents.Start(); err != nil {
		tb.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- agents.Wait() }()
	for range count {
		select {
		case <-c.held:
		case err := <-gone:
			tb.Fatalf("the agents ended: %v", err)
		}
	}
	grown, size = inUse()-before, resident(tb)
	_ = leave.Close()
	if err := <-gone; err != nil {
		tb.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		tb.Error(err)
	}
	return grown, size
}

func TestAnIdlePollIsCheapInMemory(t *testing.T) {
	const polls, most = 1000, 100 << 10 // ten thousand of them fit into one GiB
	grown, _ := costOfPolls(t, polls)
	t.Logf("%d bytes for each poll", grown/polls)
	if grown/polls > most {
		t.Errorf("%d polls cost %d bytes each, more than %d", polls, grown/polls, most)
	}
}

func BenchmarkTenThousandIdlePolls(b *testing.B) {
	const polls = 10_000
	for b.Loop() {
		grown, size := costOfPolls(b, polls)
		b.ReportMetric(float64(grown)/polls, "B/poll")
		b.ReportMetric(float64(size)/(1<<20), "MiB-resident")
	}
}
