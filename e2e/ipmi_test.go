package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBMC switches a simulated machine from both ends: through the MAAS API, and
// by ipmitool over the network like any administrator.
func TestBMC(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t, "--machines", "2", "--bmc", "ipmi")
	machine := sim.machines(t)[0]
	power := func(word string) string {
		t.Helper()
		host, port, err := net.SplitHostPort(sim.said("BMC " + machine.address))
		if err != nil {
			t.Fatalf("BMC %q: %v\n%s", machine.address, err, sim.output.String())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "ipmitool", "-I", "lanplus", "-H", host, "-p", port, "-U", "root", "-E", "chassis",
			"power", word)
		cmd.Env = append(cmd.Environ(), "IPMI_PASSWORD=calvin")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("ipmitool chassis power %s: %v\n%s", word, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	before := power("status")
	power("on")
	if state := sim.power(t, machine.id); state != "on" {
		t.Errorf("was %q, switched on by ipmitool: MAAS says %s", before, state)
	}
	power("off")
	if state := sim.power(t, machine.id); state != "off" {
		t.Errorf("switched off by ipmitool: MAAS says %s", state)
	}
	sim.end(t, syscall.SIGINT)
}

type simulated struct{ id, address string }

// get asks the region as its administrator.
func (s *simulator) get(t *testing.T, path string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/api/2.0"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Split(s.token, ":")
	r.Header.Set("Authorization", fmt.Sprintf(
		`OAuth oauth_version="1.0", oauth_signature_method="PLAINTEXT", oauth_consumer_key="%s", oauth_token="%s", oauth_signature="%%26%s", oauth_nonce="%d", oauth_timestamp="%d"`,
		key[0], key[1], key[2], time.Now().UnixNano(), time.Now().Unix()))
	answer, err := newHTTP().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func (s *simulator) machines(t *testing.T) []simulated {
	t.Helper()
	var parameters map[string]struct {
		Address string `json:"power_address"`
	}
	s.get(t, "/machines/?op=power_parameters", &parameters)
	var out []simulated
	for id, p := range parameters {
		out = append(out, simulated{id: id, address: p.Address})
	}
	if len(out) != 2 {
		t.Fatal("there are " + strconv.Itoa(len(out)) + " machines")
	}
	return out
}

func (s *simulator) power(t *testing.T, id string) string {
	t.Helper()
	var state struct {
		State string `json:"state"`
	}
	s.get(t, "/machines/"+id+"/?op=query_power_state", &state)
	return state.State
}
