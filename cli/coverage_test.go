package cli

import (
	"slices"
	"strings"
	"testing"
)

// errands run every command against the fake API. The answers are golden files; which
// operations were called is compared with what the commands say they use.
var errands = slices.Concat(rentErrands, allocationErrands, webhookErrands, maintenanceErrands, workErrands, []errand{
	{"tenant-create", "tenant create acme --name Acme"},
	{"tenant-list", "tenant list"},
	{"tenant-list-no-headers", "tenant list --no-headers"},
	{"tenant-list-json", "tenant list -o json"},
	{"tenant-list-yaml", "tenant list -o yaml"},
	{"tenant-get", "tenant get acme"},
	{"tenant-get-json", "tenant get " + orgID + " -o json"},
	{"tenant-get-yaml", "tenant get " + orgID + " -o yaml"},
	{"tenant-update", "tenant update acme --name Other"},
	{"tenant-disable", "tenant disable acme --reason unpaid"},
	{"tenant-enable", "tenant enable acme --reason paid"},
	{"project-create", "project create training --tenant acme"},
	{"project-list", "project list --tenant acme"},
	{"project-get", "project get acme/training"},
	{"project-update", "project update training --tenant acme --name Other"},
	{"member-list-tenant", "member list --tenant acme"},
	{"member-list-project", "member list --project acme/training"},
	{"member-set-tenant", "member set ada@example.com --tenant acme --role tenant_admin"},
	{"member-set-project", "member set " + userID + " --tenant acme --project training --role project_member"},
	{"member-remove-tenant", "member remove ada@example.com --tenant acme"},
	{"member-remove-project", "member remove ADA@example.com --project " + projectID},
	{"user-create", "user create ada@example.com --name Ada --platform-role auditor"},
	{"user-list", "user list --email ada@example.com"},
	{"user-get", "user get ada@example.com"},
	{"user-update", "user update ada@example.com --disable"},
	{"service-account-create", "service-account create ci --project acme/training --role project_member"},
	{"service-account-list", "sa list --project acme/training"},
	{"service-account-get", "service-account get ci --project acme/training"},
	{"service-account-update", "service-account update ci --project acme/training --enable --role project_viewer"},
	{"service-account-delete", "service-account delete ci --project acme/training"},
	{"token-create", "token create nightly --expires-in 30d --scope project:read"},
	{"key-add", "key add testdata/key/laptop.pub --name laptop"},
	{"key-add-project", "key add testdata/key/laptop.pub --project acme/training -o json"},
	{"key-list", "key list"},
	{"key-list-project", "key list --project acme/training"},
	{"key-remove", "key remove laptop"},
	{"key-remove-project", "key remove SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU --project acme/training"},
	{"token-create-json", "token create nightly -o json"},
	{"token-create-account", "token create nightly --service-account ci --project acme/training"},
	{"token-list", "token list"},
	{"token-list-account", "token list --service-account " + accountID + " --project " + projectID},
	{"token-revoke", "token revoke " + tokenID},
	{"token-revoke-account", "token revoke " + tokenID + " --service-account ci --project acme/training"},
	{"site-create", "site create dc1 --region eu-1 --url http://maas.example:5240/MAAS --pxe-iface ens19 " +
		"--node-pxe-iface eno8303 --pxe-vlan 46 --dns 10.0.0.1"},
	{"site-list", "site list"},
	{"site-get", "site get dc1"},
	{"site-get-json", "site get " + siteID + " -o json"},
	{"site-update", "site update dc1 --max-parallel 4"},
	{"site-enable", "site enable dc1"},
	{"site-disable", "site disable dc1"},
	{"site-delete", "site delete dc1"},
	{"site-doctor", "site doctor dc1"},
	{"site-doctor-json", "site doctor dc1 -o json"},
	{"site-credentials-set", "site credentials set dc1 --maas-token-file testdata/site/maas-token --power-file " +
		"testdata/site/bmc --deploy-password-file testdata/site/deploy-password"},
	{"site-profile-list", "site profile list dc1"},
	{"site-profile-get", "site profile get dc1 default"},
	{
		"site-profile-set",
		"site profile set dc1 default batch_max_parallel=4 require_hw_sync=false hardware_sync_interval=30m",
	},
	{"site-profile-set-new", "site profile set dc1 lxd distro_series=gpuaas-h200-v2"},
	{"site-profile-delete", "site profile delete dc1 default"},
	{"site-power-override-list", "site power-override list dc1"},
	{"site-power-override-get", "site power-override get dc1 " + overrideID},
	{"site-power-override-set", "site power-override set dc1 --hostname c07u31 --power-file testdata/site/bmc --enable"},
	{
		"site-power-override-set-new",
		"site power-override set dc1 --pxe-mac 52:54:00:00:00:01 --power-file testdata/site/bmc",
	},
	{"site-power-override-delete", "site power-override delete dc1 " + overrideID},
	{"site-power-override-resolve", "site power-override resolve dc1 --hostname c07u31"},
	{"site-bundle-upload", "site bundle upload dc1 base@2026.11 testdata/site/base.sh"},
	{"site-bundle-list", "site bundle list dc1"},
	{"site-bundle-use", "site bundle use dc1 default base@2026.11"},
	{"site-bundle-rollback", "site bundle rollback dc1 default"},
	{"site-bundle-delete", "site bundle delete dc1 base@2026.11"},
	{"site-roce-list", "site roce list dc1 --hostname c07u31"},
	{"site-roce-import", "site roce import dc1 testdata/site/roce.csv"},
	{"site-roce-delete", "site roce delete dc1 " + assignmentID},
	{"onboard", "onboard c07u43 --ipmi-ip 10.176.16.128 --site dc1 --sku h200-sxm-baremetal-8g"},
	{
		"onboard-json",
		"onboard c07u43 --ipmi-ip 10.176.16.128 --site dc1 --sku h200-sxm-baremetal-8g --profile default -o json",
	},
	{
		"onboard-csv",
		"onboard --csv testdata/onboard/machines.csv --site dc1 --sku h200-sxm-baremetal-8g --initialize-disks --yes",
	},
	{"onboard-dry-run", "onboard c07u43 --ipmi-ip 10.176.16.128 --site dc1 --sku h200-sxm-baremetal-8g --dry-run"},
	{
		"onboard-csv-dry-run-json",
		"onboard --csv testdata/onboard/machines.csv --site dc1 --sku h200-sxm-baremetal-8g --dry-run -o json",
	},
	{"onboard-watch", "onboard c07u43 --ipmi-ip 10.176.16.128 --site dc1 --sku h200-sxm-baremetal-8g --watch"},
	{"onboard-csv-watch", "onboard --csv testdata/onboard/machines.csv --site dc1 --sku h200-sxm-baremetal-8g --watch"},
	{"onboard-csv-wait", "onboard --csv testdata/onboard/machines.csv --site dc1 --sku h200-sxm-baremetal-8g --wait"},
	{"onboarding-list", "onboarding list --status failed,running --site dc1 --batch " + batchID},
	{"onboarding-show", "onboarding show c07u43"},
	{"onboarding-explain", "onboarding explain c07u43"},
	{"onboarding-explain-json", "onboarding explain " + onboardingID + " -o json"},
	{"onboarding-events", "onboarding events c07u43"},
	{"onboarding-watch", "onboarding watch " + onboardingID},
	{"onboarding-watch-all", "onboarding watch"},
	{"onboarding-watch-json", "onboarding watch --batch " + batchID + " -o json"},
	{"onboarding-stages", "onboarding stages --site dc1"},
	{"onboarding-retry", "onboarding retry c07u43 --reason fixed"},
	{"onboarding-retry-many", "onboarding retry c07u43 " + onboardingID + " --yes --reason together"},
	{"onboarding-resume", "onboarding resume c07u43 --reason fixed"},
	{"onboarding-resume-many", "onboarding resume c07u43 " + onboardingID + " --yes --reason together"},
	{"onboarding-rerun", "onboarding rerun c07u43 --reason fixed"},
	{"onboarding-rerun-many", "onboarding rerun c07u43 " + onboardingID + " --yes --reason together"},
	{"onboarding-restart-clean", "onboarding restart-clean c07u43 --reason suspect --yes"},
	{"onboarding-restart-clean-many", "onboarding restart-clean c07u43 " + onboardingID + " --yes --reason together"},
	{"onboarding-cancel", "onboarding cancel c07u43 --reason broken"},
	{"onboarding-cancel-many", "onboarding cancel c07u43 " + onboardingID + " --yes --reason together"},
	{"onboarding-adopt", "onboarding adopt c07u43 --reason by-hand"},
	{"onboarding-adopt-many", "onboarding adopt c07u43 " + onboardingID + " --yes --reason together"},
	{"onboarding-mark-manual-intervention", "onboarding mark-manual-intervention c07u43 --reason look"},
	{
		"onboarding-mark-manual-intervention-many",
		"onboarding mark-manual-intervention c07u43 " + onboardingID + " --yes --reason together",
	},
	{"onboarding-batch-list", "onboarding batch list"},
	{"onboarding-batch-show", "onboarding batch show " + batchID},
	{"onboarding-batch-pause", "onboarding batch pause " + batchID + " --reason night"},
	{"onboarding-batch-resume", "onboarding batch resume " + batchID + " --reason day"},
	{"onboarding-batch-cancel", "onboarding batch cancel " + batchID + " --reason wrong"},
	{"decommission-start", "decommission start c07u31 --mode soft_reset --reason left --yes"},
	{
		"decommission-start-watch",
		"decommission start c07u31 --mode full_decommission --erase secure --reason left --yes --watch",
	},
	{"decommission-plan", "decommission plan c07u31 --mode reimage"},
	{"decommission-plan-json", "decommission plan c07u31 --mode reimage -o json"},
	{"decommission-list", "decommission list --status failed,running --site dc1 --node c07u31 --batch " +
		decommissionBatchID},
	{"decommission-show", "decommission show c07u31"},
	{"decommission-explain", "decommission explain " + decommissionID},
	{"decommission-events", "decommission events c07u31"},
	{"decommission-evidence", "decommission evidence c07u31"},
	{"decommission-evidence-json", "decommission evidence " + decommissionID + " -o json"},
	{"decommission-stages", "decommission stages"},
	{"decommission-stages-mode", "decommission stages reimage --site dc1"},
	{"decommission-watch", "decommission watch " + decommissionID},
	{"decommission-watch-all", "decommission watch"},
	{"decommission-watch-json", "decommission watch --batch " + decommissionBatchID + " -o json"},
	{"decommission-retry", "decommission retry c07u31 --reason fixed"},
	{"decommission-retry-many", "decommission retry c07u31 " + decommissionID + " --yes --reason together"},
	{"decommission-resume", "decommission resume c07u31 --reason fixed"},
	{"decommission-resume-many", "decommission resume c07u31 " + decommissionID + " --yes --reason together"},
	{"decommission-rerun", "decommission rerun c07u31 --reason fixed"},
	{"decommission-rerun-many", "decommission rerun c07u31 " + decommissionID + " --yes --reason together"},
	{"decommission-restart-clean", "decommission restart-clean c07u31 --reason suspect"},
	{
		"decommission-restart-clean-many",
		"decommission restart-clean c07u31 " + decommissionID + " --yes --reason together",
	},
	{"decommission-cancel", "decommission cancel c07u31 --reason needed"},
	{"decommission-cancel-many", "decommission cancel c07u31 " + decommissionID + " --yes --reason together"},
	{"decommission-adopt", "decommission adopt c07u31 --reason by-hand"},
	{"decommission-adopt-many", "decommission adopt c07u31 " + decommissionID + " --yes --reason together"},
	{"decommission-mark-manual-intervention", "decommission mark-manual-intervention c07u31 --reason look"},
	{
		"decommission-mark-manual-intervention-many",
		"decommission mark-manual-intervention c07u31 " + decommissionID + " --yes --reason together",
	},
	{"decommission-override", "decommission override c07u31 --stage drain_node --residual-risk data --reason dead"},
	{
		"decommission-batch-start",
		"decommission batch start --mode soft_reset --hostname-prefix c07 --skip-ineligible --reason end --yes",
	},
	{"decommission-batch-start-json", "decommission batch start --mode soft_reset --node c07u31 --reason end -o json --yes"},
	{"decommission-batch-start-watch", "decommission batch start --mode soft_reset --status active --reason end --watch --yes"},
	{"decommission-batch-list", "decommission batch list"},
	{"decommission-batch-show", "decommission batch show " + decommissionBatchID},
	{"decommission-batch-pause", "decommission batch pause " + decommissionBatchID + " --reason night"},
	{"decommission-batch-resume", "decommission batch resume " + decommissionBatchID + " --reason fixed"},
	{"decommission-batch-cancel", "decommission batch cancel " + decommissionBatchID + " --reason wrong"},
	{"drift", "drift"},
	{"drift-json", "drift --site dc1 --severity critical --type released --repeated -o json"},
	{"drift-list", "drift list --limit 1"},
	{"drift-show", "drift show c07u31"},
	{"drift-show-json", "drift show " + nodeID + " -o json"},
	{"drift-resolve-acknowledge", "drift resolve c07u31 acknowledge --reason known"},
	{"drift-resolve-return", "drift resolve c07u31 return-to-service --reason repaired"},
	{"drift-resolve-no-wait", "drift resolve c07u31 adopt --reason by-hand --no-wait"},
	{"drift-findings", "drift findings --status present --site dc1 --node c07u31 --since 7d"},
	{"drift-acknowledge", "drift acknowledge " + findingID + " --reason known"},
	{"reconcile", "reconcile --site dc1"},
	{"reconcile-dry-run", "reconcile --site dc1 --dry-run --full --no-wait"},
	{"reconcile-json", "reconcile --site dc1 -o json"},
	{"reconcile-status", "reconcile status"},
	{"reconcile-status-json", "reconcile status -o json"},
	{"reconcile-status-site", "reconcile status --site dc1"},
	{"reconcile-runs", "reconcile runs --site dc1 --trigger operator"},
	{"reconcile-show", "reconcile show " + runID},
	{"reconcile-confirm", "reconcile confirm --site dc1 --reason outage"},
	{"reconcile-dismiss", "reconcile dismiss --site dc1 --reason wrong"},
	{"node-drain", "node drain c07u31 --reason moved --watch"},
	{"node-retire", "node retire c07u31 --reason old --watch --yes"},
	{"node-reactivate", "node reactivate c07u31 --reason back --watch --yes"},
	{"node-remove", "node remove c07u31 --reason gone --watch --yes"},
	{"node-reset", "node reset c07u31 --reason left --watch --yes"},
	{"node-reset-json", "node reset c07u31 --reason left -o json --yes"},
	{"node-reimage", "node reimage c07u31 --erase quick --reason left --watch --yes"},
	{"node-storage-cleanup", "node storage-cleanup c07u31 --scope local --reason full --watch --yes"},
	{"node-add", "node add c07u31 --sku h200-sxm-baremetal-8g --region eu-1 --host 10.20.0.31"},
	{"node-add-json", "node add c07u31 --sku h200-sxm-baremetal-8g --region eu-1 --cloud-init -o json"},
	{"fleet", "fleet"},
	{
		"fleet-json",
		"fleet --site dc1 --region eu-1 --sku h200-sxm-baremetal-8g --search c07 --drift version_drift -o json",
	},
	{"fleet-map", "fleet map --site dc1 --region eu-1"},
	{"fleet-map-json", "fleet map -o json"},
	{"node-list", "node list --status active"},
	{
		"node-list-sorted",
		"node list --status active,offline --site dc1 --search c07 --sort last_agent_contact_at --order desc",
	},
	{"node-list-narrowed", "node list --agent unknown_build --held true --tainted false"},
	{"node-show", "node show c07u31"},
	{"node-show-at", "node show c07u31 --at 2h"},
	{"node-history", "node history " + nodeID},
	{"node-update", "node update c07u31 --agent-version 1.3.0"},
	{"node-label", "node label c07u31 burn-in=done fabric-"},
	{"node-hold", "node hold c07u31 --reason broken-fan"},
	{"node-unhold", "node unhold c07u31"},
	{"node-unhold-one", "node unhold c07u31 --hold complaint --reason replaced"},
	{"node-unhold-none", "node unhold c07u31 --hold repair --reason replaced"},
	{"node-quarantine", "node quarantine c07u31 --reason flaky"},
	{"node-taint", "node taint c07u31 --cause physical_console --reason console"},
	{"node-return", "node return c07u31 --reason repaired"},
	{"node-bootstrap", "node bootstrap c07u31 --recovery"},
	{"node-revoke-identity", "node revoke-identity c07u31 --reason stolen"},
	{"node-hardware", "node hardware c07u31"},
	{"node-accept-hardware", "node accept-hardware c07u31 --claim sha256:9f86 --reason mainboard"},
	{"node-agent", "node agent c07u31"},
	{
		"node-agent-start",
		"node agent start c07u31 --scenario certificate_repair --reason lapsed",
	},
	{"node-agent-runs", "node agent runs c07u31"},
	{"node-agent-run", "node agent run c07u31"},
	{"node-agent-retry", "node agent retry c07u31 --reason idle"},
	{"node-agent-cancel", "node agent cancel c07u31 --reason enough"},
	{"node-task-run", "node task run c07u31 node.validate_clean --reason next"},
	{
		"node-task-run-wait",
		"node task run c07u31 node.validate_clean --param scope=local --param n=3 --reason next --wait",
	},
	{"node-task-list", "node task list --status failed"},
	{"node-task-list-node", "node task list c07u31"},
	{"node-task-get", "node task get " + taskID},
	{"node-task-cancel", "node task cancel " + taskID + " --reason slow"},
	{"node-task-types", "node task types"},
	{"terminal", "terminal c07u31 --user alice"},
	{"terminal-session-list", "terminal-session list --node c07u31 --status open"},
	{"terminal-session-close", "terminal-session close " + sessionID + " --reason left"},
	{"certificate-list", "certificate list --kind certificate"},
	{"certificate-list-node", "certificate list --node c07u31"},
	{"certificate-show", "certificate show " + certificateID},
	{"certificate-show-html", "certificate show " + certificateID + " --format html"},
	{"certificate-keys", "certificate keys"},
	{"certificate-keys-json", "certificate keys -o json"},
	{"sku-list", "sku list --status active"},
	{"sku-get", "sku get h200-sxm-slice"},
	{"sku-create", "sku create h200-sxm-slice --name H200 --vendor nvidia --model H200 --gpus 8 --rented-by slice " +
		"--counts 1,2,4,8 --price-minor 380"},
	{"sku-update", "sku update h200-sxm-slice --price-minor 390 --status disabled"},
	{"sku-delete", "sku delete h200-sxm-slice"},
	{"signer-list", "signer list"},
	{"signer-rotate", "signer rotate --reason yearly --force"},
	{"signer-rollback", "signer rollback --reason wrong"},
	{"signer-revoke", "signer revoke 20260301-093000-5fa3c1 --reason stolen"},
	{"trust-show", "trust show"},
	{"trust-add", "trust add testdata/ca.pem --reason rotation"},
	{"trust-remove", "trust remove " + authorityID + " --reason rotation --force"},
	{"audit-list", "audit list --since 24h --action tenant.create --result success"},
	{"audit-list-wide", "audit list --by all -o wide"},
	{"audit-list-json", "audit list -o json"},
	{"events", "events --type tenant --from 40"},
	{"events-json", "events -o json"},
	{"events-yaml", "events -o yaml"},
	{"outbox-failed", "outbox failed"},
	{"outbox-requeue", "outbox requeue " + eventID},
	{"outbox-discard", "outbox discard " + eventID + " --reason gone"},
	{"self-check-run", "self-check run"},
	{"self-check-run-wait", "self-check run --wait"},
	{"self-check-list", "self-check list --status failed"},
	{"self-check-get", "self-check get " + checkID},
	{"self-check-cancel", "self-check cancel " + checkID + " --reason slow"},
	{"admin-prune", "admin prune --yes"},
	{"admin-prune-dry-run", "admin prune --dry-run"},
	{"admin-prune-dry-run-json", "admin prune --dry-run -o json"},
	{"system-status", "system status"},
	{"system-status-json", "system status -o json"},
	{"system-metrics", "system metrics"},
	{"lifecycle-list", "lifecycle list"},
	{"lifecycle-show", "lifecycle show self_check"},
	{"auth-methods", "auth methods"},
	{"whoami", "whoami"},
	{"version", "version"},
	{"version-json", "version -o json"},
})

