package cli

import (
	"io"
	"maps"
	"net/http"
	"strings"
)

// errand is a command and the golden file of its answer.
type errand struct{ name, args string }

const (
	quotaPart = `"quota_id":"0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1e3","org_id":"` + orgID + `","updated_by":"` +
		userID + `",` + times
	tenantQuotaJSON = `{` + quotaPart + `,"gpus":64,"nodes":8,"used_gpus":24,"used_nodes":3}`
	projectQuota    = `{` + quotaPart + `,"project_id":"` + projectID + `","sku":"h200-sxm-baremetal-8g","nodes":2,"used_gpus":8,"used_nodes":1}`
)

var rentErrands = []errand{
	{"quota-list-tenant", "quota list --tenant acme"},
	{"quota-list-project", "quota list --project acme/training"},
	{"quota-set-tenant", "quota set --tenant acme --gpus 64 --nodes 8"},
	{"quota-set-project", "quota set --project acme/training --sku h200-sxm-baremetal-8g --nodes 2 -o json"},
	{"quota-remove-tenant", "quota remove --tenant acme"},
	{"quota-remove-project", "quota remove --project acme/training --sku h200-sxm-baremetal-8g"},
	{"tenant-settings-show", "tenant settings show acme"},
	{"tenant-settings-set", "tenant settings set acme --max-expiry 30d --clear default-expiry -o json"},
	{"project-settings-show", "project settings show acme/training"},
	{"project-settings-set", "project settings set acme/training --default-expiry never --root-access=false"},
	{"project-settings-no-maximum", "project settings set acme/training --max-expiry never"},
	{"reservation-list", "reservation list"},
	{"reservation-list-project", "reservation list --project acme/training --sku h200-sxm-baremetal-8g --state active"},
	{"reservation-list-tenant", "reservation list --tenant acme"},
	{"reservation-show", "reservation show " + reservationID},
	{
		"reservation-create",
		"reservation create --tenant acme --sku h200-sxm-baremetal-8g --nodes 4 --for 30d --rack r7 --node-label tier=fast",
	},
	{
		"reservation-create-project", "reservation create --project acme/training --sku h200-sxm-baremetal-8g --nodes 2 " +
			"--from 2026-03-05 --until 2026-04-01 --reason contract",
	},
	{"reservation-create-no-end", "reservation create --tenant acme --sku h200-sxm-baremetal-8g --nodes 4"},
	{"reservation-cancel", "reservation cancel " + reservationID + " --reason done"},
}

const (
	reservationID   = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1e7"
	reservationJSON = `{"reservation_id":"` + reservationID + `","org_id":"` + orgID + `","state":"active",` +
		`"sku":"h200-sxm-baremetal-8g","nodes":4,"used":1,"held":2,"short_by":1,"rack":"r7","node_labels":{"tier":"fast"},` +
		`"starts_at":"2026-03-04T05:06:07Z","ends_at":"2026-04-04T05:06:07Z","reason":"contract",` +
		`"created_at":"2026-03-04T05:06:07Z","created_by":"` + userID + `","created_by_name":"Ada"}`
	reservationCharge = `,"charge":{"currency":"USD","price_minor":120,"paid_share":9000,"units":8,"unused_nodes":2,` +
		`"burn_minor_per_hour":1728,"cost_minor":41472}}`
)

const settingsJSON = `{"org_id":"` + orgID + `","project_id":"` + projectID + `","default_expiry_seconds":604800,` +
	`"in_force":{"default_expiry_seconds":604800,"default_expiry_from":"project","max_expiry_seconds":2592000,` +
	`"max_expiry_from":"tenant","root_access":true,"root_access_from":"platform"},"version":7,` +
	`"updated_at":"2026-03-04T05:06:07Z","updated_by":"` + userID + `"}`

