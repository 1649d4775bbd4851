package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

const times = `"created_at":"2026-03-04T05:06:07Z","updated_at":"2026-03-04T05:06:07Z","version":7`

const (
	tenantJSON  = `{"org_id":"` + orgID + `","slug":"acme","name":"Acme Inc.",` + times + `}`
	projectJSON = `{"project_id":"` + projectID + `","org_id":"` + orgID + `","slug":"training","name":"Training",` +
		times + `}`
	userJSON = `{"user_id":"` + userID +
		`","email":"ada@example.com","name":"Ada","platform_role":"none","disabled":false,"linked":true,` + times + `}`
	memberJSON = `{"user_id":"` + userID +
		`","email":"ada@example.com","name":"Ada","role":"project_member","created_at":"2026-03-04T05:06:07Z"}`
	accountJSON = `{"service_account_id":"` + accountID + `","project_id":"` + projectID +
		`","name":"ci","role":"project_member","status":"active",` + times + `}`
	tokenPart = `"token_id":"` + tokenID +
		`","kind":"api","name":"nightly","scopes":["project:read"],"expires_at":"2026-04-03T05:06:07Z","created_at":"2026-03-04T05:06:07Z"`
	auditJSON = `{"id":"` + eventID + `","occurred_at":"2026-03-04T05:06:07Z","actor_kind":"user","actor_id":"` +
		userID +
		`","actor_name":"Ada","actor_role":"platform_admin","action":"tenant.create","target_kind":"tenant","target_id":"` +
		orgID +
		`","target_name":"acme","sentence":"Ada created tenant acme.","result":"success","correlation_id":"0190-corr","metadata":{"slug":"acme"}}`
	outboxJSON = `{"event_id":"` + eventID +
		`","destination":"nats","event_type":"tenant.created","aggregate_kind":"tenant","aggregate_id":"` + orgID +
		`","correlation_id":"0190-corr","status":"failed","attempts":12,"last_error":"nats: no responders","created_at":"2026-03-04T05:06:07Z"}`
	checkPart = `"id":"` + checkID +
		`","requested_by":"Ada","correlation_id":"0190-corr","created_at":"2026-03-04T05:06:07Z"`
	pending = `{` + checkPart + `,"status":"pending","steps":[]}`
	running = `{` + checkPart +
		`,"status":"running","waiting_for":"events","steps":[{"name":"database","ok":true,"duration_ms":3}]}`
	passed = `{` + checkPart +
		`,"status":"passed","finished_at":"2026-03-04T05:06:08Z","steps":[{"name":"workflow","components":"outbox, Temporal, worker","ok":true,"duration_ms":210},{"name":"database","components":"PostgreSQL","ok":true,"duration_ms":3},{"name":"events","components":"outbox, relay, NATS","ok":true,"duration_ms":14}]}`
	failed = `{` + checkPart +
		`,"status":"failed","finished_at":"2026-03-04T05:06:08Z","steps":[{"name":"database","components":"PostgreSQL","ok":true,"duration_ms":3,"message":"the worker wrote to the database"},{"name":"events","components":"outbox, relay, NATS","ok":false,"duration_ms":5000,"code":"nats_unavailable","message":"NATS does not answer","remedy":"check that NATS runs"}]}`
	statusJSON = `{"version":"1.2.3","roles":["api","worker"],"ready":false,"insecure":["listen","nats"],"dependencies":[{"name":"postgres","up":true,"checked_at":"2026-03-04T05:09:00Z","took_ms":2},` +
		`{"name":"nats","up":false,"checked_at":"2026-03-04T05:09:00Z","took_ms":5000,"code":"nats_unavailable","message":"no servers available","remedy":"check that NATS runs"}],` +
		`"outbox":[{"destination":"nats","pending":12,"failed":1,"oldest_age_seconds":75.5},{"destination":"temporal","pending":0,"failed":0,"oldest_age_seconds":0}],` +
		`"workers":[{"task_queue":"gpuaas","kind":"workflow","pollers":2,"backlog":0,"oldest_age_seconds":0},` +
		`{"task_queue":"gpuaas","kind":"activity","pollers":2,"backlog":41,"oldest_age_seconds":12.5}],"links":{"temporal_ui":"https://temporal.example"}}`
	lifecycleJSON = `{"noun":"self_check","title":"Self-check","states":[{"name":"pending","meaning":"waits for a worker","initial":true,"terminal":false,"stuck_after_seconds":300,"events":["start"]},` +
		`{"name":"running","meaning":"is at work","initial":false,"terminal":false,"events":["pass"]},{"name":"passed","meaning":"all is well","initial":false,"terminal":true,"events":[]}],` +
		`"edges":[{"from":"pending","event":"start","to":"running","owner":"SelfCheckWorkflow"},{"from":"running","event":"pass","to":"passed","owner":"SelfCheckWorkflow"}]}`
	meJSON = `{"kind":"user","id":"` + userID + `","name":"Ada","platform_role":"platform_admin","tenants":[{"org_id":"` +
		orgID + `","role":"tenant_admin"}],` +
		`"projects":[{"project_id":"` + projectID + `","org_id":"` + orgID +
		`","role":"project_admin"}],"scopes":[],"token_id":"` + tokenID + `","expires_at":"2026-04-03T05:06:07Z",` +
		`"platform_permissions":["node:read"],"permissions":["node:read","project:read"]}`
	noCredential = `{"has_credentials":false}`
	someSecret   = `{"has_credentials":true,"rotated_at":"2026-03-04T05:06:07Z","fingerprint":"9f86d081884c"}`
	siteJSON     = `{"site_id":"` + siteID +
		`","name":"dc1","status":"active","region_code":"eu-1","api_base_url":"http://maas.example:5240/MAAS","ca_certificate":"","allowed_networks":[],` +
		`"pxe_iface":"ens19","pxe_vlan_vid":46,"node_pxe_iface":"eno8303","deploy_user":"hpcadmin","deploy_ssh_iface":"eno8303","upstream_dns_servers":["1.1.1.1","8.8.8.8"],"max_parallel":20,` +
		`"api_token":` + someSecret + `,"power":` + someSecret + `,"deploy_password":` + noCredential + `,` + times + `}`
	profileJSON = `{"profile_id":"` + profileID + `","site_id":"` + siteID +
		`","name":"default","description":"","status":"active","distro_series":"ubuntu/noble","architecture":"amd64/generic",` +
		`"pxe_iface":"","pxe_vlan_vid":-1,"node_pxe_iface":"","strict_pxe_preflight":true,"enable_phase2_roce":true,"require_hw_sync":true,"hardware_sync_interval":"15m","release_fallback_no_erase":true,` +
		`"enable_deploy_retry_on_datasource_failure":true,"max_deploy_retry_attempts":1,"auto_claim_single_new_machine":false,"batch_max_parallel":10,"site_bootstrap_bundle_ref":"base@2026.11","site_bootstrap_bundle_sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","previous_bundle_ref":"base@2026.10",` +
		`"enrollment_token_ttl_seconds":7200,"discovery_timeout_seconds":1800,"commission_timeout_seconds":3600,"deploy_timeout_seconds":5400,"hw_sync_seed_timeout_seconds":900,` +
		`"hw_sync_health_timeout_seconds":3600,"enrollment_timeout_seconds":1800,"release_timeout_seconds":14400,"minimum_erase":"none","minimum_sanitization":"clear","remove_maas_record":false,"release_retired_machines":false,"data_disks":"require_clean","retired_machines":"power_off","return_healed_nodes":false,"require_enrollment_address":false,` + times + `}`
	overrideJSON = `{"power_override_id":"` + overrideID + `","site_id":"` + siteID +
		`","selector_type":"hostname","selector_value":"c07u31","status":"active","credentials":` + someSecret + `,` + times +
		`}`
	uploadJSON        = `{"upload_id":"` + overrideID + `","size":21,"received":%d,"max_part":524288}`
	bundleVersionJSON = `{"bundle_id":"` + overrideID + `","site_id":"` + siteID +
		`","name":"base","version":"2026.11","ref":"base@2026.11","sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","size":21,` +
		`"added_by":"` + userID + `","used_by":["default"],"created_at":"2026-03-04T05:06:07Z"}`
	roceJSON = `{"assignment_id":"` + assignmentID + `","site_id":"` + siteID +
		`","hostname":"c07u31","interface":"enp28s0np0","ipv4_cidr":"172.30.9.61/31","mtu":9000,"created_at":"2026-03-04T05:06:07Z","updated_at":"2026-03-04T05:06:07Z"}`
	probeJSON = `{"ok":false,"checks":[{"name":"reachable","ok":true,"detail":"http://maas.example:5240/MAAS answers as MAAS"},{"name":"version","ok":true,"detail":"MAAS 3.7.3"},` +
		`{"name":"token_valid","ok":false,"detail":"MAAS refuses the API key","remedy":"write a valid API key of a MAAS administrator for the site","code":"maas_token_invalid"},` +
		`{"name":"token_admin","ok":false,"detail":"not looked at","remedy":"first correct: token_valid","code":"not_checked"}]}`
	healthyJSON = `{"ok":true,"checks":[{"name":"reachable","ok":true,"detail":"http://maas.example:5240/MAAS answers as MAAS"}]}`
	newToken    = "gpuaas_once_b2f4"
	eventsText  = "id: 41\nevent: position\ndata: {\"position\":41}\n\n: alive\n\nid: 42\nevent: event\ndata: " +
		"{\"event_id\":\"" + eventID +
		"\",\"event_type\":\"tenant.created\",\"occurred_at\":\"2026-03-04T05:06:07Z\",\"version\":\"1.0\",\"correlation_id\":\"0190-corr\",\"org_id\":\"" + orgID +
		"\",\"payload\":{\"slug\":\"acme\"}}\n\nevent: problem\ndata: " +
		"{\"type\":\"t\",\"title\":\"Unauthorized\",\"status\":401,\"code\":\"token_revoked\",\"detail\":\"the token was " +
		"revoked\"}\n\n"
)

