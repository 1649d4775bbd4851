package cli

import (
	"io"
	"maps"
	"net/http"
	"strings"
)

const (
	onboardingID = "0190b2f4-7c1e-7d3a-8f5b-000000000010"
	batchID      = "0190b2f4-7c1e-7d3a-8f5b-000000000011"

	onboardingPart = `"onboarding_id":"` + onboardingID + `","batch_id":"` + batchID + `","site_id":"` + siteID +
		`","profile_id":"` + profileID + `","sku_id":"h200-sxm-baremetal-8g",` +
		`"hostname":"c07u43","ipmi_ip":"10.176.16.128","maas_system_id":"4y3h7n","node_id":"` + nodeID +
		`","initialize_disks":false,"stage_total":16,"epoch":1,"adopted":false,` +
		`"workflow_id":"onboarding-` + onboardingID +
		`","requested_by":"Ada","correlation_id":"0190-corr","requested_at":"2026-03-04T05:00:07Z","started_at":"2026-03-04T05:00:08Z"`
	onboardingRunning = `{` + onboardingPart +
		`,"status":"running","current_stage":"wait_for_ready","stage_number":5,"current_attempt":1,"legal_actions":["cancel","mark_manual_intervention_required"],` +
		`"observed":{"maas_status":"Commissioning","maas_ips":[],"since":"2026-03-04T05:02:07Z"},"updated_at":"2026-03-04T05:06:07Z"}`
	onboardingParkedPart = onboardingPart +
		`,"status":"failed_manual_intervention","current_stage":"wait_for_ready","stage_number":5,"current_attempt":1,"legal_actions":["rerun","retry_stage","cancel"],` +
		`"recommended_action":"rerun","failure":{"failure_class":"hardware_mismatch","error_code":"failed_commission","error_message":"commissioning failed","error_remedy":"see the results in MAAS"},` +
		`"observed":{"maas_status":"Failed commissioning","maas_ips":[],"since":"2026-03-04T05:05:07Z"},"parked_at":"2026-03-04T05:06:07Z","updated_at":"2026-03-04T05:06:07Z"`
	onboardingParked      = `{` + onboardingParkedPart + `}`
	onboardingEventJSON   = `{"seq":41,"epoch":1,"stage":"wait_for_ready","attempt":1,"status":"failed","message":"commissioning failed","occurred_at":"2026-03-04T05:06:07Z"}`
	onboardingExplanation = `{"summary":"c07u43 has been parked at stage 5 of 16 (Wait until Ready) for 3 min: commissioning failed","status":"failed_manual_intervention","stage":"wait_for_ready",` +
		`"stage_title":"Wait until Ready","expected":"MAAS shows the machine as Ready","observed":"MAAS shows it as Failed commissioning","observed_since":"2026-03-04T05:05:07Z",` +
		`"waiting_since":"2026-03-04T05:06:07Z","failure_class":"hardware_mismatch","error_code":"failed_commission","likely_cause":"A commissioning script failed.","remedy":"see the results in MAAS",` +
		`"actions":[{"action":"rerun","rank":1,"legal":true,"safety":"safe","does":"goes through all stages","command":"gpuaas onboarding rerun ` + onboardingID + `"},` +
		`{"action":"restart_clean","rank":2,"legal":true,"safety":"destroys_data","does":"starts from nothing","command":"gpuaas onboarding restart-clean ` + onboardingID + `"},` +
		`{"action":"mark_manual_intervention_required","legal":false,"safety":"safe","does":"stops all automation","command":"gpuaas onboarding mark-manual-intervention ` + onboardingID + `"}]}`
	batchJSON = `{"batch_id":"` + batchID + `","site_id":"` + siteID + `","profile_id":"` + profileID +
		`","sku_id":"h200-sxm-baremetal-8g","state":"running","total":20,"succeeded":12,"failed":1,` +
		`"counts":{"pending":4,"running":3,"compensating":0,"completed":12,"reconciled":0,"cancelled":0,"failed_retryable":0,"failed_manual_intervention":1},"requested_by":"Ada","requested_at":"2026-03-04T05:00:07Z"}`
	preflightJSON = `{"ok":false,"checks":[{"name":"site_active","ok":true,"detail":"the site dc1 takes new work"},` +
		`{"name":"power_credentials","ok":false,"detail":"c07u43: the site dc1 has no BMC credentials","remedy":"write it: gpuaas site credentials set dc1 --power-file FILE","code":"site_credentials_missing"}],"machines":1,"looked_at":1}`
	newBatchJSON = `{"batch_id":"` + batchID + `","onboardings":[{"hostname":"c07u43","onboarding_id":"` + onboardingID +
		`","node_id":"` + nodeID + `"}]}`
	newOneJSON = `{"onboarding_id":"` + onboardingID + `","status":"pending","node_id":"` + nodeID +
		`","workflow_id":"onboarding-` + onboardingID + `"}`
)

