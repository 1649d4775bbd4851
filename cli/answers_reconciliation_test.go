package cli

import (
	"maps"
	"net/http"
)

const (
	otherNodeID = "0190b2f4-7c1e-7d3a-8f5b-0000000000c2"

	findingID = "0190b2f4-7c1e-7d3a-8f5b-0000000000f1"
	runID     = "0190b2f4-7c1e-7d3a-8f5b-0000000000f2"

	adviceJSON   = `{"command":"gpuaas drift resolve c07u31 reimage","what":"reinstall it under the same id; DESTROYS what is on it"},{"what":"Look at the machine on site"}`
	releasedJSON = `{"finding_id":"` + findingID + `","site_id":"` + siteID + `","site_name":"dc1","node_id":"` + nodeID +
		`","hostname":"c07u31","maas_system_id":"4y3h7n",` +
		`"type":"released","title":"Released outside gpuaas","means":"The system that the node ran on is gone.","severity":"critical","status":"acted",` +
		`"expected":"Deployed","observed":"Ready","message":"the machine of c07u31 is Ready in MAAS","looks":2,"occurrence":3,"action":"quarantine","action_note":"out of scheduling",` +
		`"advice":[` + adviceJSON +
		`],"opened_at":"2026-03-04T04:06:07Z","last_seen_at":"2026-03-04T05:06:07Z","confirmed_at":"2026-03-04T04:06:27Z","acted_at":"2026-03-04T04:06:27Z"}`
	renamedJSON = `{"finding_id":"0190b2f4-7c1e-7d3a-8f5b-0000000000f3","site_id":"` + siteID +
		`","site_name":"dc1","node_id":"` + nodeID + `","hostname":"c07u31","maas_system_id":"4y3h7n",` +
		`"type":"hostname_drift","title":"Renamed in MAAS","means":"Names mislead.","severity":"info","status":"confirmed","expected":"c07u31","observed":"c07u99",` +
		`"message":"MAAS calls it c07u99","looks":1,"occurrence":1,"advice":[],"opened_at":"2026-03-04T05:06:07Z","last_seen_at":"2026-03-04T05:06:07Z",` +
		`"acknowledged_at":"2026-03-04T05:07:07Z","acknowledged_by":"user:ada","acknowledgement":"on purpose"}`
	offJSON = `{"finding_id":"0190b2f4-7c1e-7d3a-8f5b-0000000000f4","site_id":"` + siteID +
		`","site_name":"dc1","node_id":"` + nodeID + `","hostname":"c07u31","maas_system_id":"4y3h7n",` +
		`"type":"powered_off","title":"Powered off","means":"Nothing runs.","severity":"warning","status":"closed","expected":"on","observed":"off","message":"it was powered off",` +
		`"looks":2,"occurrence":1,"action":"mark_offline","withheld":"dry run","advice":[],"opened_at":"2026-03-03T05:06:07Z","last_seen_at":"2026-03-03T05:06:07Z",` +
		`"closed_at":"2026-03-03T06:06:07Z","closed_because":"a look showed that it is over"}`
	driftedPart = `"node_id":"` + nodeID + `","hostname":"c07u31","site_id":"` + siteID +
		`","site_name":"dc1","node_status":"quarantined","schedulable":false,"hold_reason":"released in MAAS",` +
		`"maas_system_id":"4y3h7n","maas_status":"Ready","maas_power_state":"off","last_reconciled_at":"2026-03-04T05:06:07Z","drifted":true,"severity":"critical",` +
		`"findings":[` + releasedJSON + `,` + renamedJSON + `],"advice":[` + adviceJSON + `]`
	runPart = `"run_id":"` + runID + `","site_id":"` + siteID +
		`","site_name":"dc1","trigger":"operator","full":false,"dry_run":false,"requested_by":"user:ada","correlation_id":"0190-corr","requested_at":"2026-03-04T05:06:07Z"`
	noReport = `"report":{"requests":0,"machine_records":0,"events":0,"machines_looked_at":0,"machines_swept":0,"unmanaged_machines":0,"findings_opened":0,"findings_confirmed":0,` +
		`"findings_closed":0,"actions_taken":0,"rows_written":0,"control_plane_ms":0,"intended_actions":[],"left_to_jobs":[],"jobs_reconciled":[]}`
	runWaits = `{` + runPart + `,` + noReport + `}`
	runEnded = `{` + runPart +
		`,"began_at":"2026-03-04T05:06:08Z","ended_at":"2026-03-04T05:06:30Z","outcome":"informed","report":{"requests":4,"machine_records":31,"events":12,` +
		`"machines_looked_at":31,"machines_swept":25,"unmanaged_machines":2,"findings_opened":2,"findings_confirmed":1,"findings_closed":1,"actions_taken":1,"rows_written":9,"control_plane_ms":41,` +
		`"intended_actions":[{"node_id":"` + nodeID +
		`","hostname":"c07u31","finding":"released","action":"quarantine","done":true},` +
		`{"node_id":"` + nodeID +
		`","hostname":"c07u32","finding":"powered_off","action":"mark_offline","done":false,"withheld":"its agent was heard of a moment ago"}],` +
		`"left_to_jobs":[{"job":"onboarding ` + onboardingID + `","node_id":"` + nodeID +
		`","hostname":"c07u43","seen":"Deploying"}],"jobs_reconciled":[]}}`
	siteStatePart = `"site_id":"` + siteID +
		`","name":"dc1","stale":false,"last_cycle_at":"2026-03-04T05:06:07Z","last_informed_at":"2026-03-04T05:06:07Z","sweep_ended_at":"2026-03-04T04:09:07Z",` +
		`"nodes":40,"ok":35,"drifted":4,"unreconciled":1,"findings":{"critical":4,"warning":1,"info":2,"debug":0}`
	breakerOpen = `{` + siteStatePart +
		`,"state":"breaker_open","breaker":{"since":"2026-03-04T05:06:07Z","nodes":[{"node_id":"` + nodeID +
		`","hostname":"c07u31"},{"node_id":"` + otherNodeID +
		`","hostname":"c07u32"}]},"remedy":"gpuaas reconcile status --site dc1"}`
	unheardJSON = `{"site_id":"` + profileID +
		`","name":"dc2","state":"stale","stale":true,"last_cycle_at":"2026-03-04T05:06:07Z","last_error":{"code":"maas_unavailable","message":"MAAS does not answer"},` +
		`"nodes":0,"ok":0,"drifted":0,"unreconciled":0,"findings":{"critical":0,"warning":0,"info":0,"debug":0},"remedy":"gpuaas site doctor dc2"}`
	agreementJSON = `{"totals":{"nodes":40,"ok":35,"drifted":4,"unreconciled":1,"stale_sites":1},"sites":[` + breakerOpen +
		`,` + unheardJSON + `]}`
)

// reconciliationAnswers are the answers about what disagrees.
func reconciliationAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	maps.Copy(into, map[string]http.HandlerFunc{
		"get-reconciliation-status":     answer(200, agreementJSON),
		"decide-reconciliation-breaker": answer(200, `{`+siteStatePart+`,"state":"ok","remedy":"gpuaas drift --site dc1"}`),
		"list-drift":                    pageOf(`{` + driftedPart + `}`),
		"get-node-drift":                answer(200, `{`+driftedPart+`,"history":[`+offJSON+`]}`),
		"list-findings":                 pageOf(releasedJSON, renamedJSON, offJSON),
		"acknowledge-finding":           answer(200, renamedJSON),
		"run-reconciliation":            answer(202, runWaits),
		"list-reconciliation-runs":      pageOf(runEnded, runWaits),
		"get-reconciliation-run":        answer(200, runEnded),
		"resolve-node-drift":            answer(202, runWaits),
	})
	return into
}
