package cli

import (
	"io"
	"maps"
	"net/http"
	"strings"
)

const (
	documentJSON = `{"type":"web.prepare","version":"v1","title":"Prepare a web server","risk":"medium",` +
		`"steps":[{"id":"conf","kind":"file.render"}]}`
	definitionLine = `"definition_id":"web.prepare@v1","operation_type":"web.prepare","version":"v1",` +
		`"title":"Prepare a web server","status":"active","backend":"node_agent","risk":"medium","impact":"mutate",` +
		`"origin":"registered","digest":"sha256:00","steps":2,"revision":3,"created_at":"2026-03-04T05:06:07Z",` +
		`"created_by":"` + userID + `","updated_at":"2026-03-04T05:06:07Z","updated_by":"` + userID + `",` +
		`"activated_at":"2026-03-04T05:06:07Z"`
	definitionJSON = `{` + definitionLine + `,"document":` + documentJSON + `}`
	catalogJSON    = `{"definition_id":"web.prepare@v1","operation_type":"web.prepare","version":"v1",` +
		`"title":"Prepare a web server","description":"Installs and starts it.","status":"deprecated",` +
		`"status_reason":"use web.prepare@v2","risk":"medium","risk_text":"The server restarts.","impact":"mutate",` +
		`"inputs":{"type":"object","required":["port"],"properties":{"port":{"type":"integer"},` +
		`"name":{"type":"string","default":"web"}}},"targets":["node","allocation"],"rented":"project","approval":"none",` +
		`"max_duration_seconds":600,"digest":"sha256:00","steps":[{"id":"conf","kind":"file.render","impact":"mutate"},` +
		`{"id":"look","kind":"health.check","impact":"read"}]}`
	changesJSON = `[{"path":"steps.conf.timeout_seconds","from":30,"to":60},{"path":"title","to":"Prepare"}]`
	policyJSON  = `{"operation_type":"web.prepare","scope":"tenant","enabled":true,"max_concurrency":5,"version":2,` +
		`"reason":"few at a time","updated_at":"2026-03-04T05:06:07Z","updated_by":"` + userID + `","effective":{` +
		`"enabled":false,"hard_denied":true,"max_concurrency":5,"require_signature_verification":false,"why":[` +
		`{"key":"enabled","value":"no","scope":"global","operation_type":"*","rule":"the platform denies it for good","reason":"not here",` +
		`"said":[{"scope":"global","operation_type":"*","value":"denied for good"},` +
		`{"scope":"tenant","operation_type":"web.prepare","value":"yes"}]},` +
		`{"key":"max_concurrency","value":"5","scope":"tenant","operation_type":"web.prepare",` +
		`"rule":"the smallest limit counts","said":[{"scope":"tenant","operation_type":"web.prepare","value":"5"}]},` +
		`{"key":"timeout_seconds","value":"no limit","scope":"built_in","rule":"nobody has settled it","said":[]}],` +
		`"document":{"document":"v2","title":"No disruption on Fridays","digest":"sha256:aa","since":"2026-03-04T05:06:07Z"}}}`
	policyLineJSON = `{"operation_type":"*","scope":"global","hard_deny":true,"enabled":false,"max_concurrency":5,` +
		`"timeout_seconds":60,"allowed_artifact_sources":[],"allowed_target_kinds":["node","group"],` +
		`"require_signature_verification":true,"max_artifact_size_bytes":1024,"reason":"not here","version":2,` +
		`"updated_at":"2026-03-04T05:06:07Z","updated_by":"` + userID + `"}`
)

