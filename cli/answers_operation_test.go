package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
)

const (
	operationID = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1d0a1"
	runTargetID = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1d0a2"

	operationPart = `"operation_id":"` + operationID + `","resource_name":"platform/operations/` + operationID + `",` +
		`"operation_type":"web.prepare","version":"v2","digest":"sha256:ab","only_plan":false,"cancel_requested":false,` +
		`"total_steps":3,"max_concurrency":10,"max_failures":0,"ramp":true,"timeout_seconds":600,"plan_hash":"sha256:cd",` +
		`"resumes":0,"trigger_source":"admin","requested_by":"` + userID + `","requested_by_name":"Olga","correlation_id":"corr-1",` +
		`"created_at":"2026-03-04T05:06:07Z","policy":[],"inputs":{},` +
		`"policy_decisions":[{"document":"v2","digest":"sha256:aa","input_digest":"sha256:bb","decided_at":"2026-03-04T05:06:07Z","denied":[]}]`
	runningJSON = `{` + operationPart + `,"status":"running","paused":true,"waiting_for":"somebody to let it go on",` +
		`"targets":{"total":3,"waiting":1,"running":0,"succeeded":1,"failed":1,"canceled":0,"skipped":0}}`
	doneRunJSON = `{` + operationPart + `,"status":"succeeded","paused":false,` +
		`"targets":{"total":3,"waiting":0,"running":0,"succeeded":2,"failed":0,"canceled":0,"skipped":1}}`
	runTargetJSON = `{"target_id":"` + runTargetID + `","node_id":"` + nodeID + `","hostname":"c07u31","position":1,` +
		`"status":"failed","attempt":1,"step_index":1,"changed":true,"error":{"code":"disk_full","class":"permanent",` +
		`"message":"step two: no space is left","remedy":"make some"}}`
	runStepJSON = `{"target_id":"` + runTargetID + `","node_id":"` + nodeID + `","hostname":"c07u31","attempt_number":1,` +
		`"step_index":0,"step_id":"one","step_kind":"file.render","status":"succeeded","changed":true,"summary":"wrote /etc/x",` +
		`"tries":1,"log_lines":2,"log_bytes_dropped":0,"duration_ms":12}`
	runLineJSON = `{"target_id":"` + runTargetID + `","node_id":"` + nodeID + `","hostname":"c07u31","step_id":"one",` +
		`"stream":"stdout","at":"2026-03-04T05:06:08Z","seq":1,"text":"wrote /etc/x"}`
	runArtifactJSON = `{"target_id":"` + runTargetID + `","node_id":"` + nodeID + `","hostname":"c07u31","attempt_number":1,` +
		`"step_index":0,"step_id":"one","kind":"file","role":"produced","name":"/etc/x",` +
		`"digest":"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","bytes":12}`
	runPackageJSON = `{"target_id":"` + runTargetID + `","node_id":"` + nodeID + `","hostname":"c07u31","attempt_number":1,` +
		`"step_index":1,"step_id":"two","kind":"package","role":"used","name":"nginx-light","before":"1.2","after":"1.2"}`
	noPlanJSON = `{"operation_type":"web.prepare","version":"v2","digest":"sha256:ab","title":"Prepare","risk":"low",` +
		`"risk_text":"files are replaced","impact":"mutate","says":["web.prepare@v2: 1 step on 0 of 1 node"],"steps":[{"step_id":"one",` +
		`"step_kind":"file.render","impact":"mutate","timeout_seconds":30}],"targets":[{"node_id":"` + nodeID + `","hostname":"c07u32",` +
		`"fits":false,"troubles":[{"code":"node_rented","class":"policy","message":"a tenant has the node"}]}],"fitting":0,` +
		`"max_concurrency":10,"max_failures":0,"ramp":true,"timeout_seconds":600,"approval":"none","policy":[],"plan_hash":""}`
	runPlanJSON = `{"operation_type":"web.prepare","version":"v2","digest":"sha256:ab","title":"Prepare","risk":"low",` +
		`"risk_text":"files are replaced","impact":"mutate","says":["web.prepare@v2: 1 steps on 1 of 2 nodes"],"steps":[{"step_id":"one",` +
		`"step_kind":"file.render","impact":"mutate","timeout_seconds":30}],"targets":[{"node_id":"` + nodeID + `","hostname":"c07u31",` +
		`"fits":true,"troubles":[]},{"node_id":"` + nodeID + `","hostname":"c07u32","fits":false,"troubles":[{"code":"node_rented",` +
		`"class":"policy","message":"a tenant has the node"}]}],"fitting":1,"max_concurrency":10,"max_failures":0,"ramp":true,` +
		`"timeout_seconds":600,"approval":"none","policy":[],"plan_hash":"sha256:cd"}`
)

var workErrands = slices.Concat(
	agentErrands, operationDefinitionErrands, policyDocumentErrands, runErrands, moneyErrands, artifactErrands,
)