const (
	allocationID   = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1e4"
	allocationPart = `"allocation_id":"` + allocationID + `","project_id":"` + projectID + `","name":"train",` +
		`"capacity_shape":"baremetal","sku":"h200-sxm-baremetal-8g","gpus":8,"price_minor":350,"price_currency":"USD",` +
		`"region":"eu-1","node_id":"` + nodeID + `","hostname":"gpu-1","username":"alice","access":"user",` +
		`"ssh_keys":[{"ssh_key_id":"` + userID + `","name":"old-laptop","public_key":"ssh-ed25519 AAAA","fingerprint":"SHA256:old"}],` +
		`"protected":false,"requested_by":"` + userID + `","requested_by_name":"Ada",` +
		`"created_at":"2026-03-04T05:06:07Z","status_changed_at":"2026-03-04T05:06:07Z"`
	requestedJSON = `{` + allocationPart + `,"status":"requested","waiting_for":"a worker that takes it up"}`
	activeJSON    = `{` + allocationPart + `,"status":"active","host":"10.0.0.7","port":22,"active_at":"2026-03-04T05:06:08Z"}`
	changingJSON  = `{` + allocationPart + `,"status":"active","host":"10.0.0.7","port":22,"active_at":"2026-03-04T05:06:08Z",` +
		`"keys_changing_since":"2026-03-04T05:07:08Z","keys_waiting_for":"its node, which is told"}`
	releasingJSON = `{` + allocationPart + `,"status":"releasing","waiting_for":"the cleaning of the node"}`
	madeJSON      = `{"allocation_id":"` + allocationID + `","status":"requested","allocations":[` + requestedJSON + `]}`
	momentJSON    = `{"seq":1,"at":"2026-03-04T05:06:07Z","event":"requested","status":"requested","actor_kind":"user",` +
		`"actor":"Ada","message":"asked for h200-sxm-baremetal-8g, placed on gpu-1"}`
	receiptJSON = `{"moment":"release","certificate_id":"` + certificateID +
		`","kind":"handover_receipt","outcome":"clean",` +
		`"digest":"sha256:ab","issued_at":"2026-03-04T05:06:07Z"}`
	capacityJSON = `{"sku":"h200-sxm-baremetal-8g","nodes":40,"free":2,"filters":[` +
		`{"reason":"rented","text":"are rented","before":40,"after":9},` +
		`{"reason":"silent","text":"were not heard of lately","before":9,"after":9},` +
		`{"reason":"unclean","text":"are being cleaned","before":9,"after":2}],"cost":{"currency":"USD","hour_minor":2800,` +
		`"until_expiry_minor":5600,"refused":{"code":"budget_exceeded",` +
		`"message":"the budget of the project for March 2026 is 84.00 USD: 70.00 USD are spent, and the first 1h0m0s of this cost 28.00 USD"}}}`
)

const (
	requestID   = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1e5"
	requestPart = `"request_id":"` + requestID + `","project_id":"` + projectID + `","sku":"h200-sxm-baremetal-8g",` +
		`"count":2,"access":"user","requested_by":"` + userID + `","requested_by_name":"Ada",` +
		`"created_at":"2026-03-04T05:06:07Z","wait_until":"2026-03-04T07:06:07Z","allocation_ids":[]`
	waitingJSON = `{` + requestPart + `,"status":"waiting","position":3,"capacity":` + capacityJSON + `}`
	refusedJSON = `{` + requestPart + `,"status":"refused","ended_at":"2026-03-04T06:06:07Z","code":"quota_exceeded",` +
		`"reason":"the project may hold 2 nodes: used 1, asked 2, limit 2","remedy":"release something"}`
)

// placedID is the id of a request that is placed when it is looked at.
const placedID = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1e6"

// madeOrWaiting finds no capacity for whoever is ready to wait.
func madeOrWaiting(w http.ResponseWriter, r *http.Request) {
	if body, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(body), "wait_up_to_seconds") {
		answer(201, madeJSON)(w, r)
		return
	}
	answer(202, strings.Replace(waitingJSON, requestID, placedID, 1))(w, r)
}

func waitingOrPlaced(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, placedID) {
		answer(200, waitingJSON)(w, r)
		return
	}
	placed := strings.Replace(waitingJSON, requestID, placedID, 1)
	placed = strings.Replace(placed, `"status":"waiting","position":3`, `"status":"placed"`, 1)
	answer(200, strings.Replace(placed, `"allocation_ids":[]`, `"allocation_ids":["`+allocationID+`"]`, 1))(w, r)
}

