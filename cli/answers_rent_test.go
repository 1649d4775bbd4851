package cli

import (
	"maps"
	"net/http"
)

// errand is a command and the golden file of its answer.
type errand struct{ name, args string }

const (
	quotaPart       = `"quota_id":"0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1e3","org_id":"` + orgID + `","updated_by":"` + userID + `",` + times
	tenantQuotaJSON = `{` + quotaPart + `,"gpus":64,"nodes":8}`
	projectQuota    = `{` + quotaPart + `,"project_id":"` + projectID + `","sku":"h200-sxm-baremetal-8g","nodes":2}`
)

var rentErrands = []errand{
	{"quota-list-tenant", "quota list --tenant acme"},
	{"quota-list-project", "quota list --project acme/training"},
	{"quota-set-tenant", "quota set --tenant acme --gpus 64 --nodes 8"},
	{"quota-set-project", "quota set --project acme/training --sku h200-sxm-baremetal-8g --nodes 2 -o json"},
	{"quota-remove-tenant", "quota remove --tenant acme"},
	{"quota-remove-project", "quota remove --project acme/training --sku h200-sxm-baremetal-8g"},
}

// rentAnswers are what the fake API says about what is rented.
func rentAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	maps.Copy(into, map[string]http.HandlerFunc{
		"list-tenant-quotas": pageOf(tenantQuotaJSON, projectQuota), "put-tenant-quota": answer(200, tenantQuotaJSON),
		"remove-tenant-quota": nothing,
		"list-project-quotas": pageOf(tenantQuotaJSON, projectQuota), "put-project-quota": answer(200, projectQuota),
		"remove-project-quota": nothing,
	})
	return into
}
