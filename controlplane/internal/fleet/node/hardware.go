package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	"gpuaas/contract/agentwire"
)

// Mismatch is a field in which a machine differs from the one that the node is
// known to be. Only operators see the known value: a refused machine could
// otherwise repeat it.
type Mismatch struct {
	Field string `json:"field"`
	Known string `json:"known"`
	Said  string `json:"said"` // empty if the machine says nothing about it
}

// Names of the hardware fields, for people.
const (
	FieldUUID          = "system UUID"
	FieldSystemSerial  = "system serial"
	FieldBoardSerial   = "board serial"
	FieldChassisSerial = "chassis serial"
	FieldMACs          = "MAC addresses"
)

// CompareHardware says in which fields a machine differs from the known one. An
// empty result means that nothing contradicts it.
//
// The claim must name every field that is known, and agree in it. Of the MAC
// addresses one must agree, because interfaces come and go. A single agreeing
// field proves little: a machine sends its UUID over the network whenever it asks
// for an address. A filler value that a vendor gives all its machines counts as
// not known, and in a claim as not said.
func CompareHardware(known, said agentwire.Hardware) []Mismatch {
	var wrong []Mismatch
	for _, f := range []struct {
		name        string
		known, said string
		same        func(a, b string) bool
	}{
		{FieldUUID, usableUUID(known.UUID), usableUUID(said.UUID), sameUUID},
		{FieldSystemSerial, usableSerial(known.SystemSerial), usableSerial(said.SystemSerial), strings.EqualFold},
		{FieldBoardSerial, usableSerial(known.BoardSerial), usableSerial(said.BoardSerial), strings.EqualFold},
		{FieldChassisSerial, usableSerial(known.ChassisSerial), usableSerial(said.ChassisSerial), strings.EqualFold},
	} {
		if f.known != "" && !f.same(f.known, f.said) {
			wrong = append(wrong, Mismatch{Field: f.name, Known: f.known, Said: f.said})
		}
	}
	knownMACs, saidMACs := usableMACs(known.MACs), usableMACs(said.MACs)
	common := slices.ContainsFunc(saidMACs, func(m string) bool { return slices.Contains(knownMACs, m) })
	if len(knownMACs) > 0 && !common {
		wrong = append(wrong, Mismatch{Field: FieldMACs, Known: someOf(knownMACs), Said: someOf(saidMACs)})
	}
	return wrong
}

// LearnHardware adds what an admitted machine says to what is known of it.
// Known values stay; only MAC addresses are added, because MAAS lists the
// interfaces of the day on which it looked.
func LearnHardware(known, said agentwire.Hardware) agentwire.Hardware {
	pick := func(usable func(string) string, known, said string) string {
		if k := usable(known); k != "" {
			return k
		}
		return usable(said)
	}
	macs := usableMACs(known.MACs)
	macs = macs[:min(len(macs), maxMACs)]
	for _, m := range usableMACs(said.MACs) {
		if len(macs) < maxMACs && !slices.Contains(macs, m) {
			macs = append(macs, m)
		}
	}
	slices.Sort(macs)
	return agentwire.Hardware{
		UUID:          pick(usableUUID, known.UUID, said.UUID),
		SystemSerial:  pick(usableSerial, known.SystemSerial, said.SystemSerial),
		BoardSerial:   pick(usableSerial, known.BoardSerial, said.BoardSerial),
		ChassisSerial: pick(usableSerial, known.ChassisSerial, said.ChassisSerial),
		MACs:          macs,
	}
}

// Limits of what is kept of a claim: more than any machine has.
const (
	maxMACs   = 256
	maxSerial = 128
)

// identifies says whether h has any field that can be compared.
func identifies(h agentwire.Hardware) bool {
	serials := usableSerial(h.SystemSerial) + usableSerial(h.BoardSerial) + usableSerial(h.ChassisSerial)
	return usableUUID(h.UUID) != "" || serials != "" || len(usableMACs(h.MACs)) > 0
}

// fillerUUIDs are UUIDs that vendors leave in the firmware of all their
// machines.
var fillerUUIDs = []string{
	"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
	"12345678-1234-5678-90ab-cddeefaabbcc", "78563412-3412-7856-90ab-cddeefaabbcc",
	"01234567-8910-1112-1314-151617181920", "fefefefe-fefe-fefe-fefe-fefefefefefe",
}

