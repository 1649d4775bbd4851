package agenttask_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// doorman knows a platform administrator by the token "root" and an auditor by
// "auditor".
type doorman struct{}

func (doorman) Authenticate(_ context.Context, token redact.Secret) (*auth.Principal, error) {
	role := map[string]auth.Role{"root": auth.PlatformAdmin, "auditor": auth.Auditor}[token.Reveal()]
	return &auth.Principal{Kind: auth.KindUser, ID: token.Reveal(), Name: token.Reveal(), Platform: role}, nil
}

func (doorman) ProjectOrg(context.Context, id.Project) (id.Org, error) { return id.Org{}, nil }

func (doorman) RecordDenial(context.Context, httpapi.Denial) error { return nil }

type object = map[string]any

// site is the API with nothing but tasks in it.
type site struct {
	*world
	handler http.Handler
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{world: newWorld(t)}
	s.commands.Preparers = map[string]agenttask.Prepare{
		agentwire.TypeSelfUpdate: func(_ context.Context, _ id.Node, params json.RawMessage) (json.RawMessage, error) {
			if strings.Contains(string(params), "9.9.9") {
				return nil, fault.New(fault.NotFound, "agent_version_unknown", "no such version")
			}
			return json.Marshal(agentwire.SelfUpdateParams{
				Action: "update", Version: "1.0.0", Digest: "sha256:" + strings.Repeat("a", 64), SizeBytes: 1, SignerVersion: "s1",
				Signature: []byte("x"),
			})
		},
	}
	api := httpapi.New(httpapi.Config{
		Title: "test", Version: "1", DB: s.db, Auth: doorman{}, Projects: doorman{}, Denials: doorman{},
		Limits: httpapi.Limits{RequestsPerSecond: 1e6, Burst: 1e6},
	})
	s.commands.RegisterAPI(api)
	s.handler = api.Handler()
	return s
}

func (s *site) call(t *testing.T, token, method, path string, body, into any) (status int, code string) {
	t.Helper()
	var payload io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		payload = bytes.NewReader(b)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1/admin"+path, payload)
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	s.handler.ServeHTTP(rec, r)
	if rec.Code >= 400 {
		var problem struct{ Code string }
		if err := json.Unmarshal(rec.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		return rec.Code, problem.Code
	}
	if into != nil {
		if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %v", rec.Body, err)
		}
	}
	return rec.Code, ""
}

func TestATaskOverTheAPI(t *testing.T) {
	s := newSite(t)
	node := s.node(t)
	tasks := "/nodes/" + node.String() + "/tasks"
	var v agenttask.View
	status, code := s.call(t, "root", http.MethodPost, tasks,
		object{"type": "node.drain", "params": object{"reason": "r", "revoke_users": true}, "reason": "maintenance"}, &v)
	if status != http.StatusAccepted || v.Status != "queued" || string(v.Params) != `{"reason":"r","revoke_users":true}` ||
		v.RequestedBy != "root" || v.Reason != "maintenance" {
		t.Fatalf("%d %s %+v", status, code, v)
	}
	task := s.now(t, agenttask.Task{ID: v.TaskID})
	s.fetch(t, task)
	step := agentwire.Step{Seq: 1, Name: "sessions", Status: "succeeded", At: s.clock.now()}
	if _, err := s.queue.Progress(t.Context(), node, task.ID,
		agentwire.ProgressRequest{Attempt: 1, Steps: []agentwire.Step{step}}); err != nil {
		t.Fatal(err)
	}
	if status, _ = s.call(t, "root", http.MethodPost, "/node-tasks/"+v.TaskID.String()+"/cancel",
		object{"reason": "enough"}, &v); status != http.StatusAccepted || !v.CancelRequested {
		t.Errorf("%d %+v", status, v)
	}
	if err := s.queue.Result(t.Context(), node, task.ID,
		succeeded(t, 1, agentwire.DrainOutput{Draining: true})); err != nil {
		t.Fatal(err)
	}
	status, _ = s.call(t, "auditor", http.MethodGet, "/node-tasks/"+v.TaskID.String(), nil, &v)
	if status != http.StatusOK || v.Status != "succeeded" || len(v.Steps) != 1 || v.Steps[0].Name != "sessions" ||
		!strings.Contains(string(v.Output), "draining") || v.SignerVersion != "s1" {
		t.Errorf("%d %+v", status, v)
	}
	if _, code = s.call(t, "root", http.MethodPost, "/node-tasks/"+v.TaskID.String()+"/cancel", object{"reason": "again"},
		nil); code != "node_task_state_conflict" {
		t.Errorf("cancel of what has ended: %s", code)
	}
}

