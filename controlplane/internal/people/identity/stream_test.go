package identity_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/people/identity"
)

type watchInput struct{}

type nothing struct{}

// Every way to lose a stream, with the settings of a real control plane.
func TestAttackAStreamDoesNotOutliveWhatItsCallerLost(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(tb testing.TB, w *world, who identity.User, project id.Project, token redact.Secret)
		code string
	}{
		"the token is revoked": {func(tb testing.TB, w *world, _ identity.User, _ id.Project, token redact.Secret) {
			ctx := w.as(tb, token)
			if err := w.service.RevokeOwnToken(ctx, auth.From(ctx).Token); err != nil {
				tb.Error(err)
			}
		}, "token_invalid"},
		"the token expires": {func(_ testing.TB, w *world, _ identity.User, _ id.Project, _ redact.Secret) {
			w.clock.advance(31 * 24 * time.Hour)
		}, "token_expired"},
		"the person is disabled": {func(tb testing.TB, w *world, who identity.User, _ id.Project, _ redact.Secret) {
			disabled := true
			must(w.service.UpdateUser(system(tb), who.ID, who.Version, identity.UserChange{Disabled: &disabled}))(tb)
		}, "token_invalid"},
		"the membership is removed": {func(tb testing.TB, w *world, who identity.User, project id.Project, _ redact.Secret) {
			if err := w.service.RemoveProjectMember(system(tb), project, who.ID); err != nil {
				tb.Error(err)
			}
		}, "insufficient_permissions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, identity.OIDCConfig{})
			opened := make(chan struct{})
			httpapi.RegisterStream(w.api, httpapi.Operation{
				ID: "watch", Method: http.MethodGet, Path: "/watch", Summary: "watch", Tag: "test",
				Access: httpapi.Anywhere(auth.EventRead),
			}, map[string]any{"event": nothing{}}, func(ctx context.Context, _ *watchInput,
				send func(httpapi.Event) error,
			) error {
				err := send(httpapi.Event{})
				close(opened)
				<-ctx.Done()
				return err
			})
			who := w.user(t, "a@example.com", auth.NoRole)
			project := w.project(t, w.tenant(t, "acme").ID, "lab").ID
			must(w.service.PutProjectMember(system(t), project, who.ID, auth.ProjectMember))(t)
			token := w.token(t, who.ID)
			ended := make(chan httpapitest.Answer)
			go func() { ended <- w.callAs(t, token, http.MethodGet, "/watch", "", nil) }()
			<-opened
			c.lose(t, w, who, project, token)
			select {
			case got := <-ended:
				if !bytes.Contains(got.Body, []byte("event: problem")) || !bytes.Contains(got.Body, []byte(c.code)) {
					t.Errorf("the stream ended without saying %s: %s", c.code, got.Body)
				}
			case <-time.After(15 * time.Second):
				t.Error("the stream goes on")
				w.api.CloseStreams()
				<-ended
			}
		})
	}
}

// An event in a project names the project, in the row and in the envelope.
func TestEventsOfAProjectNameIt(t *testing.T) {
	w := newWorld(t, identity.OIDCConfig{})
	org := w.tenant(t, "acme").ID
	project := w.project(t, org, "lab").ID
	who := w.user(t, "a@example.com", auth.NoRole)
	must(w.service.PutProjectMember(system(t), project, who.ID, auth.ProjectMember))(t)
	must(w.service.PutTenantMember(system(t), org, who.ID, auth.TenantAdmin))(t)
	account := w.account(t, project, "robot", auth.ProjectMember)
	if _, _, err := w.service.CreateServiceAccountToken(system(t), project, account.ID,
		identity.NewToken{Name: "robot"}); err != nil {
		t.Fatal(err)
	}
	w.token(t, who.ID)
	for _, kind := range []string{"project.created", "service_account.created", "token.created", "membership.changed"} {
		w.wantRows(t, `SELECT count(*) FROM outbox_events WHERE event_type = '`+kind+`'
			AND project_id = '`+project.String()+`' AND envelope ->> 'project_id' = project_id::text AND org_id IS NOT NULL`, 1)
	}
	w.wantRows(t, `SELECT count(*) FROM outbox_events WHERE event_type IN ('tenant.created', 'user.created', 'token.created', 'membership.changed')
		AND project_id IS NULL AND NOT envelope ? 'project_id'`, 4)
}
