package agenttask_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

type object = map[string]any

// desk is the API with nothing but tasks in it.
type desk struct {
	*world
	api *httpapi.API
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{world: newWorld(t)}
	d.commands.Preparers = map[string]agenttask.Prepare{
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
	d.api = httpapitest.New(d.db)
	d.commands.RegisterAPI(d.api)
	return d
}

// callAs sends a request; into takes the answer of a success.
func (d *desk) callAs(t *testing.T, token, method, path string, body, into any) (status int, code string) {
	t.Helper()
	a := httpapitest.Call(t, d.api.Handler(), httpapitest.Request{
		As: token, Method: method, Path: "/api/v1/admin" + path, Body: body,
	})
	if a.Status < http.StatusBadRequest && into != nil {
		a.Decode(t, into)
	}
	return a.Status, a.Problem(t).Code
}

// Whoever runs machines gives tasks, but none that would choose the program that a
// node runs as root. Nobody makes or removes accounts by a task, not even an
// administrator: allocations do.
func TestAttackAnOperatorGetsOntoANodeByTasks(t *testing.T) {
	d := newDesk(t)
	tasks := "/nodes/" + d.node(t).String() + "/tasks"
	reseed := object{"maas_url": "http://192.0.2.1/MAAS", "system_id": "abc123"}
	for _, c := range []struct {
		as, typ string
		params  any
		status  int
		code    string
	}{
		{httpapitest.Operator, agentwire.TypeHWSyncReseed, reseed, http.StatusForbidden, "insufficient_permissions"},
		{
			httpapitest.Operator, agentwire.TypeProvisionUser, params[agentwire.TypeProvisionUser],
			http.StatusUnprocessableEntity, "node_task_type_reserved",
		},
		{
			httpapitest.Root, agentwire.TypeProvisionUser, params[agentwire.TypeProvisionUser],
			http.StatusUnprocessableEntity, "node_task_type_reserved",
		},
		{
			httpapitest.Root, agentwire.TypeDeprovisionUser, params[agentwire.TypeDeprovisionUser],
			http.StatusUnprocessableEntity, "node_task_type_reserved",
		},
		{
			httpapitest.Root, agentwire.TypeRevokeUser, params[agentwire.TypeDeprovisionUser],
			http.StatusUnprocessableEntity, "node_task_type_reserved",
		},
	} {
		body := object{"type": c.typ, "params": c.params, "reason": "because"}
		status, code := d.callAs(t, c.as, http.MethodPost, tasks, body, nil)
		if status != c.status || code != c.code {
			t.Errorf("%s by %s: %d %s", c.typ, c.as, status, code)
		}
	}
	if n := d.count(t, `SELECT count(*) FROM node_tasks`); n != 0 {
		t.Errorf("%d tasks were recorded", n)
	}
	body := object{"type": agentwire.TypeDrain, "reason": "maintenance"}
	status, code := d.callAs(t, httpapitest.Operator, http.MethodPost, tasks, body, nil)
	if status != http.StatusAccepted {
		t.Errorf("a drain by an operator: %d %s", status, code)
	}
}

func TestATaskOverTheAPI(t *testing.T) {
	d := newDesk(t)
	node := d.node(t)
	tasks := "/nodes/" + node.String() + "/tasks"
	var v agenttask.View
	status, code := d.callAs(t, "root", http.MethodPost, tasks,
		object{"type": "node.drain", "params": object{"reason": "r", "revoke_users": true}, "reason": "maintenance"}, &v)
	if status != http.StatusAccepted || v.Status != "queued" || string(v.Params) != `{"reason":"r","revoke_users":true}` ||
		v.RequestedBy != httpapitest.IDOf(httpapitest.Root) || v.Reason != "maintenance" {
		t.Fatalf("%d %s %+v", status, code, v)
	}
	task := d.now(t, agenttask.Task{ID: v.TaskID})
	d.fetch(t, task)
	step := agentwire.Step{Seq: 1, Name: "sessions", Status: "succeeded", At: d.clock.now()}
	if _, err := d.queue.Progress(t.Context(), node, task.ID,
		agentwire.ProgressRequest{Attempt: 1, Steps: []agentwire.Step{step}}); err != nil {
		t.Fatal(err)
	}
	if status, _ = d.callAs(t, "root", http.MethodPost, "/node-tasks/"+v.TaskID.String()+"/cancel",
		object{"reason": "enough"}, &v); status != http.StatusAccepted || !v.CancelRequested {
		t.Errorf("%d %+v", status, v)
	}
	if err := d.queue.Result(t.Context(), node, task.ID,
		succeeded(t, 1, agentwire.DrainOutput{Draining: true})); err != nil {
		t.Fatal(err)
	}
	status, _ = d.callAs(t, "auditor", http.MethodGet, "/node-tasks/"+v.TaskID.String(), nil, &v)
	if status != http.StatusOK || v.Status != "succeeded" || len(v.Steps) != 1 || v.Steps[0].Name != "sessions" ||
		!strings.Contains(string(v.Output), "draining") || v.SignerVersion != "s1" {
		t.Errorf("%d %+v", status, v)
	}
	if _, code = d.callAs(t, "root", http.MethodPost, "/node-tasks/"+v.TaskID.String()+"/cancel",
		object{"reason": "again"},
		nil); code != "node_task_state_conflict" {
		t.Errorf("cancel of what has ended: %s", code)
	}
}

func TestWhatTheAPIRefuses(t *testing.T) {
	d := newDesk(t)
	tasks := "/nodes/" + d.node(t).String() + "/tasks"
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
			if status, code := d.callAs(t, c.token, http.MethodPost, c.path, c.body, nil); code != c.code {
				t.Errorf("%d %s, want %s", status, code, c.code)
			}
		})
	}
	if n := d.count(t, `SELECT count(*) FROM node_tasks`); n != 0 {
		t.Errorf("%d tasks were recorded", n)
	}
}

func TestPreparersCompleteParameters(t *testing.T) {
	d := newDesk(t)
	var v agenttask.View
	status, code := d.callAs(t, "root", http.MethodPost, "/nodes/"+d.node(t).String()+"/tasks",
		object{"type": "node.self_update", "params": object{"action": "update", "version": "1.0.0"}, "reason": "because"}, &v)
	if status != http.StatusAccepted || !strings.Contains(string(v.Params), "sha256:aaaa") {
		t.Errorf("%d %s %s", status, code, v.Params)
	}
}

func TestTasksComeInPages(t *testing.T) {
	d := newDesk(t)
	a, b := d.node(t), d.node(t)
	for range 3 {
		d.ask(t, a, agentwire.TypeHeartbeatCheck)
		d.ask(t, b, agentwire.TypeDrain)
	}
	d.poll(t, a)
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
			if status, code := d.callAs(t, "auditor", http.MethodGet, query+"&cursor="+cursor, nil,
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
	d := newDesk(t)
	var out struct{ Items []agenttask.TypeView }
	d.callAs(t, "auditor", http.MethodGet, "/node-task-types", nil, &out)
	if len(out.Items) != len(agentwire.Catalog()) {
		t.Fatalf("%+v", out)
	}
	for i, spec := range agentwire.Catalog() {
		v := out.Items[i]
		if v.Type != spec.Type || v.OnRequest == (spec.Reserved != "") || v.WindowSeconds == 0 || v.Title == "" ||
			v.Destroys != spec.Destroys {
			t.Errorf("%+v", v)
		}
		if needs := auth.Permission(spec.Needs); needs != "" && !slices.Contains(auth.Permissions(), needs) {
			t.Errorf("%s needs %q, which is no permission", spec.Type, needs)
		}
	}
}