const sshKeyJSON = `{"ssh_key_id":"0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1e1","name":"laptop","algorithm":"ssh-ed25519",` +
	`"public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",` +
	`"fingerprint":"SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",` +
	`"added_by":"` + "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1e2" + `","created_at":"2026-03-04T05:00:00Z"}`

func pageOf(items ...string) http.HandlerFunc {
	return answer(http.StatusOK, `{"items":[`+strings.Join(items, ",")+`]}`)
}

// cannedAnswers has an answer for every operation.
func cannedAnswers() map[string]http.HandlerFunc {
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	text := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, body)
		}
	}
	shown := answer(http.StatusCreated, `{"token":"`+newToken+`",`+tokenPart+`}`)
	return artifactAnswers(agentAnswers(operationAnswers(operationDefinitionAnswers(maintenanceAnswers(
		rentAnswers(reconciliationAnswers(decommissionAnswers(certificateAnswers(onboardingAnswers(terminalAnswers(
			nodeAnswers(map[string]http.HandlerFunc{
				"create-tenant": answer(201, tenantJSON), "list-tenants": pageOf(tenantJSON), "get-tenant": answer(200, tenantJSON),
				"update-tenant":  answer(200, tenantJSON),
				"disable-tenant": answer(200, strings.TrimSuffix(tenantJSON, "}")+`,"disabled_at":"2026-03-04T05:00:00Z","disabled_because":"unpaid"}`),
				"enable-tenant":  answer(200, tenantJSON),
				"create-project": answer(201, projectJSON), "list-projects": pageOf(projectJSON),
				"get-project": answer(200, projectJSON), "update-project": answer(200, projectJSON),
				"list-tenant-members": pageOf(memberJSON), "put-tenant-member": answer(200, memberJSON),
				"remove-tenant-member": nothing,
				"list-project-members": pageOf(memberJSON), "put-project-member": answer(200, memberJSON),
				"remove-project-member": nothing,
				"create-user":           answer(201, userJSON), "list-users": pageOf(userJSON), "get-user": answer(200, userJSON),
				"update-user":            answer(200, userJSON),
				"create-service-account": answer(201, accountJSON), "list-service-accounts": pageOf(accountJSON),
				"get-service-account":    answer(200, accountJSON),
				"update-service-account": answer(200, accountJSON), "delete-service-account": nothing,
				"create-my-token": shown, "list-my-tokens": pageOf(`{` + tokenPart + `}`), "revoke-my-token": nothing,
				"add-my-ssh-key": answer(201, sshKeyJSON), "list-my-ssh-keys": pageOf(sshKeyJSON), "remove-my-ssh-key": nothing,
				"add-project-ssh-key": answer(201, sshKeyJSON), "list-project-ssh-keys": pageOf(sshKeyJSON),
				"remove-project-ssh-key":       nothing,
				"create-service-account-token": shown, "list-service-account-tokens": pageOf(`{` + tokenPart + `}`),
				"revoke-service-account-token": nothing,
				"list-audit-logs":              pageOf(auditJSON), "stream-events": text("text/event-stream", eventsText),
				"list-failed-outbox-events": pageOf(outboxJSON), "requeue-outbox-event": answer(200, outboxJSON),
				"discard-outbox-event": answer(200, outboxJSON),
				"create-self-check":    answer(202, pending), "list-self-checks": pageOf(passed, failed),
				"get-self-check": answer(200, failed), "cancel-self-check": answer(202, running),
				"get-system-status": answer(200, statusJSON),
				"get-pruning":       answer(200, `{"every_seconds":86400,"keep_newest":20,"kinds":[`+prunedJSON+`]}`),
				"run-pruning":       answer(200, `{"complete":true,"kinds":[`+prunedJSON+`]}`),
				"get-metrics":       text("text/plain; version=0.0.4", "# HELP up is it\nup 1\n"),
				"list-lifecycles":   pageOf(lifecycleJSON), "get-me": answer(200, meJSON), "sign-out": nothing,
				"create-maas-site": answer(201, siteJSON), "list-maas-sites": pageOf(siteJSON),
				"get-maas-site": answer(200, siteJSON), "update-maas-site": answer(200, siteJSON),
				"delete-maas-site": nothing, "set-maas-site-credentials": answer(200, siteJSON),
				"probe-maas-site":     answer(200, probeJSON),
				"create-site-profile": answer(201, profileJSON), "list-site-profiles": pageOf(profileJSON),
				"get-site-profile":    answer(200, profileJSON),
				"update-site-profile": answer(200, profileJSON), "delete-site-profile": nothing,
				"begin-site-bundle-upload":    answer(201, fmt.Sprintf(uploadJSON, 0)),
				"send-site-bundle-part":       answer(200, fmt.Sprintf(uploadJSON, 21)),
				"complete-site-bundle-upload": answer(201, bundleVersionJSON), "list-site-bundles": pageOf(bundleVersionJSON),
				"delete-site-bundle": nothing, "use-site-bundle": answer(200, profileJSON),
				"rollback-site-bundle":  answer(200, profileJSON),
				"create-power-override": answer(201, overrideJSON), "list-power-overrides": pageOf(overrideJSON),
				"get-power-override":    answer(200, overrideJSON),
				"update-power-override": answer(200, overrideJSON), "delete-power-override": nothing,
				"get-power-choice": answer(200, `{"source":"override","power_override_id":"`+overrideID+
					`","fingerprint":"9f86d081884c","reason":"active override by hostname c07u31"}`),
				"upsert-roce-assignments": answer(200, `{"created":1,"updated":1,"unchanged":0}`),
				"list-roce-assignments":   pageOf(roceJSON), "delete-roce-assignment": nothing,
				"list-auth-methods":   answer(200, `{"methods":["token","oidc"],"issuer":"https://id.example.com"}`),
				"start-oidc-sign-in":  answer(500, `{}`),
				"finish-oidc-sign-in": answer(200, `{"token":"`+canary+`","expires_at":"2026-03-05T05:06:07Z"}`),
			}))))))))))))
}

const prunedJSON = `{"name":"node_tasks","what":"tasks of nodes that ended and that no evidence names",` +
	`"before":"2026-03-01T12:00:00Z","rows":42},{"name":"job_ledgers","what":"entries in ledgers of jobs","rows":0}`