func TestWhatTheAPIRefuses(t *testing.T) {
	s := newSite(t)
	tasks := "/nodes/" + s.node(t).String() + "/tasks"
	for name, c := range map[string]struct {
		token, path string
		body        object
		code        string
	}{
		"a reader": {
			"auditor", tasks,
			object{"type": "node.drain", "reason": "because"},
			"insufficient_permissions",
		},
		"no reason": {"root", tasks, object{"type": "node.drain"}, "validation_error"},
		"unknown type": {
			"root", tasks,
			object{"type": "node.explode", "reason": "because"},
			"node_task_type_unknown",
		},
		"bad parameters": {
			"root", tasks,
			object{"type": "node.drain", "params": object{"x": 1}, "reason": "because"},
			"node_task_params_invalid",
		},
		"parameters that list": {
			"root", tasks,
			object{"type": "node.drain", "params": []int{1}, "reason": "because"},
			"node_task_params_invalid",
		},
		"whom to believe": {
			"root", tasks,
			object{"type": "node.update_verifiers", "reason": "because"},
			"node_task_type_reserved",
		},
		"whom to talk to": {
			"root", tasks,
			object{"type": "terminal.open", "reason": "because"},
			"node_task_type_reserved",
		},
		"no such package": {"root", tasks, object{
			"type": "node.self_update", "params": object{"version": "9.9.9"},
			"reason": "because",
		}, "agent_version_unknown"},
		"unknown node": {
			"root", "/nodes/" + id.NewString() + "/tasks",
			object{"type": "node.drain", "reason": "because"},
			"node_not_found",
		},
		"unknown task": {
			"root", "/node-tasks/" + id.NewString() + "/cancel",
			object{"reason": "because"},
			"node_task_not_found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if status, code := s.call(t, c.token, http.MethodPost, c.path, c.body, nil); code != c.code {
				t.Errorf("%d %s, want %s", status, code, c.code)
			}
		})
	}
	if n := s.count(t, `SELECT count(*) FROM node_tasks`); n != 0 {
		t.Errorf("%d tasks were recorded", n)
	}
}

func TestPreparersCompleteParameters(t *testing.T) {
	s := newSite(t)
	var v agenttask.View
	status, code := s.call(t, "root", http.MethodPost, "/nodes/"+s.node(t).String()+"/tasks",
		object{"type": "node.self_update", "params": object{"action": "update", "version": "1.0.0"}, "reason": "because"}, &v)
	if status != http.StatusAccepted || !strings.Contains(string(v.Params), "sha256:aaaa") {
		t.Errorf("%d %s %s", status, code, v.Params)
	}
}

func TestTasksComeInPages(t *testing.T) {
	s := newSite(t)
	a, b := s.node(t), s.node(t)
	for range 3 {
		s.ask(t, a, agentwire.TypeHeartbeatCheck)
		s.ask(t, b, agentwire.TypeDrain)
	}
	s.poll(t, a)
	for query, want := range map[string]int{
		"/nodes/" + a.String() + "/tasks?page_size=2":                   3,
		"/node-tasks?page_size=2":                                       6,
		"/node-tasks?page_size=4&status=queued":                         5,
		"/node-tasks?page_size=2&type=node.drain":                       3,
		"/nodes/" + b.String() + "/tasks?page_size=2&status=dispatched": 0,
	} {
		seen := map[id.NodeTask]bool{}
		for cursor := ""; ; {
			var page struct {
				Items      []agenttask.View
				NextCursor string `json:"next_cursor"`
			}
			if status, code := s.call(t, "auditor", http.MethodGet, query+"&cursor="+cursor, nil,
				&page); status != http.StatusOK {
				t.Fatal(status, code)
			}
			for _, v := range page.Items {
				seen[v.TaskID] = true
				if v.Params != nil {
					t.Errorf("a list holds parameters: %s", v.Params)
				}
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if len(seen) != want {
			t.Errorf("%s lists %d tasks, want %d", query, len(seen), want)
		}
	}
}

func TestTheCatalogIsShown(t *testing.T) {
	s := newSite(t)
	var out struct{ Items []agenttask.TypeView }
	s.call(t, "auditor", http.MethodGet, "/node-task-types", nil, &out)
	if len(out.Items) != len(agentwire.Catalog()) {
		t.Fatalf("%+v", out)
	}
	for _, v := range out.Items {
		if v.OnRequest == (v.Type == "terminal.open" || v.Type == "node.update_verifiers") || v.WindowSeconds == 0 ||
			v.Title == "" {
			t.Errorf("%+v", v)
		}
	}
}

func TestTheCatalogSaysWhatIsDestroyed(t *testing.T) {
	s := newSite(t)
	var out struct{ Items []agenttask.TypeView }
	s.call(t, "auditor", http.MethodGet, "/node-task-types", nil, &out)
	destructive := []string{
		agentwire.TypeDrain, agentwire.TypeUninstall, agentwire.TypeStorageCleanup, agentwire.TypeGPUScrub,
		agentwire.TypeSelfUpdate,
		agentwire.TypeDeprovisionUser, agentwire.TypeRevokeUser, agentwire.TypeLoginLock,
	}
	for _, v := range out.Items {
		if want := slices.Contains(destructive, v.Type); want != (v.Destroys != "") || want &&
			!strings.HasSuffix(v.Destroys, ".") {
			t.Errorf("%s destroys %q", v.Type, v.Destroys)
		}
	}
}
