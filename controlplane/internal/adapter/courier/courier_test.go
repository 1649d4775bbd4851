package courier_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"gpuaas/controlplane/internal/adapter/courier"
	"gpuaas/controlplane/internal/base/fault"
)

// receiver counts the calls that reach it, and answers.
func receiver(t *testing.T, answer http.HandlerFunc) (url string, calls *atomic.Int32) {
	t.Helper()
	calls = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// A tenant names an address that only the control plane reaches, in all the ways
// that an address can be written.
func TestAttackAWebhookCallsWhatOnlyTheControlPlaneReaches(t *testing.T) {
	url, calls := receiver(t, ok)
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	c := courier.New(courier.Config{PlainHTTP: true})
	for _, host := range []string{
		"127.0.0.1", "127.1.2.3", "0.0.0.0", "localhost", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]",
		"10.1.2.3",
		"172.16.0.1", "192.168.1.1", "169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "100.100.100.200", "192.0.0.192",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "224.0.0.1", "255.255.255.255", "2130706433", "0x7f.1",
	} {
		_, _, err := c.Post(t.Context(), "http://"+host+":"+port+"/", nil, []byte("{}"))
		if code := fault.CodeOf(err); code != courier.CodeAddressRefused && code != courier.CodeUnreachable {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
}

// A name that resolves to a public address when it is checked, and to another one
// when it is dialled, gains nothing: what is dialled is the address that was checked.
func TestAttackANameChangesItsAddress(t *testing.T) {
	url, calls := receiver(t, ok)
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	var asked int
	var dialled []string
	c := courier.New(courier.Config{PlainHTTP: true, Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}).
		Resolving(func(string) []netip.Addr {
			if asked++; asked == 1 {
				return []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")}
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}).Dialling(func(address string) { dialled = append(dialled, address) })
	to := "http://rebinding.example:" + port + "/"
	_, _, _ = c.Post(t.Context(), to, nil, nil) //nolint:dogsled // nobody may listen there; which address it took is what counts
	if asked != 1 || len(dialled) != 1 || dialled[0] != "127.0.0.2:"+port {
		t.Errorf("the name was looked up %d times, and %v were dialled", asked, dialled)
	}
	if _, _, err := c.Post(t.Context(), to, nil, nil); fault.CodeOf(err) != courier.CodeAddressRefused {
		t.Errorf("after it changed: %v", err)
	}
	if calls.Load() != 0 {
		t.Error("the call arrived at an address that is refused")
	}
}

func TestAttackARedirectIsNotFollowed(t *testing.T) {
	inner, calls := receiver(t, ok)
	outer, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner, http.StatusTemporaryRedirect)
	})
	c := courier.New(courier.Config{PlainHTTP: true, Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	status, _, err := c.Post(t.Context(), outer, nil, []byte("{}"))
	if err != nil || status != http.StatusTemporaryRedirect || calls.Load() != 0 {
		t.Errorf("status %d, %v, %d calls beyond the redirect", status, err, calls.Load())
	}
}

func TestOnlyTheBeginningOfAnAnswerIsRead(t *testing.T) {
	url, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Webhook-Id") != "7" {
			t.Errorf("headers %v", r.Header)
		}
		for range 100 {
			if _, err := w.Write([]byte(strings.Repeat("x", 10_000))); err != nil {
				return // the courier has read enough
			}
		}
	})
	c := courier.New(courier.Config{PlainHTTP: true, Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	status, begins, err := c.Post(t.Context(), url, map[string]string{"webhook-id": "7"}, nil)
	if err != nil || status != http.StatusOK || len(begins) != courier.MaxAnswer {
		t.Errorf("status %d, %d bytes, %v", status, len(begins), err)
	}
}

func TestURLsThatNobodyCanBeToldAt(t *testing.T) {
	c := courier.New(courier.Config{})
	for _, url := range []string{
		"http://example.com/", "ftp://example.com/", "https://", "https://user:secret@example.com/", "https://example.com/#a",
		"//example.com", "https://exa mple.com/", "https://192.168.0.1/", "https://example.com/" + strings.Repeat("a", 2000),
	} {
		err := c.Check(url)
		if fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := c.Check("https://hooks.example.com/a?b=c"); err != nil {
		t.Error(err)
	}
}

// What the operator forbids is never called: not by a name below it, not where it is
// allowed otherwise, and not by a name that leads there.
func TestForbiddenDestinations(t *testing.T) {
	url, calls := receiver(t, ok)
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	c := courier.New(courier.Config{
		PlainHTTP: true, Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Forbidden:      []netip.Prefix{netip.MustParsePrefix("127.0.0.8/29"), netip.MustParsePrefix("8.8.8.0/24")},
		ForbiddenHosts: []string{"corp.example", ".Inner.example"},
	}).Resolving(func(host string) []netip.Addr {
		if host == "leads.example" {
			return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.9")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})
	for _, host := range []string{
		"corp.example", "api.corp.example", "API.CORP.EXAMPLE", "corp.example.", "x.inner.example", "leads.example",
		"127.0.0.9", "[::ffff:127.0.0.9]", "8.8.8.8",
	} {
		if _, _, err := c.Post(t.Context(), "http://"+host+":"+port+"/", nil, nil); fault.CodeOf(err) !=
			courier.CodeAddressRefused {
			t.Errorf("%s: %v", host, err)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("%d calls arrived", calls.Load())
	}
	for _, host := range []string{"notcorp.example", "corp.example.net", "127.0.0.1"} {
		if status, _, err := c.Post(t.Context(), "http://"+host+":"+port+"/", nil, nil); err != nil || status != 204 {
			t.Errorf("%s: %d, %v", host, status, err)
		}
	}
}