// resolving are the operations that turn names into ids, which any command may use.
var resolving = []string{
	"list-tenants", "list-projects", "list-users", "list-service-accounts", "list-tenant-members", "list-project-members",
	"list-maas-sites", "list-site-profiles", "list-power-overrides", "list-nodes", "list-onboardings",
	"list-decommissions",
}

func TestErrands(t *testing.T) {
	called, root := map[string][]string{}, testRoot(t) // by command
	for _, e := range errands {
		t.Run(e.name, func(t *testing.T) {
			f := newFakeAPI(t)
			got := signedIn(t, f).run(strings.Fields(e.args)...)
			golden(t, "output/"+e.name+".golden", "$ gpuaas "+e.args+"\n"+got.stdout+"-- stderr --\n"+got.err+
				"-- exit code --\n"+string(rune('0'+got.exit))+"\n")
			for _, line := range strings.Split(got.stdout, "\n") {
				if strings.TrimRight(line, " ") != line {
					t.Errorf("space at the end of %q", line)
				}
			}
			path := pathOf(t, root, strings.Fields(e.args))
			for _, c := range f.received() {
				called[path] = append(called[path], c.operation)
				checkRequest(t, c)
			}
		})
	}
	for path, declared := range declaredOperations(t) {
		if path == "gpuaas login" || path == "gpuaas logout" { // have tests of their own
			continue
		}
		for _, op := range declared {
			if !slices.Contains(called[path], op) {
				t.Errorf("%s says that it uses %s but no errand shows it", path, op)
			}
		}
		for _, op := range called[path] {
			if !slices.Contains(declared, op) && !slices.Contains(resolving, op) {
				t.Errorf("%s uses %s and does not say so", path, op)
			}
		}
	}
}

func checkRequest(t *testing.T, c received) {
	t.Helper()
	if c.header.Get("Authorization") != "Bearer "+canary || c.header.Get("User-Agent") != "gpuaas/1.2.3" ||
		c.header.Get("X-Correlation-Id") == "" {
		t.Errorf("%s: %v", c.operation, c.header)
	}
	verb, _, _ := strings.Cut(c.operation, "-")
	reading := slices.Contains([]string{"diff", "get", "list", "stream"}, verb)
	if key := c.header.Get("Idempotency-Key"); (key == "") != reading {
		t.Errorf("%s has the key %q", c.operation, key)
	}
	// The terms of an allocation have no version.
	if verb == "update" && c.operation != "update-allocation" && c.header.Get("If-Match") != `"7"` {
		t.Errorf("%s is based on %q", c.operation, c.header.Get("If-Match"))
	}
}
