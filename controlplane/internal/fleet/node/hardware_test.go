package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
)

type hardware = agentwire.Hardware

// server is a machine as MAAS commissioned it.
var server = hardware{
	UUID: "4c4c4544-0042-3510-8052-b4c04f4d3233", SystemSerial: "B5BRM23", BoardSerial: ".B5BRM23.CNFCP0079P00A1.",
	ChassisSerial: "B5BRM23",
	MACs:          []string{"b0:7b:25:aa:00:01", "b0:7b:25:aa:00:02"},
}

// but returns a machine that differs from the server.
func but(change func(h *hardware)) hardware {
	h := server
	h.MACs = slices.Clone(server.MACs)
	change(&h)
	return h
}

func TestCompareHardware(t *testing.T) {
	const everything = "system UUID, system serial, board serial, chassis serial, MAC addresses"
	for name, c := range map[string]struct {
		known, said hardware
		wrong       string // fields, in their order
	}{
		"the machine itself": {server, server, ""},
		"nothing is known":   {hardware{}, server, ""},
		"letters and dashes": {server, but(func(h *hardware) {
			h.UUID, h.SystemSerial = "{4C4C4544-0042-3510-8052-B4C04F4D3233}", " b5brm23 "
			h.MACs = []string{"B0-7B-25-AA-00-01"}
		}), ""},
		"bytes of the UUID swapped by old firmware": {
			server,
			but(func(h *hardware) { h.UUID = "44454c4c-4200-1035-8052-b4c04f4d3233" }), "",
		},
		"the last fields are never swapped": {
			server,
			but(func(h *hardware) { h.UUID = "4c4c4544-0042-3510-5280-b4c04f4d3233" }), "system UUID",
		},
		"another machine": {server, hardware{
			UUID: "4c4c4544-0042-3510-8052-b4c04f4d3299", SystemSerial: "C7XYZ99", BoardSerial: ".C7XYZ99.CNFCP0079P00B2.",
			MACs: []string{"b0:7b:25:bb:00:01"},
		}, everything},
		"another mainboard": {
			server,
			but(func(h *hardware) { h.UUID, h.BoardSerial = "4c4c4544-0042-3510-8052-b4c04f4d3200", ".X." }),
			"system UUID, board serial",
		},
		"all interfaces replaced": {
			server, but(func(h *hardware) { h.MACs = []string{"b0:7b:25:bb:00:01"} }),
			"MAC addresses",
		},
		"one interface replaced": {server, but(func(h *hardware) { h.MACs[1] = "b0:7b:25:bb:00:02" }), ""},
		"an interface that MAAS never saw": {
			server, but(func(h *hardware) { h.MACs = append(h.MACs, "02:42:ac:11:00:02") }),
			"",
		},
		"a neighbour in the same chassis": {
			but(func(h *hardware) { h.ChassisSerial = "CHASSIS7" }),
			hardware{ChassisSerial: "CHASSIS7", MACs: []string{"b0:7b:25:aa:00:01"}},
			"system UUID, system serial, board serial",
		},
		"silence": {server, hardware{}, everything},
		"only interfaces": {
			server,
			hardware{MACs: server.MACs},
			"system UUID, system serial, board serial, chassis serial",
		},
		"only what the network shows": {
			server,
			hardware{UUID: server.UUID, MACs: server.MACs},
			"system serial, board serial, chassis serial",
		},
		"a UUID and nothing else": {
			server,
			hardware{UUID: server.UUID},
			"system serial, board serial, chassis serial, MAC addresses",
		},
		"a serial and nothing else": {
			server,
			hardware{SystemSerial: server.SystemSerial},
			"system UUID, board serial, chassis serial, MAC addresses",
		},
		"no interface": {server, but(func(h *hardware) { h.MACs = nil }), "MAC addresses"},
		"MAAS knows no serial": {
			hardware{UUID: server.UUID, MACs: server.MACs},
			hardware{UUID: server.UUID, MACs: server.MACs[:1]},
			"",
		},
		"nor an interface": {hardware{UUID: server.UUID}, hardware{UUID: server.UUID}, ""},
		"no serial, and another interface": {
			hardware{UUID: server.UUID, MACs: server.MACs},
			hardware{UUID: server.UUID, MACs: []string{"b0:7b:25:bb:00:01"}},
			"MAC addresses",
		},
		"a serial of zeros in MAAS": {
			hardware{UUID: server.UUID, SystemSerial: "0000000", MACs: server.MACs},
			hardware{UUID: server.UUID, MACs: server.MACs},
			"",
		},
		"one serial is enough where MAAS knows one": {
			hardware{UUID: server.UUID, SystemSerial: server.SystemSerial, BoardSerial: "Default string", MACs: server.MACs},
			hardware{UUID: server.UUID, SystemSerial: server.SystemSerial, MACs: server.MACs},
			"",
		},
		"firmware that says nothing": {hardware{MACs: server.MACs}, hardware{MACs: server.MACs[1:]}, ""},
		"and silence about the rest": {hardware{MACs: server.MACs}, hardware{}, "MAC addresses"},
		"a UUID of zeros in MAAS": {
			hardware{UUID: "00000000-0000-0000-0000-000000000000", MACs: server.MACs},
			server, "",
		},
		"a UUID of ones":      {hardware{UUID: strings.Repeat("f", 32), MACs: server.MACs}, server, ""},
		"a UUID not settable": {hardware{UUID: "Not Settable", MACs: server.MACs}, server, ""},
		"a UUID that a vendor gave to all": {
			hardware{UUID: "03000200-0400-0500-0006-000700080009", MACs: server.MACs},
			but(func(h *hardware) { h.MACs = []string{"b0:7b:25:bb:00:09"} }), "MAC addresses",
		},
		"serials to be filled by the vendor": {hardware{
			SystemSerial: "To Be Filled By O.E.M.", BoardSerial: "Default string",
			MACs: server.MACs,
		}, server, ""},
		"serials of MAAS that are unknown": {hardware{
			SystemSerial: "Unknown", BoardSerial: "None",
			ChassisSerial: "0123456789", MACs: server.MACs,
		}, server, ""},
		"serials of the machine": {
			server,
			but(func(h *hardware) { h.SystemSerial, h.ChassisSerial = "System Serial Number", "........" }),
			"system serial, chassis serial",
		},
		"another chassis": {
			server, but(func(h *hardware) { h.ChassisSerial = "D9AAA11" }),
			"chassis serial",
		},
		"interfaces of InfiniBand": {
			hardware{MACs: []string{"80:00:02:08:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:aa:bb:cc"}},
			server, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for _, m := range node.CompareHardware(c.known, c.said) {
				fields = append(fields, m.Field)
				if m.Field == "" || m.Known == "" {
					t.Errorf("%+v does not say what differs", m)
				}
			}
			if got := strings.Join(fields, ", "); got != c.wrong {
				t.Errorf("differs in %q, want %q", got, c.wrong)
			}
		})
	}
}

