package sanitize

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"gpuaas/contract/agentwire"
)

// nvme imitates the admin commands of an NVMe device over a real loop device.
// It reads commands as the kernel does: as bytes at their offsets.
type nvme struct {
	*loop
	t          *testing.T
	controller [identifySize]byte
	space      [identifySize]byte
	spaces     []uint32 // of the subsystem
	refuse     []uint8  // opcodes that are answered with a status
	refuseAct  uint32   // a sanitize action that is
	lies       bool
	status     uint16
	polls      int // how often it still says that it runs
	calls      []string
}

func newNVMe(t *testing.T, sanicap uint32, fna uint8) *nvme {
	n := &nvme{loop: newLoop(t, diskSize).open(t), t: t, spaces: []uint32{1}, polls: 3}
	binary.LittleEndian.PutUint32(n.controller[328:], sanicap)
	binary.LittleEndian.PutUint16(n.controller[256:], 1<<1)
	n.controller[524] = fna
	n.space[26] = 0x20 | 0x10 | 0x2 // format 18 with metadata at the end of blocks
	n.space[29] = 0x8 | 0x1         // protection of type 1, in the first bytes
	return n
}

func (*nvme) NVMe() bool                   { return true }
func (*nvme) NamespaceID() (uint32, error) { return 1, nil }

func (n *nvme) Admin(c *NVMeCommand, data []byte) error {
	if unsafe.Sizeof(*c) != 72 {
		n.t.Fatalf("the command has %d bytes", unsafe.Sizeof(*c))
	}
	raw := (*[72]byte)(unsafe.Pointer(c))
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(raw[at:]) }
	opcode, nsid, cdw10 := raw[0], word(4), word(40)
	if word(64) == 0 {
		n.t.Errorf("command %#x has no time limit", opcode)
	}
	if slices.Contains(n.refuse, opcode) {
		return NVMeError(0x4001)
	}
	switch opcode {
	case 0x06:
		return n.identifies(cdw10, data)
	case 0x02:
		if cdw10 != 0x007f0081 || nsid != 0xffffffff || len(data) != 512 {
			n.t.Errorf("log page %#x of %#x, %d bytes", cdw10, nsid, len(data))
		}
		n.log(data)
	case 0x84:
		return n.sanitize(cdw10)
	case 0x80:
		n.calls = append(n.calls, "format")
		if want := uint32(0x1<<12 | 0x1<<8 | 0x1<<5 | 0x10 | 0x2); nsid != 1 || cdw10&^(7<<9) != want || word(64) < 3600_000 {
			n.t.Errorf("format %#x of %d, want %#x", cdw10, nsid, want)
		}
		n.scramble(cdw10>>9&7 == 2)
	default:
		n.t.Errorf("command %#x", opcode)
	}
	return nil
}

func (n *nvme) identifies(what uint32, data []byte) error {
	switch what {
	case 0:
		copy(data, n.space[:])
	case 1:
		copy(data, n.controller[:])
	case 2, 0x10:
		shown := n.spaces
		if what == 2 {
			shown = shown[:1] // this controller shows only its own
		}
		for i, s := range shown {
			binary.LittleEndian.PutUint32(data[4*i:], s)
		}
	}
	return nil
}

func (n *nvme) log(data []byte) {
	if n.status == sanitizeRunning {
		if n.polls--; n.polls <= 0 {
			n.status = sanitizeDone
		}
	}
	binary.LittleEndian.PutUint16(data, 0x8000) // half
	binary.LittleEndian.PutUint16(data[2:], n.status|1<<8)
}

func (n *nvme) sanitize(cdw10 uint32) error {
	if cdw10&7 == n.refuseAct {
		return NVMeError(0x2)
	}
	if cdw10&^7 != 0 {
		n.t.Errorf("sanitize with %#x", cdw10)
	}
	n.calls = append(n.calls, map[uint32]string{2: "block", 4: "crypto"}[cdw10])
	n.status = sanitizeRunning
	n.scramble(cdw10 == 4)
	return nil
}

