package maas_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

func brief(c *maas.Config) {
	c.ReadTimeout, c.WriteTimeout, c.ListTimeout, c.Retries = 150*time.Millisecond, 150*time.Millisecond,
		150*time.Millisecond, -1
}

func raw(body, contentType string, status int) func(int, request, http.ResponseWriter) {
	return func(_ int, _ request, w http.ResponseWriter) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const json200 = "application/json; charset=utf-8"

func TestBadAnswers(t *testing.T) {
	page := "<!DOCTYPE html><html><title>Welcome</title>" + strings.Repeat("<p>hello</p>\n", 1000)
	huge := strings.Repeat("error page ", 1<<20)[:10<<20]
	for name, c := range map[string]struct {
		answer func(int, request, http.ResponseWriter)
		read   fault.Kind
		write  fault.Kind
		code   string
	}{
		"web page":     {raw(page, "text/html", 200), fault.Invalid, fault.Ambiguous, maas.CodeNotMAAS},
		"web page 404": {raw(page, "text/html", 404), fault.Invalid, fault.Invalid, maas.CodeNotMAAS},
		"redirect":     {raw("", "text/html", 301), fault.Invalid, fault.Invalid, maas.CodeNotMAAS},
		"unknown endpoint": {
			raw("Unknown API endpoint: /MAAS/api/2.0/machines.", "text/plain", 404), fault.Invalid,
			fault.Invalid, maas.CodeNotMAAS,
		},
		"truncated JSON": {
			raw(`{"system_id": "p3ed`, json200, 200), fault.Unavailable, fault.Ambiguous,
			maas.CodeAnswerTruncated,
		},
		"empty":      {raw(``, json200, 200), fault.Unavailable, fault.Ambiguous, maas.CodeAnswerTruncated},
		"not JSON":   {raw(`OK then`, "text/plain", 200), fault.Invalid, fault.Ambiguous, maas.CodeAnswerInvalid},
		"other JSON": {raw(`{"hello": "world"}`, json200, 200), fault.Invalid, fault.Ambiguous, maas.CodeAnswerInvalid},
		"other type": {
			raw(`{"system_id": 7, "status_name": "Ready"}`, json200, 200), fault.Invalid, fault.Ambiguous,
			maas.CodeAnswerInvalid,
		},
		"large error page": {raw(huge, "text/plain", 500), fault.Unavailable, fault.Ambiguous, ""},
		"large answer": {
			raw(`["`+strings.Repeat("x", 2<<20)+`"]`, json200, 200), fault.Invalid, fault.Ambiguous,
			maas.CodeAnswerTooLarge,
		},
		"stale timestamp": {raw("Authorization Error: 'Expired timestamp: given 1 and now 2 has a greater difference than "+
			"threshold 300'", "text/html", 401), fault.Unavailable, fault.Unavailable, maas.CodeClockSkew},
		"leaked signature": {raw("Authorization Error: 'Invalid signature. Expected signature base string: &"+secret+"'",
			"text/html", 401), fault.Forbidden, fault.Forbidden, maas.CodeTokenInvalid},
		"rate limited":  {raw("slow down", "text/plain", 429), fault.Unavailable, fault.Unavailable, maas.CodeBusy},
		"proxy without": {raw("<html>Bad gateway</html>", "text/html", 502), fault.Unavailable, fault.Ambiguous, ""},
		"connection cut": {func(_ int, _ request, w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"system_id": `)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, fault.Unavailable, fault.Ambiguous, maas.CodeAnswerTruncated},
		"no answer at all": {
			func(int, request, http.ResponseWriter) { panic(http.ErrAbortHandler) }, fault.Unavailable,
			fault.Ambiguous, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, c.answer)
			cl := client(t, g.URL, func(cfg *maas.Config) { cfg.Retries, cfg.MaxAnswer = -1, 1<<20 })
			for _, got := range []struct {
				kind fault.Kind
				err  error
			}{{c.read, read(t.Context(), cl)}, {c.write, update(t.Context(), cl)}} {
				code := c.code
				if code == "" {
					code = fault.CodeOf(got.err)
				}
				checkFault(t, got.err, got.kind, code)
			}
		})
	}
}

func TestAHungOrTricklingMAASIsGivenUp(t *testing.T) {
	for name, answer := range map[string]func(context.Context, http.ResponseWriter){
		"hung": func(ctx context.Context, _ http.ResponseWriter) { <-ctx.Done() },
		"trickle": func(ctx context.Context, w http.ResponseWriter) {
			for ctx.Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm() // the end of a connection is noticed only once the body was read
				answer(r.Context(), w)
			}))
			defer s.Close()
			c := client(t, s.URL, brief)
			checkFault(t, read(t.Context(), c), fault.Unavailable, maas.CodeUnreachable)
			if err := update(t.Context(), c); fault.KindOf(err) != fault.Ambiguous {
				t.Errorf("%v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := update(ctx, c); fault.KindOf(err) != fault.Ambiguous {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
}

func TestAMAASThatIsDownHasNotSeenTheWrite(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c := client(t, "http://"+address)
	checkFault(t, read(t.Context(), c), fault.Unavailable, maas.CodeUnreachable)
	checkFault(t, update(t.Context(), c), fault.Unavailable, maas.CodeUnreachable)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	checkFault(t, update(done, c), fault.Unavailable, maas.CodeUnreachable)
}

func TestReadsAreRepeatedAndSignedAnew(t *testing.T) {
	g := serve(t, func(n int, _ request, w http.ResponseWriter) {
		switch n {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		default:
			put(w, recorded()["06/14"])
		}
	})
	if err := read(t.Context(), client(t, g.URL, func(c *maas.Config) { c.Retries = 3 })); err != nil {
		t.Fatal(err)
	}
	signatures := map[string]bool{}
	for _, r := range g.asked() {
		signatures[r.Auth] = true
		if !strings.HasPrefix(r.Auth, `OAuth oauth_version="1.0", oauth_signature_method="PLAINTEXT"`) ||
			!strings.Contains(r.Auth, `oauth_signature="%26`+secret+`"`) {
			t.Errorf("header %s", r.Auth)
		}
	}
	if len(signatures) < 3 {
		t.Errorf("%d signatures", len(signatures))
	}
}

func TestOnlyACollisionLetsAWriteRepeat(t *testing.T) {
	g := serve(t, func(n int, _ request, w http.ResponseWriter) {
		if n == 0 {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, "<html>conflict</html>")
			return
		}
		put(w, recorded()["02/33"])
	})
	if err := update(t.Context(), client(t, g.URL)); err != nil || len(g.asked()) != 2 {
		t.Errorf("%v after %d requests", err, len(g.asked()))
	}
}

func TestAUsedNonceIsReplacedForReadsOnly(t *testing.T) {
	answer := func(n int, _ request, w http.ResponseWriter) {
		if n == 0 {
			raw("Authorization Error: 'Nonce already used: x'", "text/html", 401)(n, request{}, w)
			return
		}
		put(w, recorded()["06/14"])
	}
	if err := read(t.Context(), client(t, serve(t, answer).URL)); err != nil {
		t.Error(err)
	}
	checkFault(t, update(t.Context(), client(t, serve(t, answer).URL)), fault.Ambiguous, maas.CodeAmbiguous)
}

// certify makes a server certificate and the CA that signed it.
func certify(t *testing.T, notAfter time.Time) (tls.Certificate, []byte) {
	t.Helper()
	caKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	leafKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "maas"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &leafKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: leafKey},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
}

func TestCertificates(t *testing.T) {
	good, ca := certify(t, time.Now().Add(time.Hour))
	expired, expiredCA := certify(t, time.Now().Add(-time.Hour))
	for name, c := range map[string]struct {
		cert tls.Certificate
		ca   []byte
		says string
	}{
		"right CA": {good, ca, ""}, "wrong CA": {good, expiredCA, "unknown authority"},
		"no CA":   {good, nil, "unknown authority"},
		"expired": {expired, expiredCA, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { put(w, recorded()["06/14"]) }))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{c.cert}}
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.StartTLS()
			defer s.Close()
			cl := client(t, s.URL, func(cfg *maas.Config) { cfg.CA = c.ca })
			err := read(t.Context(), cl)
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			checkFault(t, err, fault.Unavailable, maas.CodeTLS)
			if f, _ := fault.As(err); !strings.Contains(f.Message, c.says) {
				t.Errorf("message %q", f.Message)
			}
			checkFault(t, update(t.Context(), cl), fault.Unavailable, maas.CodeTLS) // never sent
		})
	}
	plain := serve(t, raw("x", "text/plain", 200))
	err := read(t.Context(), client(t, strings.Replace(plain.URL, "http:", "https:", 1)))
	if code := fault.CodeOf(err); code != maas.CodeTLS && code != maas.CodeNotMAAS {
		t.Errorf("TLS to a plain port: %v", err)
	}
}

func TestTheGuardRefusesAddresses(t *testing.T) {
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) { put(w, recorded()["06/14"]) })
	port := g.URL[strings.LastIndex(g.URL, ":"):]
	for _, c := range []struct {
		url     string
		allowed []netip.Prefix
		refused bool
	}{
		{g.URL, nil, false},
		{"http://localhost" + port, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, false},
		{g.URL, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, true},
		{"http://[::ffff:127.0.0.1]" + port, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, true},
		{"http://169.254.169.254", nil, true},
		{"http://[fe80::1]", nil, true},
		{"http://0.0.0.0" + port, nil, true},
		{"http://224.0.0.1", nil, true},
	} {
		cl := client(t, c.url, func(cfg *maas.Config) { cfg.AllowedNetworks = c.allowed })
		err := read(t.Context(), cl)
		if !c.refused {
			if err != nil {
				t.Errorf("%s: %v", c.url, err)
			}
			continue
		}
		checkFault(t, err, fault.Forbidden, maas.CodeAddressRefused)
	}
}

// A name that resolves first to one address and then to loopback is dialled at
// the checked address. On loopback only the port that the operator named is
// called.
func TestLoopbackIsCalledOnlyWhereItWasNamed(t *testing.T) {
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) { put(w, recorded()["06/14"]) })
	here := netip.MustParseAddrPort(strings.TrimPrefix(g.URL, "http://"))
	for _, c := range []struct {
		named   func(netip.AddrPort) bool
		refused bool
	}{
		{nil, true},
		{func(to netip.AddrPort) bool { return to == netip.AddrPortFrom(here.Addr(), here.Port()+1) }, true},
		{func(to netip.AddrPort) bool { return to == here }, false},
	} {
		cl := client(t, g.URL, func(cfg *maas.Config) { cfg.Loopback = c.named })
		if err := read(t.Context(), cl); !c.refused && err != nil {
			t.Error(err)
		} else if c.refused {
			checkFault(t, err, fault.Forbidden, maas.CodeAddressRefused)
		}
	}
}

func TestClientsOfASiteShareItsSlots(t *testing.T) {
	var inFlight, most atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := inFlight.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		<-time.After(2 * time.Millisecond)
		inFlight.Add(-1)
		put(w, recorded()["06/14"])
	}))
	defer s.Close()
	limiter := maas.NewLimiter(maas.PerSite)
	shared := func(cfg *maas.Config) { cfg.Limiter = limiter }
	var wg sync.WaitGroup
	for _, c := range []*maas.Client{client(t, s.URL, shared), client(t, s.URL, shared)} {
		for range 20 {
			wg.Go(func() {
				if err := read(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if most.Load() > maas.PerSite || most.Load() < 2 {
		t.Errorf("%d in flight", most.Load())
	}

	var held []func()
	for range maas.PerSite {
		release, err := limiter.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	checkFault(t, update(ctx, client(t, s.URL, shared)), fault.Unavailable, maas.CodeUnreachable) // never sent
	for _, release := range held {
		release()
	}
}

func TestSkewIsMeasured(t *testing.T) {
	g := serve(t, func(_ int, _ request, w http.ResponseWriter) {
		w.Header().Set("Date", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
		put(w, recorded()["06/14"])
	})
	c := client(t, g.URL)
	if _, known := c.Skew(); known {
		t.Error("skew known before the first answer")
	}
	if err := read(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if skew, known := c.Skew(); !known || skew < 9*time.Minute || skew > 11*time.Minute {
		t.Errorf("skew %v %v", skew, known)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	good := "http://maas.example:5240"
	for _, c := range []struct{ url, token, ca, code string }{
		{"", key, "", maas.CodeURLInvalid},
		{"maas.example:5240", key, "", maas.CodeURLInvalid},
		{"ftp://maas.example", key, "", maas.CodeURLInvalid},
		{"http://u:canary@maas.example", key, "", maas.CodeURLInvalid},
		{"http://maas.example/MAAS?x=1", key, "", maas.CodeURLInvalid},
		{"http://maas.example/MAAS#x", key, "", maas.CodeURLInvalid},
		{"http://maas.example/../x", key, "", maas.CodeURLInvalid},
		{"http://", key, "", maas.CodeURLInvalid},
		{"http://%zz", key, "", maas.CodeURLInvalid},
		{good, "a:b", "", maas.CodeTokenMalformed},
		{good, "a:b:c:d", "", maas.CodeTokenMalformed},
		{good, "a::c", "", maas.CodeTokenMalformed},
		{good, "a:b:c\nX-Injected: yes", "", maas.CodeTokenMalformed},
		{good, key, "not PEM", maas.CodeCAInvalid},
	} {
		_, err := maas.New(maas.Config{URL: c.url, Token: redact.New(c.token), CA: []byte(c.ca)})
		checkFault(t, err, fault.Invalid, c.code)
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("the URL is quoted: %v", err)
		}
	}
	for raw, want := range map[string]string{
		"http://maas.example:5240": "/MAAS/api/2.0/", "http://maas.example/MAAS/": "/MAAS/api/2.0/",
		"https://maas.example/MAAS/api/2.0/": "/MAAS/api/2.0/", "https://maas.example/r/MAAS": "/r/MAAS/api/2.0/",
	} {
		if u, err := maas.ParseURL(raw); err != nil || u.Path != want {
			t.Errorf("%s: %v %v", raw, u, err)
		}
	}
}

func TestIDsCannotLeadElsewhere(t *testing.T) {
	g := serve(t, raw("x", "text/plain", 200))
	c := client(t, g.URL)
	for _, id := range []string{"", ".", ".."} {
		_, err := c.Machine(t.Context(), id)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", id, err)
		}
	}
	_, _ = c.Machine(t.Context(), "a/b?op=x#y")
	if got := g.asked(); len(got) != 1 || got[0].Path != "/machines/a/b?op=x#y/" || got[0].op() != "" {
		t.Errorf("sent %v", got)
	}
}
