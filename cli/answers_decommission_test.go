package cli

import (
	"maps"
	"net/http"
	"strings"
)

const (
	decommissionID      = "0190b2f4-7c1e-7d3a-8f5b-000000000030"
	decommissionBatchID = "0190b2f4-7c1e-7d3a-8f5b-000000000031"
	planHash            = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

	decommissionPart = `"decommission_id":"` + decommissionID + `","node_id":"` + nodeID +
		`","hostname":"c07u31","mode":"reimage","erase":"quick","storage_cleanup":"local",` +
		`"reason":"tenant left","plan_hash":"` + planHash + `","node_status_before":"active","site_id":"` + siteID +
		`","profile_id":"` + profileID + `","maas_system_id":"4y3h7n","stage_total":20,"epoch":1,` +
		`"adopted":false,"workflow_id":"decommission-` + decommissionID +
		`","requested_by":"Ada","correlation_id":"0190-corr","requested_at":"2026-03-04T05:00:07Z","started_at":"2026-03-04T05:00:08Z"`
	decommissionRunning = `{` + decommissionPart +
		`,"status":"running","current_stage":"drain_node","stage_number":2,"current_attempt":1,"legal_actions":["cancel"],"overrides":[],"follow_ups":[],` +
		`"observed":{"maas_status":"Deployed","maas_ips":[]},"updated_at":"2026-03-04T05:06:07Z"}`
	decommissionParkedPart = decommissionPart +
		`,"status":"failed_manual_intervention","current_stage":"drain_node","stage_number":2,"current_attempt":2,"legal_actions":["retry_stage","resume","cancel"],` +
		`"recommended_action":"retry_stage","failure":{"failure_class":"node_agent_unreachable","error_code":"agent_unreachable","error_message":"the agent did not fetch the task within 10 min"},` +
		`"overrides":[{"stage":"scrub_gpu","reason":"no GPU answers","residual_risk":"memory of GPUs","actor":"Ada","at":"2026-03-04T05:05:07Z"}],` +
		`"follow_ups":[{"what":"switch the machine off","why":"its BMC does not answer","at":"2026-03-04T05:05:07Z"}],` +
		`"observed":{"maas_status":"Deployed","maas_ips":[],"since":"2026-03-04T05:05:07Z"},"parked_at":"2026-03-04T05:06:07Z","updated_at":"2026-03-04T05:06:07Z"`
	decommissionEventJSON   = `{"seq":41,"epoch":1,"stage":"drain_node","attempt":2,"status":"failed","message":"the agent did not fetch the task within 10 min","occurred_at":"2026-03-04T05:06:07Z"}`
	decommissionExplanation = `{"summary":"c07u31 has been parked at stage 2 of 20 (Drain) for 3 min: the agent did not fetch the task within 10 min","status":"failed_manual_intervention","stage":"drain_node",` +
		`"stage_title":"Drain","expected":"no account of a tenant is left","observed":"MAAS shows it as Deployed","waiting_since":"2026-03-04T05:06:07Z","failure_class":"node_agent_unreachable",` +
		`"error_code":"agent_unreachable","likely_cause":"the machine is off","remedy":"look at the machine",` +
		`"actions":[{"action":"retry_stage","rank":1,"legal":true,"safety":"safe","does":"runs the stage once more","command":"gpuaas decommission retry ` + decommissionID + `"},` +
		`{"action":"adopt_observed_state","legal":false,"safety":"needs_care","does":"takes it as it is","command":"gpuaas decommission adopt ` + decommissionID + `"}],` +
		`"override":{"stage":"drain_node","does":"continues without this stage","command":"gpuaas decommission override ` +
		decommissionID + ` --stage drain_node"}}`
	decommissionBatchJSON = `{"batch_id":"` + decommissionBatchID +
		`","mode":"soft_reset","selector":{"hostname_prefix":"c07"},"state":"halted","total":20,"max_parallel":5,"max_failures":0,"succeeded":12,"failed":1,` +
		`"counts":{"pending":4,"running":3,"compensating":0,"completed":12,"reconciled":0,"cancelled":0,"failed_retryable":0,"failed_manual_intervention":1},"reason":"end of the project",` +
		`"requested_by":"Ada","requested_at":"2026-03-04T05:00:07Z"}`
	leftOutJSON = `{"node_id":"` + nodeID +
		`","hostname":"c07u31","code":"node_state_conflict","message":"node c07u31 is enrolling"}`
	planPart = `"plan_hash":"` + planHash + `","node_id":"` + nodeID +
		`","hostname":"c07u31","node_status":"active","maas_system_id":"4y3h7n","maas_status":"Deployed",` +
		`"effects":["terminal sessions end","DESTROYS the installation"],"ends":"active and schedulable","usually":"20 to 60 min",` +
		`"stages":[{"name":"disable_node","title":"Take it out of scheduling","does":"holds the node","usually":"seconds"},{"name":"drain_node","title":"Drain","does":"x","usually":"seconds to 2 min"}]`
	evidenceJSON = `{"seq":7,"stage":"drain_node","attempt":1,"epoch":1,"kind":"drain","value":{"sessions_closed":2,"users_revoked":["alice"]},"recorded_at":"2026-03-04T05:06:07Z"}`
)

