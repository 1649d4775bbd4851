package sanitize

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// NVMeCommand is struct nvme_admin_cmd of linux/nvme_ioctl.h. The kernel reads
// it from memory as it is. Admin fills in Addr.
type NVMeCommand struct {
	Opcode      uint8
	Flags       uint8
	_           uint16
	NSID        uint32
	CDW2, CDW3  uint32
	Metadata    uint64
	Addr        uint64
	MetadataLen uint32
	DataLen     uint32
	CDW10       uint32
	CDW11       uint32
	CDW12       uint32
	CDW13       uint32
	CDW14       uint32
	CDW15       uint32
	TimeoutMS   uint32
	Result      uint32
}

// Admin commands and their fields, from the NVM Express base specification.
const (
	opGetLogPage = 0x02
	opIdentify   = 0x06
	opFormat     = 0x80
	opSanitize   = 0x84

	identifyNamespace  = 0x00
	identifyController = 0x01
	identifyActive     = 0x02
	identifyAllocated  = 0x10

	logSanitize  = 0x81
	allSpaces    = 0xffffffff
	identifySize = 4096
	logSize      = 512

	actBlockErase  = 0x2
	actCryptoErase = 0x4

	eraseUserData = 1
	eraseCrypto   = 2
)

// Values of Sanitize Status, in its lowest three bits.
const (
	neverSanitized = iota
	sanitizeDone
	sanitizeRunning
	sanitizeFailed
	sanitizeDoneKept // done, and the blocks are still allocated
)

const (
	commandTimeout = time.Minute
	// formatTimeout is how long the largest disks take. The kernel's default is
	// a minute.
	formatTimeout = 4 * time.Hour
)

// NVMeError is the status with which the device refused a command.
type NVMeError uint16

func (s NVMeError) Error() string {
	return fmt.Sprintf("the device answered with status %#x (type %d, code %#x)", uint16(s), uint16(s)>>8&7,
		uint16(s)&0xff)
}

func (p *Plan) askNVMe(d Device) []Method {
	without := func(format string, args ...any) []Method {
		p.Without = append(p.Without, fmt.Sprintf(format, args...))
		return nil
	}
	nsid, err := d.NamespaceID()
	if err != nil {
		return without("the namespace cannot be told: %v", err)
	}
	controller, err := identify(d, 0, identifyController)
	if err != nil {
		return without("the NVMe controller does not say what it can do: %v", err)
	}
	space, err := identify(d, nsid, identifyNamespace)
	if err != nil {
		return without("the NVMe namespace does not say what it is: %v", err)
	}
	// If namespaces can be managed, there may be some that this controller does
	// not show.
	oacs := binary.LittleEndian.Uint16(controller[256:])
	which := uint32(identifyActive)
	if oacs&(1<<3) != 0 {
		which = identifyAllocated
	}
	spaces, err := identify(d, 0, which)
	if err != nil {
		return without("the NVMe controller does not list its namespaces: %v", err)
	}
	p.NSID, p.Format = nsid, presentFormat(space)
	return p.nvmeMethods(controller, alone(spaces, nsid))
}

func (p *Plan) nvmeMethods(controller []byte, alone bool) []Method {
	var able []Method
	offer := func(m Method, supported, wholeDevice bool) {
		switch {
		case !supported:
			p.Without = append(p.Without, string(m)+" is not supported")
		case wholeDevice && !alone:
			p.Without = append(p.Without, string(m)+" would erase other namespaces of the device too")
		default:
			able = append(able, m)
		}
	}
	sanicap := binary.LittleEndian.Uint32(controller[328:])
	format := binary.LittleEndian.Uint16(controller[256:])&(1<<1) != 0
	fna := controller[524]
	eraseAll := fna&(1<<1) != 0
	offer(NVMeSanitizeCrypto, sanicap&1 != 0, true)
	offer(NVMeSanitizeBlock, sanicap&2 != 0, true)
	offer(NVMeFormatCrypto, format && fna&(1<<2) != 0, eraseAll)
	offer(NVMeFormatUserData, format, eraseAll)
	return able
}

// alone says whether a list of namespaces holds only this one.
func alone(list []byte, nsid uint32) bool {
	return binary.LittleEndian.Uint32(list) == nsid && binary.LittleEndian.Uint32(list[4:]) == 0
}

// presentFormat returns the format of a namespace in the form of Format NVM, so
// that formatting does not change its block size or protection.
func presentFormat(space []byte) uint32 {
	flbas, dps := uint32(space[26]), uint32(space[29])
	format := flbas & 0xf          // LBAF, lower bits
	format |= flbas & 0x10         // MSET: metadata with the data
	format |= dps & 0x7 << 5       // PI
	format |= dps >> 3 & 1 << 8    // PIL
	format |= flbas >> 5 & 3 << 12 // LBAF, upper bits
	return format
}

func identify(d Device, nsid, what uint32) ([]byte, error) {
	data := make([]byte, identifySize)
	err := d.Admin(&NVMeCommand{Opcode: opIdentify, NSID: nsid, CDW10: what, TimeoutMS: millis(commandTimeout)}, data)
	return data, err
}

func millis(d time.Duration) uint32 { return uint32(d / time.Millisecond) } //nolint:gosec // constants of this file

// sanitizeStatus reads the log of sanitize operations.
func sanitizeStatus(d Device) (status, percent int, err error) {
	log := make([]byte, logSize)
	// The number of double words counts from zero.
	c := &NVMeCommand{
		Opcode: opGetLogPage, NSID: allSpaces, CDW10: logSanitize | (logSize/4-1)<<16,
		TimeoutMS: millis(commandTimeout),
	}
	if err := d.Admin(c, log); err != nil {
		return 0, 0, fmt.Errorf("read sanitize log: %w", err)
	}
	return int(binary.LittleEndian.Uint16(log[2:]) & 7), int(binary.LittleEndian.Uint16(log)) * 100 / 65536, nil
}

// nvmeSanitize starts a sanitize operation and waits for its end. If an earlier
// attempt started one that still runs, it only waits. The device goes on even
// if nobody waits. After a failure the device stays in restricted mode and
// returns no data.
func (r *run) nvmeSanitize(ctx context.Context, action uint32) error {
	status, _, err := sanitizeStatus(r.dev)
	if err != nil {
		return err
	}
	if status != sanitizeRunning {
		c := &NVMeCommand{Opcode: opSanitize, CDW10: action, TimeoutMS: millis(commandTimeout)}
		if err := r.dev.Admin(c, nil); err != nil {
			return fmt.Errorf("start sanitizing: %w", err)
		}
	}
	tick := time.NewTicker(r.opts.poll())
	defer tick.Stop()
	for {
		status, percent, err := sanitizeStatus(r.dev)
		switch {
		case err != nil:
			return err
		case slices.Contains([]int{sanitizeDone, sanitizeDoneKept}, status):
			return nil
		case status == sanitizeFailed:
			return errors.New("the device says that sanitizing failed")
		case status == neverSanitized:
			return errors.New("the device has forgotten that it was to be sanitized")
		}
		r.report("erase", percent)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// nvmeFormat formats the namespace as it is, with an erase. The device cannot
// be stopped meanwhile.
func (r *run) nvmeFormat(erase uint32) error {
	p := r.rec.Plan
	c := &NVMeCommand{Opcode: opFormat, NSID: p.NSID, CDW10: p.Format | erase<<9, TimeoutMS: millis(formatTimeout)}
	if err := r.dev.Admin(c, nil); err != nil {
		return fmt.Errorf("format: %w", err)
	}
	return nil
}
