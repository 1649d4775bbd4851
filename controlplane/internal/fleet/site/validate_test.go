package site

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestNormalURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://10.176.46.1:5240/MAAS":             "http://10.176.46.1:5240/MAAS",
		"http://MAAS.example:5240":                 "http://maas.example:5240/MAAS",
		"https://maas.example/MAAS/ \n":            "https://maas.example/MAAS",
		"https://maas.example:5443/MAAS/api/2.0/":  "https://maas.example:5443/MAAS",
		"http://[fd00::1]:5240/MAAS":               "http://[fd00::1]:5240/MAAS",
		"http://[fd00::1]/MAAS":                    "http://[fd00::1]/MAAS",
		"https://proxy.example/dc1/MAAS":           "https://proxy.example/dc1/MAAS",
		"":                                         "",
		"maas.example/MAAS":                        "",
		"ftp://maas.example/MAAS":                  "",
		"file:///etc/passwd":                       "",
		"http:///MAAS":                             "",
		"http://user:pass@maas.example/MAAS":       "",
		"http://user@maas.example/MAAS":            "",
		"http://maas.example/MAAS?x=1":             "",
		"http://maas.example/MAAS?":                "",
		"http://maas.example/MAAS#x":               "",
		"http://maas.example/other":                "",
		"http://maas.example/../MAAS":              "",
		"http://maas.example//MAAS":                "",
		"http://maas.example/%2e%2e/MAAS":          "",
		"http://maas.example:0/MAAS":               "",
		"http://maas.example:70000/MAAS":           "",
		"http://maas.example:/MAAS":                "",
		"http://under_score/MAAS":                  "",
		"http://169.254.169.254/MAAS":              "",
		"http://0.0.0.0/MAAS":                      "",
		"http://[fe80::1%25eth0]/MAAS":             "",
		"http://maas.example/MAAS\x00":             "",
		"http://" + strings.Repeat("a", 600) + "/": "",
	} {
		got, err := normalURL(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q becomes %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestNormalForms(t *testing.T) {
	for name, c := range map[string]struct {
		form func(string) (string, error)
		in   map[string]string // empty: refused
	}{
		"CIDR": {normalCIDR, map[string]string{
			"172.30.9.61/31": "172.30.9.61/31", "172.30.9.60/31": "172.30.9.60/31", "10.0.0.1/24\t": "10.0.0.1/24",
			"10.0.0.1/32": "10.0.0.1/32",
			"10.0.0.0/24": "", "10.0.0.255/24": "", "10.0.0.1": "", "10.0.0.1/33": "", "fd00::1/64": "", "0.0.0.0/0": "",
			"224.0.0.1/24": "", "127.0.0.1/8": "",
			"10.0.0.1/7": "", "169.254.1.1/16": "",
		}},
		"MAC": {normalMAC, map[string]string{
			"52:54:00:12:34:56": "52:54:00:12:34:56", "52-54-00-AB-CD-EF": "52:54:00:ab:cd:ef",
			"5254.0012.3456":    "52:54:00:12:34:56",
			"00:00:00:00:00:00": "", "ff:ff:ff:ff:ff:ff": "", "01:00:5e:00:00:01": "", "52:54:00:12:34": "",
			"52:54:00:12:34:56:78:90": "", "zz": "",
		}},
		"IP": {normalIP, map[string]string{
			"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "10.0.0.300": "", "10.0.0.0/8": "",
			"0.0.0.0": "", "fe80::1%eth0": "", "": "",
		}},
		"hostname": {normalHostname, map[string]string{
			"C07U31": "c07u31", "a.b.example": "a.b.example", "under_score": "", "-a": "", "a-": "", "a..b": "", "": "", "ü": "",
			strings.Repeat("a", 64):         "",
			strings.Repeat("a.", 130) + "a": "",
		}},
		"interval": {normalInterval, map[string]string{
			"15m": "15m", "1 hour": "1hour", "90s": "90s", "24h": "24h", "25h": "", "30s": "", "15": "", "m": "",
			"15 bananas": "", "-5m": "", "99999999m": "", "": "",
		}},
	} {
		for in, want := range c.in {
			got, err := c.form(in)
			if got != want || (err == nil) != (want != "") {
				t.Errorf("%s %q becomes %q, %v; want %q", name, in, got, err, want)
			}
		}
	}
}

func TestSupportedVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"3.7.3": true, "3.3": true, "3.8.0~alpha1": true, "4.0": true,
		"3.10.1": true, "3.2.9": false, "2.9": false, "": false, "x": false, "3": false,
	} {
		if supported(version) != want {
			t.Errorf("%q: %t", version, !want)
		}
	}
}

