package cli

import (
	"encoding/json"
	"maps"
	"net/http"

	"gpuaas/contract/apiclient"
)

const (
	nodeID = "0190b2f4-7c1e-7d3a-8f5b-00000000000c"
	taskID = "0190b2f4-7c1e-7d3a-8f5b-00000000000d"

	agentJSON = `{"badge":"outdated","drift_state":"version_drift","agent_channel":"stable","desired_agent_version":"","wanted_agent_version":"1.3.0","desired_delivery_mode":"rebootstrap","reported_agent_version":"1.2.3",` +
		`"reported_agent_commit":"4f2a91c","agent_instance":"9f86d081884c","verifier_version":3,"trust_bundle":"","trust_refused":"trust_unsigned verifiers","certificate_not_after":"2026-03-05T05:06:07Z",` +
		`"last_delivery_attempt_at":"2026-03-04T05:00:07Z","last_delivery_result":"enrolled","last_delivery_correlation_id":"0190-corr","memory_bytes":44040192,"started_at":"2026-03-04T05:00:07Z",` +
		`"update_path":"certificate_repair","update_path_because":"its agent has no valid certificate and is refused"}`
	runJSON = `{"run_id":"` + checkID + `","node_id":"` + nodeID + `","hostname":"c07u31","mode":"rebootstrap","scenario":"certificate_repair","safety_policy":"idle_only",` +
		`"target_version":"1.3.0","from_version":"1.2.3","way":"operator","status":"awaiting_operator","detail":"it waits for somebody to act on the machine, and for the report of the node after that",` +
		`"error_code":"","error_message":"","attempt":1,"reason":"lapsed","requested_by":"Ada","created_at":"2026-03-04T05:06:07Z","updated_at":"2026-03-04T05:06:07Z","deadline_at":"2026-03-11T05:06:07Z",` +
		`"next_action":{"action":"brokered_bootstrap","text":"an agent without a valid certificate is refused, so it cannot be told anything; run on the machine, as root, what this prints","command":"gpuaas node bootstrap c07u31 --recovery"}}`
	nodePart = `"node_id":"` + nodeID +
		`","status":"active","status_changed_at":"2026-03-04T05:06:07Z","hostname":"c07u31","host":"10.20.0.31","port":22,"ssh_username":"","access_method":"agent",` +
		`"sku":"h200-sxm-baremetal-8g","gpus_total":8,"region_code":"eu-1","rack":"c07","pool":"training","labels":{"fabric":"ib0"},"onboarding_mode":"manual","schedulable":false,"hold_reason":"GPU 3 is slow","held_by":"","holds":[{"hold_id":"` + checkID + `","kind":"complaint","owner":"","reason":"GPU 3 is slow","since":"2026-03-04T05:00:00Z","by":"user:1","by_name":"Ada"}],"tainted":true,"tainted_at":"2026-03-04T05:00:00Z","generation":1,"last_agent_contact_at":"2026-03-04T05:09:01Z",` +
		`"agent":` + agentJSON + `,"capabilities":{"fabric.type":"roce","gpu.vendor":"nvidia"},` + times
	inspectionJSON = `{"facts":{},"cpu_model":"x","cpus":192,"memory_bytes":2199023255552,"numa_nodes":2,"disks":[],"nics":[],` +
		`"gpus":[{"index":0,"uuid":"GPU-1","name":"NVIDIA H200","memory_bytes":1}],"kernel":"6.1","os":"Debian 12"}`
	nodeJSON    = `{` + nodePart + `}`
	historyJSON = `{"seq":12,"occurred_at":"2026-03-04T05:06:07Z","kind":"state_changed","event":"enrolled","from_status":"enrolling","to_status":"active","source":"agent","cause":"first poll of the agent",` +
		`"actor_kind":"system","actor_id":"node","correlation_id":"0190-corr"}`
	observedJSON = `{"provider":"maas","status":"Ready","power":"off","addresses":["10.20.0.31","10.20.1.31"],"findings":["released"],"seen_at":"2026-03-04T05:08:07Z"}`
	driftJSON    = `{"seq":14,"occurred_at":"2026-03-04T05:08:07Z","kind":"state_changed","event":"quarantine","from_status":"active","to_status":"quarantined","source":"drift",` +
		`"cause":"MAAS shows the machine as Ready","actor_kind":"system","actor_id":"system:reconciliation","correlation_id":"0190-corr"},` +
		`{"seq":13,"occurred_at":"2026-03-04T05:07:07Z","kind":"observed","event":"drift_detected","source":"drift",` +
		`"cause":"released: MAAS shows the machine as Ready","actor_kind":"system","actor_id":"system:reconciliation","correlation_id":"0190-corr"},` +
		`{"seq":13,"occurred_at":"2026-03-04T05:07:01Z","kind":"updated","source":"operator","cause":"changed by an operator",` +
		`"actor_kind":"user","actor_id":"0190b2f4-7c1e-7d3a-8f5b-000000000001","correlation_id":"0190-corr"}`
	bootstrapJSON = `{"ca_fingerprint":"9f86d081884c","expires_at":"2026-03-04T05:21:07Z","command":"curl -fsSk https://cp.example:8443/internal/v1/bootstrap/ca.pem | sh"}`
	taskPart      = `"task_id":"` + taskID + `","node_id":"` + nodeID +
		`","type":"node.validate_clean","concurrency_class":"exclusive","attempt":1,"max_attempts":3,"cancel_requested":false,` +
		`"requested_by":"Ada","reason":"before the next tenant","correlation_id":"0190-corr","created_at":"2026-03-04T05:06:07Z","deadline_at":"2026-03-04T06:06:07Z"`
	taskQueued = `{` + taskPart + `,"status":"queued","params":{}}`
	taskStep   = `{"attempt":1,"seq":1,"name":"users","status":"succeeded","message":"none left","at":"2026-03-04T05:06:08Z"}`
	taskDone   = `{` + taskPart +
		`,"status":"succeeded","params":{},"output":{"clean":true,"findings":[],"checked":[]},"agent_version":"1.2.3","signer_version":"20260301-a","dispatched_at":"2026-03-04T05:06:07Z","finished_at":"2026-03-04T05:06:09Z","steps":[` + taskStep + `]}`
	taskFailed = `{` + taskPart +
		`,"status":"failed","params":{},"error":{"code":"handler_panic","message":"the handler broke down","remedy":"see the log of the agent"},"finished_at":"2026-03-04T05:06:09Z"}`
	skuJSON    = `{"sku_id":"h200-sxm-slice","status":"active","display_name":"NVIDIA H200 SXM, by the GPU","gpu_vendor":"nvidia","gpu_model":"H200","gpus_total":8,"capacity_shape":"slice","allowed_counts":[1,2,4,8],"price_minor":380,"price_currency":"USD","hardware":{"memory_gib":2048,"disks":10},` + times + `}`
	bundleJSON = `{"version":2,"sha256_fingerprint":"9f86d081884c","created_at":"2026-03-04T05:06:07Z","nodes":3,"nodes_behind":1,"behind":["` + nodeID + `"],` +
		`"authorities":[{"sha256_fingerprint":"` + authorityID +
		`","subject":"CN=control plane","not_after":"2027-03-04T05:06:07Z"}]}`
	authorityID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	signerJSON  = `{"id":"20260301-093000-5fa3c1","status":"staged","public_key":"AAAA","verifier_version":4,"published_at":"2026-03-04T05:06:07Z",` +
		`"waiting_for":{"nodes_behind":2,"nodes":["` + nodeID +
		`"],"grace_of":"20260201-x","grace_ends_at":"2026-03-05T05:06:07Z"}}`
)

