package cli

import (
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
)

func TestSiteBodies(t *testing.T) {
	for args, want := range map[string]string{
		"site update dc1 --pxe-vlan 0 --ca-file=": `{"ca_certificate":"","pxe_vlan_vid":0}`,
		"site disable dc1":                        `{"status":"disabled"}`,
		"site enable dc1":                         `{"status":"active"}`,
		"site credentials set dc1 --maas-token-file testdata/site/maas-token":           `{"api_token":"consumer:token:secret"}`,
		"site credentials set dc1 --power-file testdata/site/bmc":                       `{"power":{"pass":"calvin","user":"root"}}`,
		"site credentials set dc1 --deploy-password-file -":                             `{"deploy_password":"from stdin: kept as it is "}`,
		"site profile set dc1 default batch_max_parallel=4 require_hw_sync=false":       `{"batch_max_parallel":4,"require_hw_sync":false}`,
		"site profile set dc1 lxd description=a=b":                                      `{"description":"a=b","name":"lxd"}`,
		"site power-override set dc1 --hostname c07u31 --disable":                       `{"status":"disabled"}`,
		"site power-override set dc1 --ipmi-ip 10.0.0.7 --power-file testdata/site/bmc": `{"pass":"calvin","selector_type":"ipmi_ip","selector_value":"10.0.0.7","user":"root"}`,
		"site roce import dc1 testdata/site/roce.csv":                                   `{"items":[{"hostname":"c07u31","interface":"enp28s0np0","ipv4_cidr":"172.30.9.61/31","mtu":9000},{"hostname":"c07u31","interface":"enp29s0np0","ipv4_cidr":"172.29.1.219/31"}]}`,
	} {
		f := newFakeAPI(t)
		b := signedIn(t, f)
		b.in = "from stdin: kept as it is \r\n"
		if got := b.run(strings.Fields(args)...); got.exit != failure.OK {
			t.Errorf("%s: %v", args, got)
			continue
		}
		calls := f.received()
		if got := calls[len(calls)-1].body; got != want {
			t.Errorf("%s: sent %s, want %s", args, got, want)
		}
	}
}

// What is wrong with a call is said before anything is sent.
func TestSiteMisuse(t *testing.T) {
	for _, args := range []string{
		"site create dc1", "site update dc1", "site get", "site credentials set dc1",
		"site credentials set dc1 --power-file testdata/site/maas-token-absent",
		"site credentials set dc1 --power-file testdata/site/deploy-password",
		"site credentials set dc1 --maas-token-file - --power-file -",
		"site credentials set dc1 --maas-token-file testdata/site/roce.csv", "site profile set dc1 default",
		"site profile set dc1 default nonsense=1",
		"site profile set dc1 default require_hw_sync=perhaps", "site profile set dc1 default batch_max_parallel=many",
		"site power-override set dc1 --power-file testdata/site/bmc",
		"site power-override set dc1 --hostname a --ipmi-ip 10.0.0.1 --power-file testdata/site/bmc",
		"site power-override set dc1 --hostname a", "site power-override get dc1 x", "site power-override resolve dc1",
		"site roce delete dc1 x",
		"site roce import dc1 testdata/site/absent.csv", "site roce import dc1 testdata/site/bmc",
	} {
		f := newFakeAPI(t)
		got := signedIn(t, f).run(strings.Fields(args)...)
		if got.exit != failure.Usage {
			t.Errorf("%s: %v", args, got)
		}
		for _, c := range f.received() {
			if !strings.HasPrefix(c.operation, "list-") {
				t.Errorf("%s: %s was called", args, c.operation)
			}
		}
		if strings.Contains(got.err, "deploy-me") || strings.Contains(got.err, "consumer:token") {
			t.Errorf("%s: the secret is shown: %s", args, got.err)
		}
	}
	f := newFakeAPI(t)
	if got := signedIn(t, f).run("site", "get", "other"); got.exit != failure.NotFound {
		t.Error(got)
	}
	if got := signedIn(t, f).run("site", "profile", "get", "dc1", "other"); got.exit != failure.NotFound {
		t.Error(got)
	}
}