// scramble makes everything random, as a new key does, or sets every bit, as in
// erased cells.
func (n *nvme) scramble(crypto bool) {
	if n.lies {
		return
	}
	p, free, err := buffer(mebi)
	if err != nil {
		n.t.Fatal(err)
	}
	defer free()
	for at := int64(0); at < n.Size(); at += mebi {
		if randomBytes(p); !crypto {
			for i := range p {
				p[i] = 0xff
			}
		}
		if _, err := n.WriteAt(p[:min(mebi, n.Size()-at)], at); err != nil {
			n.t.Fatal(err)
		}
	}
}

func TestNVMeMethods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sanicap uint32
		fna     uint8
		change  func(*nvme)
		method  Method
		calls   string
		reason  []string
	}{
		"crypto": {3, 4, nil, NVMeSanitizeCrypto, "crypto", nil},
		"block": {
			2, 4, nil, NVMeSanitizeBlock, "block",
			[]string{"nvme_sanitize_crypto_erase is not supported"},
		},
		"crypto is refused": {
			3, 4, func(n *nvme) { n.refuseAct = 4 }, NVMeSanitizeBlock, "block",
			[]string{"nvme_sanitize_crypto_erase: start sanitizing: the device answered with status 0x2"},
		},
		"sanitize is refused": {
			3, 4, func(n *nvme) { n.refuse = []uint8{0x84} }, NVMeFormatCrypto, "format",
			[]string{"status 0x4001"},
		},
		"format crypto": {0, 4, nil, NVMeFormatCrypto, "format", nil},
		"format": {
			0, 0, nil, NVMeFormatUserData, "format",
			[]string{"nvme_format_crypto_erase is not supported"},
		},
		"format is refused": {
			0, 4, func(n *nvme) { n.refuse = []uint8{0x80} }, ZeroOut, "",
			[]string{"nvme_format_crypto_erase: format:", "nvme_format_user_data_erase: format:", "secure_discard"},
		},
		"no format": {
			0, 4, func(n *nvme) { n.controller[256] = 0 }, ZeroOut, "",
			[]string{"nvme_format_user_data_erase is not supported"},
		},
		"hidden namespaces": {
			3, 4, func(n *nvme) { n.controller[256] |= 1 << 3; n.spaces = []uint32{1, 2} }, NVMeFormatCrypto, "format",
			[]string{"nvme_sanitize_block_erase would erase other namespaces"},
		},
		"erase of all namespaces": {
			3, 4 | 2, func(n *nvme) { n.controller[256] |= 1 << 3; n.spaces = []uint32{1, 2} }, ZeroOut, "",
			[]string{"nvme_format_crypto_erase would erase other namespaces"},
		},
		"silent controller": {
			3, 4, func(n *nvme) { n.refuse = []uint8{0x06} }, ZeroOut, "",
			[]string{"does not say what it can do"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNVMe(t, c.sanicap, c.fna)
			if c.change != nil {
				c.change(n)
			}
			e := sanitized(t, n, Choose(n, true, "")).Evidence
			if e.Method != string(c.method) || e.Level != c.method.Level() || strings.Join(n.calls, " ") != c.calls {
				t.Errorf("calls %v, evidence %+v", n.calls, e)
			}
			by := agentwire.VerifiedByAbsence
			if c.method == ZeroOut {
				by = agentwire.VerifiedByZeroes
			}
			if e.Outcome != agentwire.OutcomeSanitized || !e.Verified || e.VerifiedBy != by {
				t.Errorf("evidence %+v", e)
			}
			has(t, e.Reason, c.reason...)
		})
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	purge := []Method{NVMeSanitizeCrypto, NVMeSanitizeBlock, NVMeFormatCrypto}
	for m := range traits {
		if want := slices.Contains(purge, m); (m.Level() == agentwire.LevelPurge) != want {
			t.Errorf("%s is %s", m, m.Level())
		}
	}
	n := newNVMe(t, 3, 4)
	if p := Choose(n, true, agentwire.LevelPurge); !slices.Equal(p.Methods, purge) ||
		p.Refusal(agentwire.LevelPurge) != "" {
		t.Errorf("plan %+v", p)
	}
	for name, p := range map[string]Plan{
		"part":        Choose(n, false, agentwire.LevelPurge),
		"not NVMe":    Choose(n.loop, true, agentwire.LevelPurge),
		"cannot":      Choose(newNVMe(t, 0, 0), true, agentwire.LevelPurge),
		"only format": Choose(newNVMe(t, 0, 0), true, agentwire.LevelPurge),
	} {
		if why := p.Refusal(agentwire.LevelPurge); len(p.Methods) > 0 ||
			!strings.Contains(why, "overwrite_zeroes would only be clear") {
			t.Errorf("%s: %v, %q", name, p.Methods, why)
		}
	}
}