// What is counted by states and kinds of jobs is counted by all that there are.
var (
	fleetCounts = `"by_status":` + inJSON(apiclient.FleetviewStatusCounts{Enrolling: 1, Active: 2, Offline: 1})
	fleetJSON   = `{"as_of":"2026-03-04T05:09:00Z","total":4,"gpus_total":32,"schedulable":2,"held":1,"tainted":1,` +
		fleetCounts + `,"agents":{"current":2,"drift":1,"unknown_build":1},` +
		`"findings":{"critical":1,"warning":2,"info":0,"debug":0},"jobs":` +
		inJSON(apiclient.FleetviewJobCounts{OnboardingsRunning: 1, DecommissionsParked: 1}) + `,` +
		`"regions":[{"region_code":"eu-1","total":4,` + fleetCounts + `}],"sites":[{"site_id":"` + siteID +
		`","name":"dc1","region_code":"eu-1","total":4,` + fleetCounts + `}],` +
		`"skus":[{"sku":"h200-sxm-baremetal-8g","total":4}]}`
	fleetMapJSON = `{"as_of":"2026-03-04T05:09:00Z","truncated":true,"nodes":[` +
		`{"node_id":"` + nodeID +
		`","hostname":"c07u31","status":"active","drift_state":"in_sync","schedulable":true,"region_code":"eu-1"},` +
		`{"node_id":"` + taskID +
		`","hostname":"c07u32","status":"quarantined","drift_state":"version_drift","schedulable":false,"region_code":"eu-1","site_id":"` + siteID + `",` +
		`"severity":"critical","job":{"kind":"decommission","job_id":"` + decommissionID + `","status":"failed_retryable"}}]}`
)