// usableUUID returns a UUID in its usual form. It returns an empty text if s is
// no UUID or a filler.
func usableUUID(s string) string {
	raw, err := hex.DecodeString(strings.Trim(strings.ReplaceAll(strings.TrimSpace(s), "-", ""), "{}"))
	if err != nil || len(raw) != 16 || oneByte(raw) {
		return ""
	}
	u := fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
	if slices.Contains(fillerUUIDs, u) {
		return ""
	}
	return u
}

func oneByte(raw []byte) bool {
	return !slices.ContainsFunc(raw, func(b byte) bool { return b != raw[0] })
}

// sameUUID accepts both byte orders: firmware before SMBIOS 2.6 swapped the
// bytes of the first three fields, and only some readers correct that.
func sameUUID(a, b string) bool { return a == b || a == swapped(b) }

func swapped(u string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(u, "-", ""))
	if err != nil || len(raw) != 16 {
		return u
	}
	slices.Reverse(raw[:4])
	slices.Reverse(raw[4:6])
	slices.Reverse(raw[6:8])
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

// fillerSerials are what vendors write instead of a serial, in lower case and
// with letters and digits only.
var fillerSerials = []string{
	"none", "null", "unknown", "invalid", "empty", "oem", "tobefilledbyoem", "filledbyoem", "default", "defaultstring",
	"notspecified", "notsettable",
	"notapplicable", "notavailable", "notpresent", "notprovided", "na", "nil", "no", "serial", "serialnumber",
	"systemserialnumber", "systemserialno",
	"baseboardserialnumber", "boardserialnumber", "mbserialnumber", "chassisserialnumber", "chassisserialno",
	"baseboardserialno",
	"0123456789", "123456789", "1234567890", "12345678", "1234567", "123456", "12345", "1234", "abcdefghij", "ffffffff",
	"empty1", "xxxx",
}

// usableSerial returns a serial without the characters in which readers differ.
// It returns an empty text if s is no serial or a filler.
func usableSerial(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, s)), " ")
	letters := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(s))
	if len(letters) < 4 || oneByte([]byte(letters)) || slices.Contains(fillerSerials, letters) || len(s) > maxSerial {
		return ""
	}
	return strings.ToUpper(s)
}

// usableMACs returns the Ethernet addresses of a list, sorted and each once. It
// drops longer ones, such as those of InfiniBand: they change with the driver.
func usableMACs(list []string) []string {
	var out []string
	for _, s := range list {
		mac, err := net.ParseMAC(strings.TrimSpace(s))
		if err != nil || len(mac) != 6 || mac[0]&1 != 0 || oneByte(mac) {
			continue
		}
		out = append(out, mac.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// someOf shows the beginning of a list.
func someOf(list []string) string {
	const most = 8
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// described returns hardware in words, without unknown fields.
func described(h agentwire.Hardware) string {
	var parts []string
	for _, f := range [][2]string{
		{FieldUUID, h.UUID},
		{FieldSystemSerial, h.SystemSerial},
		{FieldBoardSerial, h.BoardSerial},
		{FieldChassisSerial, h.ChassisSerial},
		{FieldMACs, someOf(h.MACs)},
	} {
		if f[1] != "" {
			parts = append(parts, f[0]+" "+f[1])
		}
	}
	if len(parts) == 0 {
		return "nothing usable"
	}
	return strings.Join(parts, ", ")
}

// claimOf returns the digest by which an operator names the claim that they
// have read.
func claimOf(h agentwire.Hardware) (string, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("encode hardware: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// fieldsOf names the fields of mismatches.
func fieldsOf(wrong []Mismatch) string {
	names := make([]string, len(wrong))
	for i, m := range wrong {
		names[i] = m.Field
	}
	return strings.Join(names, ", ")
}

// told describes mismatches for operators.
func told(wrong []Mismatch) string {
	parts := make([]string, len(wrong))
	for i, m := range wrong {
		parts[i] = fmt.Sprintf("its %s is %s, and %s is known", m.Field, m.Said, m.Known)
		if m.Said == "" {
			parts[i] = fmt.Sprintf("it says nothing usable about its %s, which is known", m.Field)
		}
	}
	return strings.Join(parts, "; ")
}