var operationDefinitionErrands = []errand{
	{"operation-definition-list", "operation definition list --type web.prepare"},
	{"operation-definition-list-all", "operation definition list --all"},
	{"operation-definition-show", "operation definition show web.prepare@v1"},
	{"operation-definition-export", "operation definition export web.prepare@v1"},
	{"operation-definition-export-json", "operation definition export web.prepare@v1 -o json"},
	{"operation-definition-validate", "operation definition validate -f testdata/operation/v1.yaml"},
	{"operation-definition-validate-broken", "operation definition validate -f testdata/operation/broken.yaml"},
	{"operation-definition-apply", "operation definition apply -f testdata/operation/v1.yaml --activate"},
	{"operation-definition-apply-draft", "operation definition apply -f testdata/operation/v2.yaml"},
	{"operation-definition-apply-draft-activate", "operation definition apply -f testdata/operation/v2.yaml --activate"},
	{"operation-definition-apply-frozen", "operation definition apply -f testdata/operation/v3.yaml"},
	{"operation-definition-apply-nothing", "operation definition apply"},
	{"operation-definition-diff", "operation definition diff web.prepare@v1 web.prepare@v2"},
	{"operation-definition-diff-file", "operation definition diff web.prepare@v2 -f testdata/operation/v2.yaml"},
	{"operation-definition-diff-json", "operation definition diff web.prepare@v1 web.prepare@v2 -o json"},
	{"operation-definition-activate", "operation definition activate web.prepare@v1"},
	{"operation-definition-deprecate", "operation definition deprecate web.prepare@v1 --reason old"},
	{"operation-definition-retire", "operation definition retire web.prepare@v1 --yes"},
	{"operation-definition-retire-unasked", "operation definition retire web.prepare@v1"},
	{"operation-policy-show", "operation policy show --global"},
	{"operation-policy-show-tenant", "operation policy show --tenant acme"},
	{"operation-policy-show-project", "operation policy show --project acme/training"},
	{"operation-policy-show-nobody", "operation policy show"},
	{"operation-policy-explain", "operation policy explain web.prepare --project acme/training"},
	{"operation-policy-explain-tenant", "operation policy explain web.prepare --tenant acme -o json"},
	{"operation-policy-explain-global", "operation policy explain web.prepare --global"},
	{"operation-policy-set", "operation policy set web.prepare --tenant acme --max-concurrency 5 --clear enabled"},
	{"operation-policy-set-project", "operation policy set web.prepare --project acme/training --target-kinds allocation"},
	{"operation-policy-set-global", "operation policy set * --global --hard-deny --reason no"},
	{"operation-policy-set-deny", "operation policy set web.prepare --tenant acme --hard-deny"},
	{"operation-policy-set-unknown", "operation policy set web.prepare --tenant acme --clear colour"},
	{"operation-policy-remove", "operation policy remove web.prepare --tenant acme"},
	{"operation-policy-remove-project", "operation policy remove web.prepare --project acme/training"},
	{"operation-policy-remove-global", "operation policy remove * --global"},
}

// judged answers what a document is worth, by what is in it.
func judged(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	of := func(version, rest string) string {
		return `{"valid":true,"problems":[],"definition_id":"web.prepare@` + version + `","digest":"sha256:00","document":` +
			documentJSON + rest + `}`
	}
	switch text := string(body); {
	case strings.Contains(text, "version: v1"):
		answer(http.StatusOK, of("v1", ""))(w, r)
	case strings.Contains(text, "version: v2"):
		answer(http.StatusOK, of("v2", `,"kept":"draft","revision":7,"changes":`+changesJSON))(w, r)
	case strings.Contains(text, "version: v3"):
		answer(http.StatusOK, of("v3", `,"kept":"active","revision":7,"changes":`+changesJSON))(w, r)
	default:
		answer(http.StatusOK, `{"valid":false,"problems":[{"path":"version","message":"must be v and a number"},`+
			`{"message":"there are no steps"}]}`)(w, r)
	}
}

// operationDefinitionAnswers are what the fake API says about operations.
func operationDefinitionAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	maps.Copy(into, map[string]http.HandlerFunc{
		"list-operation-catalog": pageOf(catalogJSON), "get-operation-catalog-entry": answer(200, catalogJSON),
		"list-operation-definitions": pageOf(`{` + definitionLine + `}`), "get-operation-definition": answer(200, definitionJSON),
		"create-operation-definition": answer(201, definitionJSON), "update-operation-definition": answer(200,
			definitionJSON),
		"activate-operation-definition": answer(200, definitionJSON), "deprecate-operation-definition": answer(200,
			definitionJSON),
		"retire-operation-definition": answer(200, definitionJSON), "validate-operation-definition": judged,
		"diff-operation-definition":      answer(200, `{"from":"web.prepare@v1","to":"web.prepare@v2","changes":`+changesJSON+`}`),
		"list-global-operation-policies": pageOf(policyLineJSON), "list-tenant-operation-policies": pageOf(policyLineJSON),
		"list-project-operation-policies": pageOf(policyLineJSON),
		"get-global-operation-policy":     answer(200, policyJSON), "put-global-operation-policy": answer(200, policyJSON),
		"delete-global-operation-policy": nothing,
		"get-tenant-operation-policy":    answer(200, policyJSON), "put-tenant-operation-policy": answer(200, policyJSON),
		"delete-tenant-operation-policy": nothing,
		"get-project-operation-policy":   answer(200, policyJSON), "put-project-operation-policy": answer(200, policyJSON),
		"delete-project-operation-policy": nothing,
	})
	return into
}