func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// nodeAnswers are the answers about nodes.
const hardwareJSON = `{"known":{"uuid":"4c4c4544-0042-3510-8052-b4c04f4d3233","system_serial":"B5BRM23","macs":["b0:7b:25:aa:00:01","b0:7b:25:aa:00:02"]},` +
	`"origin":"maas","learned_at":"2026-03-04T05:00:00Z","said":true,"addresses":["10.20.0.31"],"address_required":false,"enrolled_from":"10.20.0.31",` +
	`"refused":{"uuid":"4c4c4544-0042-3510-8052-b4c04f4d3200","macs":["b0:7b:25:aa:00:01"]},` +
	`"refused_claim":"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",` +
	`"refused_why":"its system UUID is 4c4c4544-0042-3510-8052-b4c04f4d3200, and 4c4c4544-0042-3510-8052-b4c04f4d3233 is known","refused_at":"2026-03-04T05:06:07Z"}`

func nodeAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	maps.Copy(into, map[string]http.HandlerFunc{
		"get-fleet-summary": answer(200, fleetJSON), "get-fleet-map": answer(200, fleetMapJSON),
		"create-node": answer(201, `{"node":`+nodeJSON+`,"bootstrap":`+bootstrapJSON+`}`), "list-nodes": pageOf(nodeJSON),
		"get-node": answer(200, `{`+nodePart+`,"inspection":`+inspectionJSON+`,"observed":`+observedJSON+`,"history":[`+
			historyJSON+`]}`), "update-node": answer(200, nodeJSON),
		"get-node-history": answer(200, `{"items":[`+driftJSON+`,`+historyJSON+`],"as_of":{`+nodePart+`,"inspection":`+
			inspectionJSON+`,"observed":`+observedJSON+`}}`),
		"add-node-hold": answer(201, nodeJSON), "lift-node-hold": answer(200, nodeJSON),
		"quarantine-node": answer(200, nodeJSON), "taint-node": answer(200, nodeJSON),
		"return-node-to-service":   answer(200, nodeJSON),
		"get-node-agent-lifecycle": answer(200, agentJSON[:len(agentJSON)-1]+`,"latest_run":`+runJSON+`}`),
		"begin-agent-run": answer(201, runJSON[:len(runJSON)-1]+`,"bootstrap":`+bootstrapJSON+
			`,"package":{"version":"1.3.0","digest":"sha256:9f86","size_bytes":1,"signer_version":"v1","programs":{"gpuaas-agent":"sha256:4f2a"}}}`),
		"list-agent-runs": pageOf(runJSON), "get-agent-run": answer(200, runJSON),
		"retry-agent-run": answer(200, runJSON), "cancel-agent-run": answer(200, runJSON),
		"issue-node-bootstrap": answer(201, bootstrapJSON),
		"revoke-node-identity": nothing,
		"get-node-hardware":    answer(200, hardwareJSON), "accept-node-hardware": answer(200, hardwareJSON),
		"create-node-task": answer(202, taskQueued), "list-node-tasks": pageOf(taskDone),
		"list-all-node-tasks": pageOf(taskDone, taskFailed),
		"get-node-task":       answer(200, taskDone), "cancel-node-task": answer(202, taskQueued),
		"list-node-task-types": pageOf(
			`{"type":"node.drain","title":"close sessions, revoke users","concurrency_class":"exclusive","window_seconds":900,"patience_seconds":3600,"attempts":3,"on_request":true,`+
				`"destroys":"Tenants who work there are cut off."}`,
			`{"type":"node.validate_clean","title":"look for anything a tenant left behind","concurrency_class":"exclusive","window_seconds":900,`+
				`"patience_seconds":3600,"attempts":3,"on_request":true}`),
		"create-sku": answer(201, skuJSON), "list-skus": pageOf(skuJSON), "get-sku": answer(200, skuJSON),
		"update-sku": answer(200, skuJSON), "delete-sku": nothing,
		"list-signers": pageOf(signerJSON), "rotate-signer": answer(200, signerJSON),
		"rollback-signer": answer(200, signerJSON), "revoke-signer": answer(200, signerJSON),
		"get-trust-bundle": answer(200, bundleJSON), "add-trust-authority": answer(200, bundleJSON),
		"remove-trust-authority": answer(200, bundleJSON),
	})
	return into
}
