package cli

import (
	"maps"
	"net/http"
)

const (
	maintenanceID = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c2a1"

	maintenancePart = `"maintenance_id":"` + maintenanceID + `","announcement_id":"0198c5f0-6f0a-7c3e-9d53-0a5f5be1c2a2",` +
		`"allocation_id":"` + allocationID + `","project_id":"` + projectID + `","node_id":"` + nodeID + `","hostname":"c07u31",` +
		`"kind":"release","consent_asked":true,"not_before":"2026-03-05T05:00:00Z","due_at":"2026-03-05T06:00:00Z",` +
		`"reason":"the rack is moved","created_at":"2026-03-04T05:06:07Z","status_changed_at":"2026-03-04T05:06:07Z"`
	announcedJSON = `{` + maintenancePart + `,"status":"announced","announced_by":"Olga"}`
	consentedJSON = `{` + maintenancePart + `,"status":"consented","answered_at":"2026-03-04T06:00:00Z","answered_by":"` + userID +
		`","answered_by_name":"Ada","answer":"after lunch, please"}`
	announcementJSON = `{"announcement_id":"0198c5f0-6f0a-7c3e-9d53-0a5f5be1c2a2","maintenances":[` + announcedJSON +
		`],"left_out":[{"node_id":"` + nodeID + `","hostname":"c07u32","reason":"no tenant has it"}]}`
	caredForJSON = `{` + allocationPart + `,"status":"active","host":"10.0.0.7","port":22,"active_at":"2026-03-04T05:06:08Z",` +
		`"repairing":{"since":"2026-03-04T05:07:00Z","reason":"a fan is replaced"},"maintenance":{"maintenance_id":"` + maintenanceID +
		`","status":"announced","kind":"release","consent_asked":true,"not_before":"2026-03-05T05:00:00Z",` +
		`"due_at":"2026-03-05T06:00:00Z","reason":"the rack is moved","may_begin":false}}`
	repairJSON = `{"repair_id":"0198c5f0-6f0a-7c3e-9d53-0a5f5be1c2a3","allocation_id":"` + allocationID + `","node_id":"` + nodeID +
		`","reason":"a fan is replaced","began_at":"2026-03-04T05:10:00Z","ended_at":"2026-03-04T06:10:00Z","ended_because":"it runs"}`
)

var maintenanceErrands = []errand{
	{"maintenance-announce", "maintenance announce c07u31 --kind release --by 2026-03-05T06:00:00Z --ask-consent --reason moved"},
	{"maintenance-announce-rack", "maintenance announce --rack c07 --kind pause --not-before 2026-03-05T05:00:00Z " +
		"--by 2026-03-05T06:00:00Z --reason power"},
	{"maintenance-announce-nothing", "maintenance announce --kind pause --by 2026-03-05T06:00:00Z --reason power"},
	{"maintenance-list", "maintenance list --status announced"},
	{"maintenance-list-project", "maintenance list --project acme/training"},
	{"maintenance-show", "maintenance show " + maintenanceID},
	{"maintenance-consent", "maintenance consent " + allocationID + " --note later"},
	{"maintenance-consent-now", "maintenance consent " + allocationID + " --now"},
	{"maintenance-decline", "maintenance decline " + allocationID + " --reason busy"},
	{"maintenance-begin", "maintenance begin " + maintenanceID},
	{"maintenance-finish", "maintenance finish " + maintenanceID + " --reason restarted"},
	{"maintenance-cancel", "maintenance cancel " + maintenanceID + " --reason unneeded"},
	{"allocation-repair-begin", "allocation repair begin " + allocationID + " --reason fan"},
	{"allocation-repair-end", "allocation repair end " + allocationID + " --reason replaced"},
	{"allocation-repair-list", "allocation repair list " + allocationID},
}

// maintenanceAnswers are what the fake API says about maintenance of rented nodes.
func maintenanceAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	maps.Copy(into, map[string]http.HandlerFunc{
		"announce-maintenance": answer(201, announcementJSON), "list-maintenances": pageOf(consentedJSON),
		"list-all-maintenances": pageOf(announcedJSON, consentedJSON), "get-maintenance": answer(200, consentedJSON),
		"consent-to-maintenance": answer(200, consentedJSON), "decline-maintenance": answer(200, announcedJSON),
		"begin-maintenance": answer(200, announcedJSON), "finish-maintenance": answer(200, consentedJSON),
		"cancel-maintenance": answer(200, announcedJSON), "list-allocation-repairs": pageOf(repairJSON),
		"begin-allocation-repair": answer(200, caredForJSON), "end-allocation-repair": answer(200, activeJSON),
	})
	return into
}