var runErrands = []errand{
	{"operation-run", "operation run web.prepare@v2 --target c07u31 --input port=8080 --max-failures 1"},
	{"operation-run-watch", "operation run web.prepare --target node:c07u31 --watch"},
	{"operation-run-project", "operation run web.prepare --project acme/training --target train --input name=web --watch"},
	{"operation-run-dry", "operation run web.prepare --target c07u31 --input name=80 --dry-run"},
	{"operation-run-dry-project", "operation run web.prepare --project acme/training --sku h200 --dry-run"},
	{"operation-run-nowhere", "operation run web.prepare"},
	{"operation-run-only-plan", "operation run web.prepare@v1 --target c07u31 --input name=1.2 --input port=80 --only-plan --wait"},
	{"operation-list", "operation list --status failed"},
	{"operation-list-project", "operation list --project acme/training"},
	{"operation-show", "operation show " + operationID},
	{"operation-show-project", "operation show " + operationID + " --project acme/training"},
	{"operation-targets", "operation targets " + operationID},
	{"operation-targets-project", "operation targets " + operationID + " --project acme/training"},
	{"operation-steps", "operation steps " + operationID + " --status failed --target c07u31"},
	{"operation-steps-project", "operation steps " + operationID + " --project acme/training --target c07u31"},
	{"operation-artifacts", "operation artifacts " + operationID + " --kind file --target c07u31"},
	{"operation-artifacts-project", "operation artifacts " + operationID + " --project acme/training --target c07u31"},
	{"operation-logs-of-node", "operation logs " + operationID + " --target c07u31"},
	{"operation-logs-of-nowhere", "operation logs " + operationID + " --target c99 --project acme/training"},
	{"operation-logs", "operation logs " + operationID + " --search wrote"},
	{"operation-logs-project", "operation logs " + operationID + " --project acme/training"},
	{"operation-logs-follow", "operation logs " + operationID + " -f"},
	{"operation-retry", "operation retry " + operationID + " --only " + runTargetID + " --reason mended"},
	{"operation-retry-project", "operation retry " + operationID + " --project acme/training"},
	{"operation-retry-watch", "operation retry " + operationID + " --only c07u31 --watch"},
	{"operation-retry-wait-project", "operation retry " + operationID + " --project acme/training --only c07u31 --wait"},
	{"operation-run-dry-nothing", "operation run web.prepare --target c07u31 --pool nothing --dry-run"},
	{"operation-again", "operation again " + operationID},
	{"operation-again-project", "operation again " + operationID + " --project acme/training"},
	{"operation-cancel", "operation cancel " + operationID + " --reason wrong"},
	{"operation-cancel-project", "operation cancel " + operationID + " --project acme/training"},
	{"operation-pause", "operation pause " + operationID},
	{"operation-pause-project", "operation pause " + operationID + " --project acme/training"},
	{"operation-unpause", "operation unpause " + operationID},
	{"operation-unpause-project", "operation unpause " + operationID + " --project acme/training"},
	{"operation-approve", "operation approve " + operationID},
	{"operation-approve-project", "operation approve " + operationID + " --project acme/training"},
}

// wantsText refuses an input name that is not a text, as the schema of the operation says.
func wantsText(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Inputs struct {
				Name any `json:"name"`
			} `json:"inputs"`
		}
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &body)
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if _, text := body.Inputs.Name.(string); err != nil || body.Inputs.Name != nil && !text {
			http.Error(w, "name is not a text", http.StatusUnprocessableEntity)
			return
		}
		next(w, r)
	}
}

// plans answers that nothing would be done on nodes of one pool.
func plans(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if bytes.Contains(raw, []byte(`"pool":"nothing"`)) {
		answer(200, noPlanJSON)(w, r)
		return
	}
	answer(200, runPlanJSON)(w, r)
}

// operationAnswers are what the fake API says about runs of operations.
func operationAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	policyDocumentAnswers(into)
	logs := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") != "true" {
			pageOf(runLineJSON)(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w,
			"id: 1-1\nevent: line\ndata: "+runLineJSON+"\n\nevent: end\ndata: {\"status\":\"succeeded\"}\n\n")
	}
	for _, side := range []string{"operation", "fleet-operation"} {
		maps.Copy(into, map[string]http.HandlerFunc{
			"submit-" + side: wantsText(answer(202, runningJSON)), "plan-" + side: wantsText(plans),
			"get-" + side: answer(200, doneRunJSON), "list-" + side + "s": pageOf(runningJSON, doneRunJSON),
			"list-" + side + "-targets": pageOf(runTargetJSON), "list-" + side + "-steps": pageOf(runStepJSON),
			"list-" + side + "-artifacts": pageOf(runArtifactJSON, runPackageJSON),
			"get-" + side + "-logs":       logs,
			"retry-" + side:               answer(202, runningJSON), "again-" + side: answer(202, runningJSON),
			"cancel-" + side: answer(202, runningJSON), "pause-" + side: answer(202, runningJSON),
			"unpause-" + side: answer(202, runningJSON), "approve-" + side: answer(202, runningJSON),
		})
	}
	return into
}
