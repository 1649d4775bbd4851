package onboarding_test

import (
	"maps"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/onboarding"
)

func TestMachinesOfOnboardingsUnderWayAreClaimed(t *testing.T) {
	y := newYard(t)
	first, second, ended, blank := y.request(t, 1), y.request(t, 2), y.request(t, 3), y.request(t, 4)
	for job, machine := range map[id.Onboarding]string{first.ID: "aaa111", second.ID: "bbb222", ended.ID: "ccc333"} {
		y.exec(t, "UPDATE node_onboardings SET maas_system_id = $2 WHERE id = $1", job, machine)
	}
	y.exec(t, "UPDATE node_onboardings SET status = 'cancelled', completed_at = now() WHERE id = $1", ended.ID)
	twin := id.New[id.Site]() // another site of the same MAAS
	y.exec(t, "INSERT INTO maas_sites SELECT (jsonb_populate_record(s, jsonb_build_object('id', $1::text, 'name', 'twin'))).* FROM maas_sites s WHERE id = $2", twin, y.site.ID)
	claims := onboarding.Claims{DB: y.db}
	for name, c := range map[string]struct {
		site   id.Site
		except id.Onboarding
		want   map[string]string
	}{
		"by two others": {
			site: y.site.ID, except: blank.ID,
			want: map[string]string{"aaa111": first.ID.String(), "bbb222": second.ID.String()},
		},
		"at a site of the same": {site: twin, except: first.ID, want: map[string]string{"bbb222": second.ID.String()}},
		"not by oneself":        {site: y.site.ID, except: first.ID, want: map[string]string{"bbb222": second.ID.String()}},
		"not at another region": {site: id.New[id.Site](), except: first.ID, want: map[string]string{}},
	} {
		got, err := claims.ClaimedMachines(t.Context(), c.site, c.except.String())
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v %v, want %v", name, got, err, c.want)
		}
	}
	if _, err := claims.ClaimedMachines(t.Context(), y.site.ID, "nobody"); err == nil {
		t.Error("nobody may ask")
	}
}