// manyJSON is what became of an action on a job, which was done, and on one that was refused.
func manyJSON(done, hostname string) string {
	return `{"action":"retry_stage","done":1,"refused":1,"jobs":[{"job_id":"` + done + `","hostname":"` + hostname +
		`","outcome":"done","status":"running","current_stage":"wait_for_ready","epoch":2},` +
		`{"job_id":"` + nodeID + `","hostname":"c07u44","outcome":"refused","status":"running","current_stage":"wait_for_ready","epoch":1,` +
		`"refusal":{"code":"action_not_allowed","message":"the job of c07u44 is running: retry_stage is not possible now",` +
		`"remedy":"possible now: cancel, mark_manual_intervention_required"}}]}`
}

// stageJSON is one row of the table of stages.
func stageJSON(number, name, expects string) string {
	return `{"number":` + number + `,"name":"` + name + `","title":"` + name + `","looks":"x","does":"x","expects":"` +
		expects +
		`","again":"x","attempts":3,"limit":"commission","resume":"commission_node","on_cancel":"x","detour":false,"typical_seconds":412.5,"fails":[]}`
}

// onboardingEvent is what the live feed tells about the onboarding.
func onboardingEvent(position, at, kind, status, stage, message string) string {
	return "id: " + position + "\nevent: event\ndata: {\"event_id\":\"" + eventID +
		"\",\"event_type\":\"node.onboarding." + kind + "\",\"occurred_at\":\"2026-03-04T" + at +
		"Z\",\"version\":\"1.0\",\"correlation_id\":\"0190-corr\",\"payload\":{\"onboarding_id\":\"" + onboardingID +
		"\",\"batch_id\":\"" + batchID + "\",\"site_id\":\"" + siteID +
		"\",\"node_id\":\"" + nodeID + "\",\"hostname\":\"c07u43\",\"status\":\"" + status + "\",\"stage\":\"" + stage +
		"\",\"attempt\":1,\"stage_status\":\"succeeded\",\"message\":\"" + message + "\"}}\n\n"
}

const feedBegins = "id: 41\nevent: position\ndata: {\"position\":41}\n\n"

// feedOf is a live feed that tells this and ends.
func feedOf(text ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, feedBegins+strings.Join(text, ""))
	}
}

// onboardingAnswers are the answers about onboardings.
func onboardingAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	maps.Copy(into, map[string]http.HandlerFunc{
		"create-onboarding": answer(202, newOneJSON), "create-onboarding-batch": answer(202, newBatchJSON),
		"preflight-onboarding": answer(200, preflightJSON),
		"list-onboardings":     pageOf(onboardingRunning), "list-onboarding-events": pageOf(onboardingEventJSON),
		"get-onboarding": answer(200, `{`+onboardingParkedPart+`,"facts":{},"events":[`+onboardingEventJSON+
			`],"explanation":`+onboardingExplanation+`}`),
		"get-onboarding-explanation": answer(200, onboardingExplanation),
		"list-onboarding-stages": pageOf(
			strings.Replace(stageJSON("1", "load_site_config", "the site is active"), "412.5", "0.2", 1),
			stageJSON("5", "wait_for_ready", "MAAS shows the machine as Ready"),
			strings.Replace(stageJSON("16", "wait_for_agent_enrollment", "the agent has polled"), `"typical_seconds":412.5,`, "",
				1)),
		"stream-onboardings": feedOf(
			onboardingEvent("42", "05:07:07", "stage", "running", "wait_for_ready", "Ready after 5 min"),
			onboardingEvent("43", "05:08:07", "completed", "completed", "wait_for_agent_enrollment", "the agent has polled")),
		"list-onboarding-batches": pageOf(batchJSON), "get-onboarding-batch": answer(200, batchJSON),
		"pause-onboarding-batch": answer(202, batchJSON), "resume-onboarding-batch": answer(202, batchJSON),
		"cancel-onboarding-batch": answer(202, batchJSON),
	})
	for _, op := range []string{
		"retry-onboarding", "resume-onboarding", "rerun-onboarding", "restart-onboarding-clean", "cancel-onboarding",
		"adopt-onboarding", "mark-onboarding-manual",
	} {
		into[op] = answer(202, onboardingRunning)
	}
	into["act-on-onboardings"] = answer(202, manyJSON(onboardingID, "c07u43"))
	return into
}