func TestErasingIsOrdered(t *testing.T) {
	inOrder := []Erase{EraseNone, EraseQuick, EraseSecure}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if a.Less(b) != (i < j) {
				t.Errorf("%s is less than %s: %t", a, b, a.Less(b))
			}
		}
	}
	if !Erase("other").Less(EraseNone) {
		t.Error("what is not known counts for something")
	}
}

func TestEveryTimeoutSaysWhatItMeans(t *testing.T) {
	seen := map[Stage]bool{}
	for _, limit := range DefaultPolicy().Timeouts() {
		if limit.Limit < time.Minute || limit.FailureClass == "" || limit.RecommendedAction == "" || seen[limit.Stage] {
			t.Errorf("%+v", limit)
		}
		seen[limit.Stage] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d timeouts", len(seen))
	}
}

func TestFingerprintsTellSecretsOfOneSiteApart(t *testing.T) {
	s := New(Config{})
	if s.rounds != 200_000 {
		t.Errorf("the product hashes %d times", s.rounds)
	}
	a := s.fingerprint([]byte("salt"), "user", "pass")
	for _, b := range []string{
		s.fingerprint([]byte("tlas"), "user", "pass"),
		s.fingerprint([]byte("salt"), "userp", "ass"), s.fingerprint([]byte("salt"), "user", "past"),
	} {
		if a == b {
			t.Error("two secrets have one fingerprint")
		}
	}
	if len(a) != 12 || a != s.fingerprint([]byte("salt"), "user", "pass") {
		t.Error(a)
	}
}

// What is accepted is in its normal form, and safe to put into a URL or a command.
func FuzzNormalURL(f *testing.F) {
	for _, s := range []string{
		"http://maas.example:5240/MAAS", "http://u:p@x/MAAS", "http://[::1]/MAAS",
		"http://x/%2e%2e/MAAS", "http://x/MAAS#@",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out, err := normalURL(in)
		if err != nil {
			if out != "" {
				t.Errorf("%q is refused and becomes %q", in, out)
			}
			return
		}
		u, err := url.Parse(out)
		if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "" ||
			!strings.HasSuffix(u.Path, "/MAAS") || strings.Contains(out, "..") {
			t.Errorf("%q becomes %q, %v", in, out, err)
		}
		if again, err := normalURL(out); again != out || err != nil {
			t.Errorf("%q becomes %q and then %q, %v", in, out, again, err)
		}
	})
}

func FuzzAssignments(f *testing.F) {
	f.Add("c07u31", "enp28s0np0", "172.30.9.61/31", int32(9000))
	f.Add("a.b", "e", "10.0.0.1/24", int32(0))
	f.Fuzz(func(t *testing.T, host, iface, cidr string, mtu int32) {
		rows, err := checkAssignments([]AssignmentRow{{host, iface, cidr, mtu}})
		if err != nil {
			return
		}
		r := rows[0]
		prefix, err := netip.ParsePrefix(r.IPv4CIDR)
		if err != nil || !prefix.Addr().Is4() || r.Hostname != strings.ToLower(r.Hostname) ||
			strings.ContainsAny(r.Hostname+r.Interface, " /;&|$\n\"'") || r.MTU != 0 && (r.MTU < 1280 || r.MTU > 9216) {
			t.Errorf("accepted %+v, %v", r, err)
		}
		if again, err := checkAssignments(rows); err != nil || again[0] != r {
			t.Errorf("%+v becomes %+v, %v", r, again, err)
		}
	})
}

func FuzzNormalForms(f *testing.F) {
	for _, s := range []string{"15m", "52:54:00:12:34:56", "fd00::1", "c07u31.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, form := range []func(string) (string, error){normalInterval, normalMAC, normalIP, normalHostname, normalCIDR} {
			out, err := form(in)
			if err != nil {
				continue
			}
			if again, err := form(out); err != nil || again != out {
				t.Errorf("%q becomes %q and then %q, %v", in, out, again, err)
			}
			if strings.ContainsAny(out, " ;&|$\n\x00\"'") {
				t.Errorf("%q becomes %q", in, out)
			}
		}
	})
}
