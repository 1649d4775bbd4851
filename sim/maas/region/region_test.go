package region

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestEveryStatusHasItsNamesAndAWayOut(t *testing.T) {
	if Statuses != 23 {
		t.Fatalf("%d statuses", Statuses)
	}
	seen := map[string]bool{}
	for s := range Status(Statuses) {
		if back, ok := StatusOf(s.Ident()); !ok || back != s || seen[s.String()] {
			t.Errorf("%d: %s %s", s, s.Ident(), s)
		}
		seen[s.String()] = true
		if len(transitions[s]) == 0 {
			t.Errorf("%s has no way out", s)
		}
		for _, to := range transitions[s] {
			if to < 0 || int(to) >= Statuses {
				t.Errorf("%s leads to %d", s, to)
			}
		}
	}
	for _, tt := range []struct {
		from, to Status
		legal    bool
	}{
		{FailedDeployment, Deploying, false},
		{Ready, Deploying, false},
		{Allocated, Deploying, true},
		{Broken, Deployed, true},
		{FailedTesting, Commissioning, true},
		{Releasing, New, true},
		{Deployed, Deploying, false},
	} {
		if Legal(tt.from, tt.to) != tt.legal {
			t.Errorf("%s to %s is legal: %v", tt.from, tt.to, !tt.legal)
		}
	}
	if got := Status(99).String(); got != "Status(99)" {
		t.Error(got)
	}
}

func TestDrawnTimesLieInTheirRange(t *testing.T) {
	for _, pace := range []Pace{PaceRealistic, PaceTriangular} {
		for phase, k := range ranges {
			rng := rand.New(rand.NewPCG(1, 2))
			timing := Timing{Pace: pace, Speed: 10}.filled()
			for range 200 {
				if d := timing.draw(rng, phase); d < k.Least/10 || d > k.Most/5 {
					t.Fatalf("%s %s: %s", pace, phase, d)
				}
			}
		}
	}
	if d := (Timing{}.filled()).draw(rand.New(rand.NewPCG(1, 2)), PhaseInstall); d != 0 {
		t.Errorf("zero takes %s", d)
	}
	own := Timing{Ranges: map[string]Range{PhaseInstall: {time.Second, time.Second, time.Second}}}.filled()
	if d := own.draw(rand.New(rand.NewPCG(1, 2)), PhaseInstall); d != time.Second {
		t.Errorf("own range takes %s", d)
	}
}

func TestIntervals(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"15m": 15 * time.Minute, "1h30m": 90 * time.Minute,
		"2 hours": 2 * time.Hour, "90 sec": 90 * time.Second, "10min": 10 * time.Minute, "": 0, "banana": 0, "0m": 0, "5": 0,
		"-5m": 0,
	} {
		if got, ok := parseInterval(text); got != want || ok != (want > 0) {
			t.Errorf("%q: %s %v", text, got, ok)
		}
	}
}

func TestTwoKindsOfBooleans(t *testing.T) {
	for _, tt := range []struct {
		text       string
		word, form bool
		refused    bool
	}{
		{"true", true, true, false},
		{"True", true, true, false},
		{"1", true, true, false},
		{"0", false, true, false},
		{"false", false, false, false},
		{"no", false, true, false},
		{"maybe", false, true, true},
		{"", false, false, false},
	} {
		f := url.Values{"x": {tt.text}}
		word, err := wordBool(f, "x")
		if word != tt.word || (err != nil) != tt.refused || formBool(f, "x") != tt.form {
			t.Errorf("%q: %v %v %v", tt.text, word, err, formBool(f, "x"))
		}
	}
}

func FuzzAuthenticate(f *testing.F) {
	r := Open(Options{Seed: 1})
	f.Cleanup(r.Close)
	key := strings.Split(r.AdminKey(), ":")
	f.Add(`OAuth oauth_consumer_key="` + key[0] + `", oauth_token="` + key[1] + `", oauth_signature="%26` + "x" +
		`", oauth_signature_method="PLAINTEXT", oauth_timestamp="1", oauth_nonce="1"`)
	f.Add("OAuth ,,=\"")
	f.Add("Basic xyz")
	f.Fuzz(func(t *testing.T, header string) {
		c, err := r.Authenticate(header)
		if err == nil && !c.Anonymous() {
			t.Fatalf("%q got in", header)
		}
	})
}

func FuzzForms(f *testing.F) {
	f.Add("architecture=amd64&mac_addresses=52:54:00:00:00:01&power_type=manual&hostname=a", "cidr=10.0.0.0/8&vid=4095",
		"mode=STATIC&subnet=1&ip_address=::")
	f.Fuzz(func(t *testing.T, machine, subnet, link string) {
		r := Open(Options{Seed: 1})
		defer r.Close()
		admin := Caller{User: r.user("admin")}
		form := func(s string) url.Values {
			v, err := url.ParseQuery(s)
			if err != nil {
				return url.Values{}
			}
			return v
		}
		mf := form(machine)
		mf.Set("commission", "false")
		doc, err := r.Create(t.Context(), admin, mf)
		_, subnetErr := r.CreateSubnet(admin, form(subnet))
		_, listErr := r.List(admin, form(subnet))
		_, eventErr := r.Events(admin, form(link))
		for _, err := range []error{err, subnetErr, listErr, eventErr} {
			if err != nil && powerFailure(err).Status < 400 {
				t.Errorf("refused with %v", err)
			}
		}
		if err == nil && len(doc.Interfaces) > 0 {
			if i, err := r.LinkSubnet(admin, doc.SystemID, doc.Interfaces[0].ID, form(link)); err == nil && len(i.Links) == 0 {
				t.Error("linked without a link")
			}
		}
	})
}
