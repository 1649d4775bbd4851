package site_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/controlplane/internal/fleet/site"
)

func TestCredentialsAreWrittenAndNeverShown(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	v := w.credentials(t, path)
	for what, c := range map[string]site.CredentialView{
		"token": v.APIToken, "power": v.Power,
		"deploy": v.DeployPassword,
	} {
		if !c.HasCredentials || len(c.Fingerprint) != 12 || !recent(c.RotatedAt) {
			t.Errorf("%s is shown as %+v", what, c)
		}
	}
	base := "maas-sites/" + v.SiteID.String()
	if got := w.stored(t, base+"/api-token")["token"].Reveal(); got != goodToken {
		t.Errorf("the engine holds %q", got)
	}
	if got := w.stored(t, base+"/power/default"); got["user"].Reveal() != "root" || got["pass"].Reveal() != powerPass {
		t.Error("the engine does not hold the BMC credentials")
	}
	if got := w.stored(t, base+"/deploy-password")["pass"].Reveal(); got != deployPassword {
		t.Errorf("the engine holds %q", got)
	}
	a := w.call(t, http.MethodPost, path+"/power-overrides", "",
		object{"selector_type": "hostname", "selector_value": "c07u31", "user": "root", "pass": overridePass})
	if a.Status != http.StatusCreated {
		t.Fatalf("answer is %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodPost, path+"/credentials", "",
		object{"api_token": "canaryconsumer0001:canarytoken0000001:wrongwrongwrong"})
	w.call(t, http.MethodPost, path+"/probe", "", nil)
	noCanary(t, w)
}

// noCanary searches everything that is kept or printed.
func noCanary(t *testing.T, w *world) {
	t.Helper()
	words := []string{
		powerPass, deployPassword, overridePass, "canarysecretcanarysecret00000001", "canarytoken0000001",
		"wrongwrongwrong",
	}
	rows, err := w.owner.Query(t.Context(),
		`SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 8 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		for _, word := range words {
			var n int
			query := fmt.Sprintf(`SELECT count(*) FROM %s x WHERE x::text ILIKE '%%' || $1 || '%%' OR x::text ILIKE '%%' || encode($1::text::bytea, 'hex') || '%%'`,
				pgx.Identifier{table}.Sanitize())
			if err := w.owner.QueryRow(t.Context(), query, word).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n != 0 {
				t.Errorf("table %s holds %s in %d rows", table, word, n)
			}
		}
	}
	for _, word := range words {
		if strings.Contains(w.logs.String(), word) {
			t.Errorf("the log holds %s", word)
		}
	}
	if !strings.Contains(w.logs.String(), "probe-maas-site") {
		t.Error("the log was not looked into")
	}
}

func TestBadTokensAreRefusedAndNothingIsWritten(t *testing.T) {
	wrong := "canaryconsumer0001:canarytoken0000001:wrongwrongwrong"
	for name, c := range map[string]struct {
		token string
		spoil func(w *world)
		code  string
		field string
	}{
		"malformed": {token: "just-one-part", code: "validation_error", field: "body.api_token"},
		"wrong":     {token: wrong, code: "maas_token_invalid", field: "body.api_token"},
		"not admin": {spoil: func(w *world) {
			w.maas.say("users/ whoami", 200,
				`{"username": "joe", "is_superuser": false}`)
		}, code: "maas_not_admin"},
		"not MAAS":    {spoil: func(w *world) { w.maas.on("version/", html(200)) }, code: "maas_not_maas"},
		"unreachable": {spoil: func(w *world) { w.maas.Close() }, code: "maas_unreachable"},
		"failing":     {spoil: func(w *world) { w.maas.say("version/", 502, "no") }, code: "maas_unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v, path := w.site(t, "dc1")
			if c.spoil != nil {
				c.spoil(w)
			}
			if c.token == "" {
				c.token = goodToken
			}
			a := w.call(t, http.MethodPost, path+"/credentials", "", object{
				"api_token": c.token, "power": object{"user": "root", "pass": powerPass},
			})
			a.Wants(t, http.StatusUnprocessableEntity, c.code, "body.api_token")
			if strings.Contains(string(a.Body), "canary") || strings.Contains(string(a.Body), "wrongwrong") {
				t.Errorf("the answer holds a secret: %s", a.Body)
			}
			base := "maas-sites/" + v.SiteID.String()
			if w.stored(t, base+"/api-token") != nil || w.stored(t, base+"/power/default") != nil {
				t.Error("something was written")
			}
			if n := w.rows(t, `SELECT count(*) FROM maas_sites WHERE version <> 1`); n != 0 {
				t.Error("the site was changed")
			}
		})
	}
}

func html(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html><body>Welcome to nginx</body></html>"))
	}
}

func TestEmptyOrUnreadableCredentialsAreRefused(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	for _, body := range []object{
		{},
		{"api_token": ""},
		{"power": object{"user": "root"}},
		{"power": object{"user": "", "pass": "x"}},
		{"power": object{"user": "root", "pass": "a\nb"}},
		{"deploy_password": "a\x1b[31m"},
		{"password": "x"},
	} {
		w.call(t, http.MethodPost, path+"/credentials", "", body).Wants(t, http.StatusUnprocessableEntity, "validation_error")
	}
}

func TestRotationTakesEffectAtTheNextUse(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	first := w.credentials(t, path)
	if _, err := w.service.Access(system(t), v.SiteID); err != nil {
		t.Fatal(err)
	}
	a := w.call(t, http.MethodPost, path+"/credentials", "", object{"power": object{"user": "root", "pass": "next"}})
	var second site.View
	a.Decode(t, &second)
	if second.Power.Fingerprint == first.Power.Fingerprint || second.APIToken != first.APIToken &&
		second.APIToken.Fingerprint != first.APIToken.Fingerprint {
		t.Errorf("fingerprints were %+v and are %+v", first.Power, second.Power)
	}
	got, choice, err := w.service.PowerFor(system(t), v.SiteID, site.Machine{Hostname: "c07u31"})
	if err != nil || got.Pass.Reveal() != "next" || choice.Fingerprint != second.Power.Fingerprint {
		t.Errorf("credentials are %v by %+v, %v", got, choice, err)
	}
	pass, err := w.service.DeployPassword(system(t), v.SiteID)
	if err != nil || pass.Reveal() != deployPassword {
		t.Error(pass, err)
	}
	if n := w.rows(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'site.credentials_rotated'`); n != 2 {
		t.Errorf("%d events", n)
	}
}

// Whoever changes the URL of a site must not get its token sent to them.
func TestTheTokenIsSentOnlyWhereItWasCheckedAgainst(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	w.credentials(t, path)
	trap := newRegion(t)
	a := w.call(t, http.MethodPatch, path, `"2"`, object{"api_base_url": trap.URL})
	a.Decode(t, &v)
	if a.Status != http.StatusOK || v.APIToken.HasCredentials || !v.Power.HasCredentials {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	_, err := w.service.Access(system(t), v.SiteID)
	if fault.CodeOf(err) != "site_token_of_other_url" {
		t.Errorf("access: %v", err)
	}
	checks := w.probe(t, path)
	if c := checks["token_valid"]; c.OK || c.Code != "site_token_of_other_url" {
		t.Errorf("token check is %+v", c)
	}
	for _, call := range trap.calls() {
		if strings.Contains(call, "canary") {
			t.Errorf("the trap was told %s", call)
		}
	}
	w.credentials(t, path)
	if _, err := w.service.Access(system(t), v.SiteID); err != nil {
		t.Errorf("after writing it again: %v", err)
	}
}

func TestSecretsEngineDown(t *testing.T) {
	refused := fault.New(fault.Unavailable, "secrets_refused", "the secrets engine refused the request with status 403").
		WithRemedy("check the policy")
	for name, c := range map[string]struct {
		failure error
		code    string
	}{
		"down or sealed": {fault.New(fault.Unavailable, "secrets_unavailable", "sealed"), "secrets_unavailable"},
		"denying":        {refused, "secrets_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, path := w.site(t, "dc1")
			w.credentials(t, path)
			made := w.override(t, path, "hostname", "a1")
			audits := w.rows(t, `SELECT count(*) FROM audit_logs`)
			w.vault.fail(c.failure)
			override := object{"selector_type": "hostname", "selector_value": "c07u31", "user": "root", "pass": overridePass}
			w.call(t, http.MethodPost, path+"/credentials", "", object{"api_token": goodToken}).Wants(t, 503, c.code)
			w.call(t, http.MethodPost, path+"/power-overrides", "", override).Wants(t, 503, c.code)
			one := path + "/power-overrides/" + made.PowerOverrideID.String()
			w.call(t, http.MethodPatch, one, `"1"`, object{"credentials": object{"user": "u", "pass": "p"}}).
				Wants(t, 503, c.code)
			w.call(t, http.MethodDelete, one, "", nil).Wants(t, 503, c.code)
			if n := w.rows(t, `SELECT count(*) FROM audit_logs`); n != audits {
				t.Error("something was half-written")
			}
			// A probe still has an answer.
			checks := w.probe(t, path)
			if !checks["reachable"].OK || checks["token_valid"].Code != c.code ||
				checks["rack_controllers"].Code != "not_checked" {
				t.Errorf("checks are %+v", checks)
			}
			w.vault.fail(nil)
			w.credentials(t, path)
		})
	}
}

// The real engine: unreachable, and with credentials it does not know.
func TestRealSecretsEngineUnreachable(t *testing.T) {
	w := newWorld(t)
	e, err := secrets.Open(secrets.Config{
		Address: "http://127.0.0.1:1", RoleIDFile: "/dev/null",
		SecretIDFile: "/dev/null", KVMount: "gpuaas-kv",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, path := w.site(t, "dc1")
	w.vault.SecretStore = e
	a := w.call(t, http.MethodPost, path+"/credentials", "", object{"api_token": goodToken})
	a.Wants(t, http.StatusServiceUnavailable, "secrets_unavailable")
	if n := w.rows(t, `SELECT count(*) FROM maas_sites WHERE version <> 1`); n != 0 {
		t.Error("the site was changed")
	}
}

// A crash after the engine was written to and before the row was: the new
// credentials are used, and writing them again puts the fingerprint right.
func TestCrashBetweenEngineAndRowIsHarmless(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	before := w.credentials(t, path)
	ctx, crash := context.WithCancelCause(system(t))
	w.vault.after = func() { crash(errors.New("crash")) }
	given := site.Credentials{Power: &site.PowerCredentials{User: "root", Pass: secret("next")}}
	if _, err := w.service.SetCredentials(ctx, v.SiteID, given); err == nil {
		t.Fatal("the crash did not happen")
	}
	now, err := w.service.Site(system(t), v.SiteID)
	if err != nil || now.Power.Fingerprint != before.Power.Fingerprint {
		t.Errorf("the row says %+v, %v", now.Power, err)
	}
	used, _, err := w.service.PowerFor(system(t), v.SiteID, site.Machine{Hostname: "a"})
	if err != nil || used.Pass.Reveal() != "next" {
		t.Errorf("used is %v, %v", used, err)
	}
	after, err := w.service.SetCredentials(system(t), v.SiteID, given)
	if err != nil || after.Power.Fingerprint == before.Power.Fingerprint {
		t.Errorf("after: %+v, %v", after.Power, err)
	}
}

// Two administrators write at once: one is told to write again, because nobody
// can tell whose is in the engine.
func TestCredentialsWrittenAtOnceAreNoticed(t *testing.T) {
	w := newWorld(t)
	v, _ := w.site(t, "dc1")
	write := func(pass string) error {
		_, err := w.service.SetCredentials(system(t), v.SiteID,
			site.Credentials{Power: &site.PowerCredentials{User: "root", Pass: secret(pass)}})
		return err
	}
	w.vault.after = func() {
		if err := write("other"); err != nil {
			t.Error(err)
		}
	}
	if err := write("mine"); fault.CodeOf(err) != "site_credentials_raced" {
		t.Errorf("the second writer is told %v", err)
	}
	if err := write("mine"); err != nil {
		t.Error(err)
	}
}
