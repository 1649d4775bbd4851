package maas_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
)

func form(pairs ...string) url.Values {
	f := url.Values{}
	for n := 0; n+1 < len(pairs); n += 2 {
		f.Add(pairs[n], pairs[n+1])
	}
	return f
}

func TestOperationsBeyondTheRecording(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(3, "ready"), Images: []string{"custom/gpuaas-h200"}})
	ids := c.region.SystemIDs()
	nic := "/nodes/" + ids[0] + "/interfaces/" + strconv.Itoa(c.machine(ids[0]).Interfaces[0].ID) + "/"
	disk := "/nodes/" + ids[0] + "/blockdevices/" + strconv.Itoa(c.machine(ids[0]).Physical[1].ID) + "/"
	link := strconv.Itoa(c.machine(ids[0]).Interfaces[0].Links[0].ID)
	for _, tt := range []struct {
		method, path string
		form         url.Values
		status       int
		body         string
	}{
		{"GET", "/users/?op=whoami", nil, 200, `"is_superuser": true`},
		{"GET", "/nodes/?hostname=gpu-00002", nil, 200, ids[1]},
		{"GET", "/machines/?id=" + ids[2] + "&id=" + ids[0] + "&id=nobody", nil, 200, ids[0]},
		{"GET", "/machines/?not_id=" + ids[0] + "&pool=default&tags=gpu-h200", nil, 200, ids[1]},
		{"GET", "/machines/?tags=nope", nil, 400, `No such tag(s): 'nope'.`},
		{"GET", "/machines/?mem=much", nil, 400, "number required"},
		{"GET", "/machines/?op=power_parameters&id=" + ids[0], nil, 200, `"calvin"`},
		{"GET", "/machines/?op=list_allocated", nil, 200, "[]"},
		{"POST", "/machines/?op=accept", form("machines", ids[0]), 200, "[]"},
		{"POST", "/machines/?op=release", form("machines", ids[0]), 200, "[]"},
		{"POST", nic + "?op=unlink_subnet", form("id", link), 200, `"mode": "link_up"`},
		{"POST", nic + "?op=link_subnet", form("mode", "dhcp"), 200, `"mode": "dhcp"`},
		{"POST", nic + "?op=link_subnet", form("mode", "dhcp"), 400, "already set to DHCP"},
		{
			"POST", nic + "?op=link_subnet", form("mode", "static", "subnet", "cidr:10.20.0.0/16", "force", "yes"), 200,
			`"ip_address": "10.20.0.3"`,
		},
		{"POST", nic + "?op=set_default_gateway", form(), 200, `"mode": "static"`},
		{"PUT", nic, form("name", "a-name-too-long-for-linux"), 400, "at most 15"},
		{"PUT", nic, form("vlan", "1"), 400, "not one of the available"},
		{"PUT", nic, form("mtu", "12"), 400, "between 552 and 65535"},
		{"PUT", nic, form("mtu", "9000"), 200, `"effective_mtu": 9000`},
		{"GET", nic, nil, 200, `"eno8303"`},
		{"GET", "/nodes/" + ids[0] + "/interfaces/9999/", nil, 404, "No Interface matches"},
		{"GET", "/nodes/" + ids[0] + "/interfaces/x/", nil, 404, "No Interface matches"},
		{"GET", disk, nil, 200, `"firmware_version": "2.0.2"`},
		{"POST", disk + "?op=add_tag", form("tag", "scratch"), 200, `"scratch"`},
		{"POST", disk + "?op=remove_tag", form("tag", "scratch"), 200, `"ssd"`},
		{"POST", disk + "?op=set_boot_disk", form(), 200, "OK"},
		{"POST", "/machines/" + ids[0] + "/?op=set_storage_layout", form("storage_layout", "lvm"), 200, `"vgroot-lvroot"`},
		{"POST", "/machines/" + ids[0] + "/?op=restore_default_configuration", form(), 200, ids[0]},
		{"GET", "/subnets/name:pxe/", nil, 200, `"10.20.0.0/16"`},
		{"POST", "/subnets/", form("cidr", "10.50.0.0/24", "name", "roce", "gateway_ip", "10.50.0.1"), 200, `"roce"`},
		{"POST", "/subnets/", form("cidr", "nonsense"), 400, "Required format"},
		{"GET", "/subnets/cidr:10.50.0.0%2F24/", nil, 200, `"roce"`},
		{"DELETE", "/subnets/name:roce/", nil, 204, ""},
		{"PUT", "/fabrics/0/vlans/0/", form("mtu", "9000"), 200, `"mtu": 9000`},
		{"PUT", "/vlans/5001/", form("mtu", "1"), 400, "MTU must be"},
		{"GET", "/fabrics/0/", nil, 200, `"fabric-0"`},
		{"GET", "/fabrics/7/vlans/", nil, 404, "No Fabric matches"},
		{"GET", "/boot-resources/?type=uploaded", nil, 200, `"gpuaas-h200"`},
		{"GET", "/boot-resources/1/", nil, 200, `"sets"`},
		{"POST", "/boot-resources/", form("name", "custom/other", "architecture", "amd64/generic", "sha256", "0", "size",
			"5"), 201, `"name": "other"`},
		{"GET", "/nodes/" + ids[0] + "/results/", nil, 200, "[]"},
		{"GET", "/nodes/" + ids[0] + "/results/current-commissioning/", nil, 404, "No ScriptSet matches"},
		{"POST", "/account/?op=create_authorisation_token", form("name", "x"), 200, "consumer_key"},
		{"POST", "/machines/" + ids[0] + "/op-lock", form(), 409, "Can't lock"},
		{"GET", "/machines/?op=", nil, 200, ids[0]},
		{"POST", "/machines/" + ids[1] + "/?op=rescue_mode", form(), 200, "Entering rescue mode"},
		{"POST", "/machines/" + ids[2] + "/?op=test", form(), 200, "Testing"},
		{"POST", "/machines/?op=accept", form("machines", ids[1]), 409, "Cannot accept node enlistment"},
		{"POST", "/machines/?op=release", form("machines", ids[1]), 409, "cannot be released in their current state: " +
			ids[1]},
	} {
		a := c.call(tt.method, tt.path, tt.form)
		if a.status != tt.status || !strings.Contains(a.body, tt.body) {
			t.Errorf("%s %s: %d %.300s", tt.method, tt.path, a.status, a.body)
		}
	}
	c.clock.Advance(time.Second)
	c.expect(ids[1], region.RescueMode)
	c.expect(ids[2], region.Ready)
	c.op(ids[1], "exit_rescue_mode", nil)
	c.clock.Advance(time.Second)
	c.expect(ids[1], region.Ready)
}

