package rack

import (
	"net/netip"
	"testing"
)

func TestFreeSubnet(t *testing.T) {
	for used, want := range map[string]string{
		"192.168.0.0/16":  "10.213.77.0/24",
		"10.213.77.1/32":  "10.213.78.0/24",
		"10.213.64.0/19":  "10.213.96.0/24",
		"10.213.64.0/18":  "10.213.128.0/24",
		"10.0.0.0/8":      "",
		"::/0":            "10.213.77.0/24",
		"10.213.255.0/24": "10.213.77.0/24",
	} {
		got, err := freeSubnet(77, []netip.Prefix{netip.MustParsePrefix(used)})
		if (err != nil) != (want == "") || want != "" && got.String() != want {
			t.Errorf("with %s in use: %v, %v", used, got, err)
		}
	}
	upper := []netip.Prefix{netip.MustParsePrefix("10.213.128.0/17")}
	if got, err := freeSubnet(200, upper); err != nil || got.String() != "10.213.0.0/24" {
		t.Errorf("with %v in use: %v, %v", upper, got, err)
	}
}
