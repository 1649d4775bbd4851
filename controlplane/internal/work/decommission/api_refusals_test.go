package decommission_test

import (
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
)

func TestBadRequestsBeginNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	free, manual, retired, busy := d.node(t, node.Active, true), d.node(t, node.Active, false),
		d.node(t, node.Retired, true), d.node(t, node.Active, true)
	owner := d.request(t, busy, decommission.SoftReset)
	d.exec(t, `UPDATE maas_site_profiles SET minimum_erase = 'quick' WHERE id = $1`, d.profile)
	before := d.count(t, `SELECT count(*) FROM node_decommissions`)
	why := func(more object) object {
		more["reason"] = "r"
		return more
	}
	for name, c := range map[string]struct {
		node   id.Node
		path   string
		body   object
		status int
		code   string
		says   []string
	}{
		"unknown node": {
			id.New[id.Node](), "decommission", why(object{"mode": "soft_reset"}), 404, "node_not_found",
			nil,
		},
		"unknown node, plan": {
			id.New[id.Node](), "decommission/plan",
			object{"mode": "soft_reset"},
			404, "node_not_found",
			nil,
		},
		"unknown node, step": {id.New[id.Node](), "drain", why(object{}), 404, "node_not_found", nil},
		"no reason": {
			free, "decommission",
			object{"mode": "soft_reset"},
			422, "validation_error",
			[]string{"reason"},
		},
		"empty reason": {free, "drain", object{"reason": ""}, 422, "validation_error", []string{"body.reason"}},
		"blank reason": {free, "drain", object{"reason": "  "}, 422, "validation_error", []string{"must say why"}},
		"unknown mode": {
			free, "decommission", why(object{"mode": "explode"}), 422, "validation_error",
			[]string{"body.mode"},
		},
		"a step as a mode": {
			free, "decommission", why(object{"mode": "drain"}), 422, "validation_error",
			[]string{"body.mode"},
		},
		"unknown erase": {
			free, "decommission", why(object{"mode": "reimage", "erase": "shred"}), 422, "validation_error",
			[]string{"body.erase"},
		},
		"unknown field": {
			free, "decommission", why(object{"mode": "reimage", "force": true}), 422, "validation_error",
			[]string{"body.force"},
		},
		"erase, no release": {
			free, "decommission", why(object{"mode": "soft_reset", "erase": "quick"}), 422,
			"validation_error",
			[]string{"body.erase", "only a release in MAAS erases disks"},
		},
		"cleanup, released": {
			free, "decommission", why(object{"mode": "full_decommission", "storage_cleanup": "local"}), 422, "validation_error",
			[]string{"body.storage_cleanup", "cleans no storage through the agent"},
		},
		"cleans nothing": {
			free, "storage-cleanup", why(object{"scope": "none"}), 422, "validation_error",
			[]string{"body.scope"},
		},
		"plan that clashes": {
			free, "decommission/plan",
			object{"mode": "drain", "erase": "quick"},
			422, "validation_error",
			[]string{"body.erase"},
		},
		"busy": {
			busy, "decommission", why(object{"mode": "reimage"}), 409, "node_busy",
			[]string{owner.ID.String(), "soft_reset", "gpuaas decommission explain"},
		},
		"busy, step": {busy, "drain", why(object{}), 409, "node_busy", []string{owner.ID.String()}},
		"busy, other terms": {
			busy, "decommission", why(object{"mode": "soft_reset", "storage_cleanup": "none"}), 409,
			"node_busy",
			[]string{owner.ID.String()},
		},
		"retired": {
			retired, "decommission", why(object{"mode": "soft_reset"}), 409, "node_state_conflict",
			[]string{"is retired", "gpuaas node reactivate"},
		},
		"not retired": {
			free, "remove", why(object{}), 409, "node_state_conflict",
			[]string{"is active", "gpuaas node retire"},
		},
		"active":      {free, "reactivate", why(object{}), 409, "node_state_conflict", []string{"is active"}},
		"not in MAAS": {manual, "decommission", why(object{"mode": "reimage"}), 409, "node_not_in_maas", nil},
		"below policy": {
			free, "decommission", why(object{"mode": "reimage", "erase": "none"}), 409, "erase_below_policy",
			[]string{"at least quick", "minimum_erase"},
		},
		"stale plan": {
			free, "decommission", why(object{"mode": "soft_reset", "plan_hash": "abc"}), 409, "plan_stale",
			[]string{"plan again"},
		},
		"stale cleanup": {free, "storage-cleanup", why(object{"scope": "local", "plan_hash": "abc"}), 409, "plan_stale", nil},
	} {
		t.Run(name, func(t *testing.T) {
			d.call(t, http.MethodPost, "nodes/"+c.node.String()+"/"+c.path, c.body).Refused(t, c.status, c.code, c.says...)
		})
	}
	if n := d.count(t, `SELECT count(*) FROM node_decommissions`); n != before {
		t.Errorf("%d rows were written", n-before)
	}
}