func TestAPlainUserSeesLess(t *testing.T) {
	c := start(t, maas.Options{Fleet: fleet.Options{Machines: 2}})
	ids := c.region.SystemIDs()
	c.ok("POST", "/machines/?op=allocate", form("system_id", ids[0]))
	as := func(method, path string, f url.Values) answer {
		return send(t, method, c.region.URL+"/api/2.0"+path, f, signature(c.region.OperatorToken, c.clock.Now(), ""))
	}
	if a := as("GET", "/machines/", nil); strings.Contains(a.body, ids[0]) || !strings.Contains(a.body, ids[1]) {
		t.Errorf("list %.200s", a.body)
	}
	if a := as("POST", "/machines/?op=allocate", form("system_id", ids[1])); a.status != 200 ||
		!strings.Contains(a.body, `"owner": "operator"`) {
		t.Errorf("allocate: %d", a.status)
	}
	if a := as("POST", "/machines/"+ids[0]+"/?op=release", form()); a.status != 403 {
		t.Errorf("release of another's machine: %d", a.status)
	}
	if a := as("POST", "/machines/?op=accept", form("machines", ids[1])); a.status != 403 {
		t.Errorf("accept: %d", a.status)
	}
	if a := as("GET", "/events/?op=query&level=DEBUG", nil); strings.Contains(a.body, ids[0]) {
		t.Error("events of another's machine")
	}
}

func TestMultipartFormsAreRead(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "ready")})
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.WriteField("system_id", c.region.SystemIDs()[0]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.region.URL+"/api/2.0/machines/?op=allocate", &b)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", w.FormDataContentType())
	q.Header.Set("Authorization", signature(c.region.Token, c.clock.Now(), ""))
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	p.Body.Close()
	if p.StatusCode != http.StatusOK {
		t.Errorf("answered %d", p.StatusCode)
	}
}

// Many callers ask at once: each machine is given to exactly one.
func TestOneMachineIsGivenToOneCaller(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(8, "ready")})
	var wg sync.WaitGroup
	won := make(chan string, 64)
	for n := range 32 {
		header := signature(c.region.Token, c.clock.Now(), fmt.Sprintf("many%d", n))
		wg.Go(func() {
			a := send(t, "POST", c.region.URL+"/api/2.0/machines/?op=allocate", form("tags", "gpu-h200"), header)
			var m region.MachineDoc
			if a.status == http.StatusOK && json.Unmarshal([]byte(a.body), &m) == nil {
				won <- m.SystemID
			}
		})
	}
	wg.Wait()
	close(won)
	seen := map[string]bool{}
	for id := range won {
		if seen[id] {
			t.Errorf("%s was given twice", id)
		}
		seen[id] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d machines were given", len(seen))
	}
}
