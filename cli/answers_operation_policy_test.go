package cli

import (
	"io"
	"maps"
	"net/http"
	"strings"
)

const (
	policyDocumentLine = `"document":"v2","title":"No disruption on Fridays","digest":"sha256:aa","active":true,` +
		`"activated_at":"2026-03-04T05:06:07Z","activated_by":"` + userID + `","reason":"weekends are for people",` +
		`"created_at":"2026-03-04T05:06:07Z","created_by":"` + userID + `"`
	policyDocumentJSON = `{` + policyDocumentLine + `,"rego":"package gpuaas.operations\n","examples":[{"name":"a restart on a Friday",` +
		`"request":{"type":"node.service.control","impact":"disrupt"},"denied":true,"because":"Friday"}]}`
	trialsJSON = `{"passed":true,"trials":[{"name":"a restart on a Friday","passed":true,"denied":true,` +
		`"reasons":["nothing that disrupts on a Friday"]},{"name":"a restart on a Monday","passed":true,"denied":false,"reasons":[]}]}`
	failedTrialsJSON = `{"passed":false,"trials":[{"name":"a restart on a Friday","passed":false,"denied":false,"reasons":[],` +
		`"message":"it must be denied, and is not"}]}`
)

var policyDocumentErrands = []errand{
	{"operation-policy-document-apply", "operation policy document apply -f testdata/operation/policy.yaml"},
	{"operation-policy-document-apply-activate", "operation policy document apply -f testdata/operation/policy.yaml --activate"},
	{"operation-policy-document-apply-broken", "operation policy document apply -f testdata/operation/policy-broken.yaml"},
	{"operation-policy-document-try", "operation policy document try -f testdata/operation/policy.yaml"},
	{"operation-policy-document-try-kept", "operation policy document try v2"},
	{"operation-policy-document-try-nothing", "operation policy document try"},
	{"operation-policy-document-list", "operation policy document list"},
	{"operation-policy-document-show", "operation policy document show v2"},
	{"operation-policy-document-show-yaml", "operation policy document show v2 -o yaml"},
	{"operation-policy-document-activate", "operation policy document activate v2 --reason safer"},
	{"operation-policy-document-deactivate", "operation policy document deactivate --reason emergency"},
}

// policyDocumentAnswers are what the fake API says about policy documents. It takes only
// a document whose times are texts.
func policyDocumentAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	taken := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(body), `"at":"2026-11-20T09:00:00Z"`) {
				http.Error(w, "the file did not arrive", http.StatusUnprocessableEntity)
				return
			}
			next(w, r)
		}
	}
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	maps.Copy(into, map[string]http.HandlerFunc{
		"add-operation-policy-document":        taken(answer(201, policyDocumentJSON)),
		"try-operation-policy-document":        taken(answer(200, trialsJSON)),
		"try-kept-operation-policy-document":   answer(200, failedTrialsJSON),
		"list-operation-policy-documents":      pageOf(`{` + policyDocumentLine + `}`),
		"get-operation-policy-document":        answer(200, policyDocumentJSON),
		"activate-operation-policy-document":   answer(200, policyDocumentJSON),
		"deactivate-operation-policy-document": nothing,
	})
	return into
}