func planJSON(mode, blocks string) string {
	return `{` + planPart + `,"mode":"` + mode + `","erase":"quick","storage_cleanup":"local","blocks":[` + blocks + `]}`
}

func modeJSON(mode string, stages ...string) string {
	return `{"mode":"` + mode + `","from":["active"],"ends":"x","usually":"x","stages":[` + strings.Join(stages, ",") +
		`]}`
}

func modeStageJSON(number, name, expects string) string {
	return strings.Replace(stageJSON(number, name, expects), `"detour":false`, `"detour":false,"overridable":true`, 1)
}

// decommissionEvent is what the live feed tells about the decommission.
func decommissionEvent(position, at, kind, status, stage, message string) string {
	return "id: " + position + "\nevent: event\ndata: {\"event_id\":\"" + eventID +
		"\",\"event_type\":\"node.decommission." + kind + "\",\"occurred_at\":\"2026-03-04T" + at +
		"Z\",\"version\":\"1.0\",\"correlation_id\":\"0190-corr\",\"payload\":{\"decommission_id\":\"" + decommissionID +
		"\",\"batch_id\":\"" + decommissionBatchID +
		"\",\"node_id\":\"" + nodeID + "\",\"hostname\":\"c07u31\",\"mode\":\"reimage\",\"status\":\"" + status +
		"\",\"stage\":\"" + stage +
		"\",\"attempt\":1,\"stage_status\":\"succeeded\",\"message\":\"" + message + "\"}}\n\n"
}

// decommissionAnswers are the answers about decommissions.
func decommissionAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	begun := answer(202, strings.TrimSuffix(decommissionRunning, "}")+`,"created":true}`)
	maps.Copy(into, map[string]http.HandlerFunc{
		"decommission-node": begun, "clean-node-storage": begun, "drain-node": begun, "retire-node": begun,
		"reactivate-node": begun, "remove-node": begun,
		"plan-node-decommission": answer(200, planJSON("reimage", "")),
		"list-decommissions":     pageOf(decommissionRunning), "list-decommission-events": pageOf(decommissionEventJSON),
		"list-decommission-evidence": pageOf(evidenceJSON),
		"get-decommission": answer(200, `{`+decommissionParkedPart+`,"facts":{},"events":[`+decommissionEventJSON+
			`],"explanation":`+decommissionExplanation+`}`),
		"get-decommission-explanation": answer(200, decommissionExplanation),
		"list-decommission-stages": pageOf(
			modeJSON("soft_reset", modeStageJSON("1", "disable_node", "nothing new is scheduled")),
			modeJSON("reimage", modeStageJSON("1", "disable_node", "nothing new is scheduled"),
				modeStageJSON("2", "drain_node", "no account is left"),
				modeStageJSON("20", "enable_node", "the node is schedulable"))),
		"stream-decommissions": feedOf(
			decommissionEvent("42", "05:07:07", "stage", "running", "drain_node", "2 sessions ended"),
			decommissionEvent("43", "05:08:07", "completed", "completed", "enable_node", "active and schedulable")),
		"create-decommission-batch": answer(202, `{"batch":`+decommissionBatchJSON+`,"left_out":[`+leftOutJSON+`]}`),
		"list-decommission-batches": pageOf(decommissionBatchJSON),
		"get-decommission-batch":    answer(200, decommissionBatchJSON),
		"pause-decommission-batch":  answer(202, decommissionBatchJSON),
		"resume-decommission-batch": answer(202, decommissionBatchJSON),
		"cancel-decommission-batch": answer(202, decommissionBatchJSON),
	})
	for _, op := range []string{
		"retry-decommission", "resume-decommission", "rerun-decommission", "restart-decommission-clean",
		"cancel-decommission", "adopt-decommission", "mark-decommission-manual",
		"override-decommission",
	} {
		into[op] = answer(202, decommissionRunning)
	}
	into["act-on-decommissions"] = answer(202, manyJSON(decommissionID, "c07u31"))
	return into
}
