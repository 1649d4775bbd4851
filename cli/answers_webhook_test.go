package cli

const (
	webhookID   = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1f1"
	deliveryID  = "0198c5f0-6f0a-4c3e-9d53-0a5f5be1c1f2"
	webhookJSON = `{"webhook_id":"` + webhookID + `","project_id":"` + projectID + `","name":"pager",` +
		`"url":"https://hooks.example.com/gpuaas","kinds":["provisioning.*"],"status":"enabled",` +
		`"secret_rotated_at":"2026-03-04T05:06:07Z","version":7,"created_at":"2026-03-04T05:06:07Z","created_by":"` +
		userID + `"}`
	webhookSecretJSON = `{"webhook":` + webhookJSON + `,"secret":"whsec_shown-once"}`
	deliveryJSON      = `{"delivery_id":"` + deliveryID + `","seq":7,"event_id":"0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1f3",` +
		`"event_type":"provisioning.active","status":"waiting","attempts":2,"created_at":"2026-03-04T05:06:07Z",` +
		`"next_attempt_at":"2026-03-04T05:08:07Z","answer_code":503,"duration_ms":12,"failure":"the receiver answered 503"}`
)

var webhookErrands = []errand{
	{"webhook-create", "webhook create pager --project acme/training --url https://hooks.example.com/gpuaas " +
		"--event provisioning.*"},
	{"webhook-create-json", "webhook create pager --project acme/training --url https://hooks.example.com/ -o json"},
	{"webhook-list", "webhook list --project acme/training"},
	{"webhook-show", "webhook show " + webhookID + " --project acme/training"},
	{"webhook-update", "webhook update pager --project acme/training --enable --url https://hooks.example.com/2"},
	{"webhook-delete", "webhook delete pager --project acme/training"},
	{"webhook-rotate-secret", "webhook rotate-secret pager --project acme/training"},
	{"webhook-test", "webhook test pager --project acme/training"},
	{"webhook-deliveries", "webhook deliveries pager --project acme/training --status waiting"},
	{"webhook-redeliver", "webhook redeliver pager " + deliveryID + " --project acme/training"},
	{"webhook-missing", "webhook show gone --project acme/training"},
}