// If the wanted level is refused, no lower one is used instead.
func TestNoSilentDowngrade(t *testing.T) {
	n := newNVMe(t, 3, 0)
	n.refuse = []uint8{0x84}
	e := sanitized(t, n, Choose(n, true, agentwire.LevelPurge)).Evidence
	if e.Outcome != agentwire.OutcomeFailed || e.Method != "" || e.Level != "" {
		t.Errorf("evidence %+v", e)
	}
	has(t, e.Reason, "nvme_sanitize_crypto_erase:", "nvme_sanitize_block_erase:", "no method")
}

func TestAnNVMeDeviceThatLiesFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sanicap uint32
		fna     uint8
	}{{1, 0}, {2, 0}, {0, 4}, {0, 0}} {
		n := newNVMe(t, c.sanicap, c.fna)
		n.lies = true
		e := sanitized(t, n, Choose(n, true, "")).Evidence
		if e.Outcome != agentwire.OutcomeFailed || e.Verified || e.CanariesFound != canaryCount ||
			e.SamplesUnclean != e.SamplesRead || e.SamplesRead != sampleCount {
			t.Errorf("evidence %+v", e)
		}
	}
}

func TestASanitizeThatFailedIsNotTakenForDone(t *testing.T) {
	t.Parallel()
	n := newNVMe(t, 1, 0)
	n.controller[256] = 0
	failing := failingNVMe{n}
	e := sanitized(t, failing, Choose(failing, true, agentwire.LevelPurge)).Evidence
	if e.Outcome != agentwire.OutcomeFailed {
		t.Errorf("evidence %+v", e)
	}
	has(t, e.Reason, "says that sanitizing failed")
}

type failingNVMe struct{ *nvme }

func (f failingNVMe) Admin(c *NVMeCommand, data []byte) error {
	err := f.nvme.Admin(c, data)
	if c.Opcode == opSanitize {
		f.status = sanitizeFailed
	}
	return err
}

// If a device has been sanitizing itself since before a crash, the agent waits
// and does not start it again.
func TestARunningSanitizeIsWaitedFor(t *testing.T) {
	t.Parallel()
	n := newNVMe(t, 1, 0)
	n.polls = 1000
	ctx, cancel := context.WithCancel(t.Context())
	var l ledger
	opts := l.options()
	opts.Progress = func(phase string, percent int) {
		if phase == "erase" && percent == 50 {
			cancel()
		}
	}
	plan := Choose(n, true, "")
	if err := Run(ctx, n, l.record(t, plan), opts); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	n.polls = 3
	rec := l.record(t, plan)
	if err := Run(t.Context(), n, rec, l.options()); err != nil || !rec.Evidence.Verified ||
		strings.Join(n.calls, " ") != "crypto" {
		t.Errorf("%v, calls %v, evidence %+v", err, n.calls, rec.Evidence)
	}
}

func TestARealDeviceThatIsNotNVMe(t *testing.T) {
	d := newLoop(t, diskSize).open(t)
	if _, err := d.NamespaceID(); err == nil {
		t.Error("a loop device has a namespace")
	}
	if err := d.Admin(&NVMeCommand{Opcode: opIdentify, CDW10: identifyController, TimeoutMS: 1000},
		make([]byte, identifySize)); err == nil {
		t.Error("a loop device takes NVMe commands")
	}
}