// A site that nodes need is only disabled, and nobody is told otherwise.
func TestDeletingASiteSaysWhatBecameOfIt(t *testing.T) {
	f := newFakeAPI(t)
	if got := signedIn(t, f).run("site", "delete", "dc1"); got.exit != failure.OK ||
		!strings.Contains(got.err, "is disabled, not deleted") {
		t.Error(got)
	}
	f.on("get-maas-site", answer(404, `{"status":404,"code":"not_found","title":"Not Found","type":"about:blank"}`))
	if got := signedIn(t, f).run("site", "delete", "dc1"); got.exit != failure.OK ||
		!strings.Contains(got.err, "is deleted") {
		t.Error(got)
	}
}

func TestDoctorOfAHealthySite(t *testing.T) {
	f := newFakeAPI(t)
	f.on("probe-maas-site", answer(200, healthyJSON))
	if got := signedIn(t, f).run("site", "doctor", "dc1"); got.exit != failure.OK ||
		!strings.HasPrefix(got.stdout, "✓ reachable") || strings.Contains(got.stdout, "✗") {
		t.Error(got)
	}
}

func TestReadRoCE(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		rows int
		want string // part of the error
	}{
		"plain":           {"hostname,interface,ipv4_cidr\na,e0,10.0.0.1/24\n", 1, ""},
		"other order":     {"ipv4_cidr, Interface ,HOSTNAME\n10.0.0.1/24,e0,a\n", 1, ""},
		"byte order mark": {"\ufeffhostname,interface,ipv4_cidr\r\na,e0,10.0.0.1/24\r\n", 1, ""},
		"quoted":          {"hostname,interface,ipv4_cidr\n\"a\",\"e0\",\"10.0.0.1/24\"\n", 1, ""},
		"empty":           {"", 0, "names of the columns"},
		"no rows":         {"hostname,interface,ipv4_cidr\n", 0, "no rows"},
		"no header":       {"a,e0,10.0.0.1/24\n", 0, `there is no column "a"`},
		"missing column":  {"hostname,interface\na,e0\n", 0, "ipv4_cidr is missing"},
		"twice":           {"hostname,hostname,ipv4_cidr\na,a,10.0.0.1/24\n", 0, "twice"},
		"short row":       {"hostname,interface,ipv4_cidr\na,e0\n", 0, "wrong number of fields"},
		"all lines told": {
			"hostname,interface,ipv4_cidr,mtu\na,e0,10.0.0.1,\n,e0,10.0.0.1/24,\na,e1,10.0.0.2/24,100\n", 0,
			"line 4",
		},
		"same interface": {
			"hostname,interface,ipv4_cidr\nA,e0,10.0.0.1/24\na,e0,10.0.0.2/24\n", 0,
			"line 3: e0 of a is in line 2 already",
		},
		"IPv6": {"hostname,interface,ipv4_cidr\na,e0,fd00::1/64\n", 0, "line 2"},
	} {
		rows, err := readRoCE(strings.NewReader(c.in))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil &&
			len(rows) != c.rows {
			t.Errorf("%s: %v, %v", name, rows, err)
		}
	}
}

func FuzzReadRoCE(f *testing.F) {
	f.Add("hostname,interface,ipv4_cidr,mtu\na,e0,10.0.0.1/24,9000\n")
	f.Add("hostname,interface,ipv4_cidr\n\"\n")
	f.Fuzz(func(t *testing.T, in string) {
		rows, err := readRoCE(strings.NewReader(in))
		for _, r := range rows {
			if err == nil && (r.Hostname == "" || r.Interface == "" || !strings.Contains(r.Ipv4Cidr, "/")) {
				t.Errorf("accepted %+v", r)
			}
		}
	})
}