var allocationErrands = []errand{
	{"allocation-create", "allocation create --project acme/training --sku h200-sxm-baremetal-8g --ssh-key laptop"},
	{
		"allocation-create-limit",
		"allocation create --project acme/training --sku h200-sxm-baremetal-8g --hour-most 28.00USD",
	},
	{
		"allocation-create-limit-wrong",
		"allocation create --project acme/training --sku h200-sxm-baremetal-8g --hour-most 28.00",
	},
	{"allocation-create-wait", "allocation create --project acme/training --sku h200-sxm-baremetal-8g --wait"},
	{"allocation-create-queued", "allocation create --project acme/training --sku h200-sxm-baremetal-8g --wait-up-to 2h"},
	{
		"allocation-create-queued-wait",
		"allocation create --project acme/training --sku h200-sxm-baremetal-8g --wait-up-to 2h --wait",
	},
	{"allocation-create-node", "allocation create --project acme/training --sku h200-sxm-baremetal-8g --node c07u31"},
	{"allocation-create-no-key", "allocation create --project acme/training --sku h200-sxm-baremetal-8g --ssh-key gone"},
	{"allocation-explain", "allocation explain --project acme/training --sku h200-sxm-baremetal-8g"},
	{"allocation-choices", "allocation choices --project acme/training"},
	{"allocation-choices-json", "allocation choices --project acme/training -o json"},
	{"allocation-explain-json", "allocation explain --project acme/training --sku h200-sxm-baremetal-8g -o json"},
	{"allocation-list", "allocation list --project acme/training --status active"},
	{"allocation-list-all", "allocation list"},
	{"allocation-show", "allocation show train --project acme/training"},
	{"allocation-timeline", "allocation timeline " + allocationID},
	{"allocation-receipts", "allocation receipts " + allocationID},
	{"allocation-receipt", "allocation receipt " + allocationID + " " + certificateID},
	{"allocation-release", "allocation release " + allocationID + " --yes"},
	{"allocation-release-complaint", "allocation release train --project acme/training --yes --complaint gpu " +
		"--complaint-text xid-79"},
	{"allocation-extend", "allocation extend " + allocationID + " --expires-in 2d"},
	{"allocation-keys", "allocation keys " + allocationID},
	{"allocation-keys-change", "allocation keys " + allocationID + " --ssh-key laptop --remove old-laptop"},
	{"allocation-keys-no-key", "allocation keys train --project acme/training --ssh-key gone"},
	{"allocation-keys-foreign", "allocation keys " + allocationID + " --remove gone"},
	{"allocation-protect", "allocation protect " + allocationID},
	{"allocation-force-release", "allocation force-release " + allocationID + " --reason abuse --yes"},
	{"allocation-force-cleanup", "allocation force-cleanup " + allocationID + " --reason stuck --verified-absent"},
	{"allocation-request-list", "allocation request list --project acme/training --status waiting"},
	{"allocation-request-list-all", "allocation request list"},
	{"allocation-request-show", "allocation request show " + requestID},
	{"allocation-request-cancel", "allocation request cancel " + requestID},
	{"ssh", "ssh train --project acme/training"},
	{"ssh-config", "ssh train --project acme/training --config"},
}

// rentAnswers are what the fake API says about what is rented.
func rentAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	maps.Copy(into, map[string]http.HandlerFunc{
		"list-tenant-quotas": pageOf(tenantQuotaJSON, projectQuota), "put-tenant-quota": answer(200, tenantQuotaJSON),
		"remove-tenant-quota": nothing,
		"list-project-quotas": pageOf(tenantQuotaJSON, projectQuota), "put-project-quota": answer(200, projectQuota),
		"remove-project-quota":       nothing,
		"get-tenant-rental-settings": answer(200, settingsJSON), "put-tenant-rental-settings": answer(200, settingsJSON),
		"get-project-rental-settings": answer(200, settingsJSON), "put-project-rental-settings": answer(200, settingsJSON),
		"list-reservations":  pageOf(reservationJSON),
		"get-reservation":    answer(200, strings.TrimSuffix(reservationJSON, "}")+reservationCharge),
		"create-reservation": answer(201, reservationJSON), "cancel-reservation": answer(200, reservationJSON),
		"create-allocation": madeOrWaiting, "place-allocation": answer(201, madeJSON),
		"create-webhook": answer(201, webhookSecretJSON), "list-webhooks": pageOf(webhookJSON),
		"get-webhook": answer(200, webhookJSON), "update-webhook": answer(200, webhookJSON), "delete-webhook": nothing,
		"rotate-webhook-secret": answer(200, webhookSecretJSON), "test-webhook": answer(202, deliveryJSON),
		"list-webhook-deliveries": pageOf(deliveryJSON), "redeliver-webhook": answer(202, deliveryJSON),
		"create-allocation-flat": answer(201, madeJSON), "explain-allocation": answer(200, capacityJSON),
		"get-allocation-choices": answer(200, `{"choices": [{"sku": "h200-sxm-baremetal-8g", "region": "eu-north",
			"node_labels": [{"key": "public/tier", "values": ["fast", "slow"]}],
			"capabilities": [{"key": "gpu.driver_series", "values": ["570"]}]}]}`),
		"list-allocations": pageOf(activeJSON), "list-all-allocations": pageOf(activeJSON, releasingJSON),
		"get-allocation": answer(200, activeJSON), "get-allocation-flat": answer(200, caredForJSON),
		"create-allocation-terminal-token": refuse(http.StatusConflict, "node_offline", terminalOffline,
			"wait until the node is active"),
		"list-allocation-receipts": pageOf(receiptJSON),
		"get-allocation-receipt":   answer(200, issuedFile("certificate.json")),
		"list-allocation-events":   pageOf(momentJSON), "update-allocation": answer(200, activeJSON),
		"change-allocation-keys": answer(202, changingJSON),
		"release-allocation":     answer(202, releasingJSON), "release-allocation-flat": answer(202, releasingJSON),
		"force-release-allocation": answer(202, releasingJSON), "force-cleanup-allocation": answer(202, releasingJSON),
		"list-allocation-requests": pageOf(waitingJSON), "list-all-allocation-requests": pageOf(waitingJSON, refusedJSON),
		"get-allocation-request": waitingOrPlaced, "cancel-allocation-request": answer(200, refusedJSON),
	})
	return billingAnswers(into)
}
