package objects_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sort"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/adapter/objects"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

const key = "canary-key"

func mac(k []byte, text string) []byte {
	h := hmac.New(sha256.New, k)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// strict escapes a path as the protocol does: all but letters, digits and - . _ ~ /.
func strict(path string) string {
	var out strings.Builder
	for _, b := range []byte(path) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("-._~/", b) >= 0 {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

// signature computes what a store expects of a signed address, from the description of the
// protocol (Signature Version 4, query string, GET, only the host is signed).
func signature(u *url.URL, region string) string {
	q := u.Query()
	q.Del("X-Amz-Signature")
	names := make([]string, 0, len(q))
	for n := range q {
		names = append(names, n)
	}
	sort.Strings(names)
	pairs := make([]string, len(names))
	for i, n := range names {
		pairs[i] = url.QueryEscape(n) + "=" + strings.ReplaceAll(url.QueryEscape(q.Get(n)), "+", "%20")
	}
	canonical := strings.Join([]string{
		"GET", strict(u.Path), strings.Join(pairs, "&"), "host:" + u.Host + "\n", "host", "UNSIGNED-PAYLOAD",
	}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	at := q.Get("X-Amz-Date")
	scope := at[:8] + "/" + region + "/s3/aws4_request"
	k := mac(mac(mac(mac([]byte("AWS4"+key), at[:8]), region), "s3"), "aws4_request")
	return hex.EncodeToString(mac(k, "AWS4-HMAC-SHA256\n"+at+"\n"+scope+"\n"+hex.EncodeToString(sum[:])))
}

// An address is signed as the protocol of S3 says, for the file and the time that are meant.
func TestASignedAddress(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, address := range []string{
		"https://b.s3.eu-central-1.amazonaws.com/llm/weights.bin", "https://store.example:9000/b/a+b=c,d@e~f:g.bin",
	} {
		signed, err := objects.Sign(t.Context(), address, objects.Keys{
			ID: "AKIAEXAMPLE", Secret: redact.New(key), Region: "eu-central-1",
		}, now, 15*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(signed.Reveal())
		if err != nil || !strings.HasPrefix(signed.Reveal(), address+"?") {
			t.Fatalf("%s: %v", signed.Reveal(), err)
		}
		q := u.Query()
		if got, want := q.Get("X-Amz-Signature"), signature(u, "eu-central-1"); got != want {
			t.Errorf("%s: signature %s, want %s", address, got, want)
		}
		if q.Get("X-Amz-Expires") != "900" || q.Get("X-Amz-Date") != "20260304T050607Z" ||
			q.Get("X-Amz-Credential") != "AKIAEXAMPLE/20260304/eu-central-1/s3/aws4_request" {
			t.Errorf("%v", q)
		}
		if strings.Contains(signed.Reveal(), key) {
			t.Error("the key is in the address")
		}
	}
}

var (
	commit = strings.Repeat("a", 40)
	path   = "/acme/llm/resolve/" + commit + "/w.bin"
	digest = "sha256:" + strings.Repeat("b", 64)
)

func hub(t *testing.T, answer http.HandlerFunc) (*objects.Hub, string) {
	t.Helper()
	s := httptest.NewTLSServer(answer)
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return objects.NewHub(guard.Config{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, roots), s.URL
}

// The hub is asked with the token, and says where the bytes are.
func TestAFileOfTheHub(t *testing.T) {
	t.Parallel()
	old := strings.Replace(path, "/llm/", "/older-name/", 1)
	h, at := hub(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer canary" || r.Method != http.MethodHead:
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == old:
			http.Redirect(w, r, path, http.StatusTemporaryRedirect)
		default:
			w.Header().Set("X-Linked-Etag", `"`+strings.TrimPrefix(digest, "sha256:")+`"`)
			http.Redirect(w, r, "https://cdn.example/bytes?Signature=1", http.StatusFound)
		}
	})
	for _, address := range []string{at + path, at + old} {
		got, err := h.Resolve(t.Context(), address, digest, redact.New("canary"))
		if err != nil || got.Reveal() != "https://cdn.example/bytes?Signature=1" {
			t.Errorf("%s: %s: %v", address, got.Reveal(), err)
		}
	}
}

func TestTheHubGivesNoAddress(t *testing.T) {
	t.Parallel()
	sends := func(to, sum string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Linked-Etag", sum)
			http.Redirect(w, r, to, http.StatusFound)
		}
	}
	says := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   string
	}{
		"another file": {sends("https://cdn.example/", `"`+strings.Repeat("c", 64)+`"`), objects.CodeOtherFile},
		"no digest":    {sends("https://cdn.example/", ""), objects.CodeOtherFile},
		"without TLS":  {sends("http://cdn.example/", strings.TrimPrefix(digest, "sha256:")), objects.CodeNoAddress},
		"a small file": {says(http.StatusOK), objects.CodeNoAddress},
		"in a circle": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, objects.CodeNoAddress},
		"a gated model": {says(http.StatusForbidden), objects.CodeRefuses},
		"nothing":       {says(http.StatusNotFound), objects.CodeMissing},
		"too many":      {says(http.StatusTooManyRequests), objects.CodeUnreachable},
		"a broken answer": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, objects.CodeUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, at := hub(t, c.answer)
			_, err := h.Resolve(t.Context(), at+path, digest, redact.New("canary"))
			if fault.CodeOf(err) != c.code || strings.Contains(fmt.Sprint(err), "canary") {
				t.Errorf("%v, want %s", err, c.code)
			}
		})
	}
	h, at := hub(t, func(http.ResponseWriter, *http.Request) { t.Error("the hub was asked") })
	for _, p := range []string{"/acme/llm/resolve/main/w.bin", "/api/whoami-v2", path + "?x=1", ""} {
		if _, err := h.Resolve(t.Context(), at+p, digest, redact.New("canary")); fault.CodeOf(err) != objects.CodeNoFile {
			t.Errorf("%q: %v", p, err)
		}
	}
	closed := objects.NewHub(guard.Config{}, nil)
	for _, at := range []string{"https://127.0.0.1:1", "https://169.254.169.254"} {
		_, err := closed.Resolve(t.Context(), at+path, digest, redact.New("canary"))
		if fault.CodeOf(err) != objects.CodeAddressRefused {
			t.Errorf("%s: %v", at, err)
		}
	}
}