func TestWhatAMachineSaysIsLearnt(t *testing.T) {
	known := hardware{
		UUID: "Not Settable", SystemSerial: "b5brm23",
		MACs: []string{"B0:7B:25:AA:00:02", "00:00:00:00:00:00"},
	}
	got := node.LearnHardware(known, server)
	if got.UUID != server.UUID || got.SystemSerial != "B5BRM23" || !slices.Equal(got.MACs, server.MACs) {
		t.Errorf("%+v", got)
	}
	if wrong := node.CompareHardware(got, server); len(wrong) > 0 {
		t.Errorf("what was learnt contradicts who said it: %+v", wrong)
	}
}

// A machine that names very many addresses must not push out those by which it is
// known.
func TestAttackManyAddressesPushOutTheKnownOnes(t *testing.T) {
	var many hardware
	for i := range 300 {
		many.MACs = append(many.MACs, fmt.Sprintf("00:00:5e:00:%02x:%02x", i/256, i%256))
	}
	got := node.LearnHardware(server, many)
	if wrong := node.CompareHardware(got, server); len(wrong) > 0 || len(got.MACs) != 256 {
		t.Errorf("%d addresses, %+v", len(got.MACs), wrong)
	}
}

// Whatever a machine says: it matches itself, silence does not match where
// anything is known, and learnt facts go on matching.
func FuzzCompareHardware(f *testing.F) {
	f.Add(server.UUID, server.SystemSerial, server.BoardSerial, server.ChassisSerial, strings.Join(server.MACs, ","), "",
		"", "", "", "")
	f.Add("Not Settable", "None", "", "", "00:16:3e:00:00:01", "\x00", "a\x00b", "é", "  ", "x,y")
	f.Fuzz(func(t *testing.T, u, s, b, c, m, u2, s2, b2, c2, m2 string) {
		known := hardware{UUID: u, SystemSerial: s, BoardSerial: b, ChassisSerial: c, MACs: strings.Split(m, ",")}
		said := hardware{UUID: u2, SystemSerial: s2, BoardSerial: b2, ChassisSerial: c2, MACs: strings.Split(m2, ",")}
		if wrong := node.CompareHardware(known, known); len(wrong) > 0 {
			t.Errorf("a machine is not itself: %+v", wrong)
		}
		learnt := node.LearnHardware(known, hardware{})
		if wrong := node.CompareHardware(learnt, known); len(wrong) > 0 {
			t.Errorf("what was learnt contradicts its source: %+v", wrong)
		}
		if again := node.LearnHardware(learnt, hardware{}); again.UUID != learnt.UUID ||
			again.SystemSerial != learnt.SystemSerial || !slices.Equal(again.MACs, learnt.MACs) {
			t.Errorf("%+v became %+v", learnt, again)
		}
		identifies := learnt.UUID != "" || learnt.SystemSerial+learnt.BoardSerial+learnt.ChassisSerial != "" ||
			len(learnt.MACs) > 0
		if silent := node.CompareHardware(known, hardware{}); identifies != (len(silent) > 0) {
			t.Errorf("silence against %+v: %+v", learnt, silent)
		}
		if len(node.CompareHardware(known, said)) > 0 {
			return
		}
		if wrong := node.CompareHardware(node.LearnHardware(known, said), known); slices.ContainsFunc(wrong,
			func(m node.Mismatch) bool { return m.Said != "" }) {
			t.Errorf("what two agreed on contradicts one of them: %+v", wrong)
		}
		all := node.LearnHardware(said, known) // it says everything that either side says
		if wrong := node.CompareHardware(node.LearnHardware(known, said), all); len(wrong) > 0 {
			t.Errorf("what two agreed on contradicts both: %+v", wrong)
		}
	})
}
