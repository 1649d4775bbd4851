package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Most is how many BMCs there can be: an IPMB has room for little more.
const Most = 64

// Lengths that IPMI 2.0 allows.
const (
	longestUser = 16
	longestPass = 20
)

// plainPath and plainText match what passes unquoted through ipmi_sim's files,
// and through the shell with which it starts programs.
var (
	plainPath = regexp.MustCompile(`^[A-Za-z0-9_./@%+:-]+$`)
	plainText = regexp.MustCompile(`^[!#-\[\]-~]+$`)
)

func (o Options) check() error {
	switch {
	case len(o.Machines) == 0:
		return errors.New("no machine to give a BMC")
	case len(o.Machines) > Most:
		return fmt.Errorf("%d machines are more than the %d that BMCs can be simulated for: ask for fewer machines, or for "+
			"BMCs inside the process", len(o.Machines), Most)
	case o.Dir == "" || len(o.Chassis) == 0:
		return errors.New("a folder and the program that runs Chassis are needed")
	}
	for _, word := range append([]string{o.Dir}, o.Chassis...) {
		if !plainPath.MatchString(word) {
			return fmt.Errorf("ipmi_sim cannot be given the path %q: use one of letters, digits and ._/@%%+:-", word)
		}
	}
	seen := map[string]bool{}
	for _, m := range o.Machines {
		switch {
		case m.Address == "" || seen[m.Address]:
			return fmt.Errorf("BMC address %q is empty or given twice", m.Address)
		case len(m.User) > longestUser || !plainText.MatchString(m.User):
			return fmt.Errorf("user of BMC %s: want 1 to %d printable characters without quotes, backslashes and blanks",
				m.Address, longestUser)
		case len(m.Pass) > longestPass || !plainText.MatchString(m.Pass):
			return fmt.Errorf("password of BMC %s: want 1 to %d printable characters without quotes, backslashes and blanks",
				m.Address, longestPass)
		}
		seen[m.Address] = true
	}
	return nil
}

// freePorts finds UDP ports of the loopback interface that nobody uses.
func freePorts(ctx context.Context, n int) ([]int, error) {
	ports, held := make([]int, 0, n), make([]net.PacketConn, 0, n)
	var failure error
	// All are held until the last is found, so that none is found twice.
	for range n {
		c, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", net.JoinHostPort(loopback, "0"))
		if err != nil {
			failure = err
			break
		}
		held = append(held, c)
		if a, ok := c.LocalAddr().(*net.UDPAddr); ok {
			ports = append(ports, a.Port)
		}
	}
	for _, c := range held {
		failure = errors.Join(failure, c.Close())
	}
	if failure != nil {
		return nil, fmt.Errorf("find ports for BMCs: %w", failure)
	}
	return ports, nil
}

// write makes the files that ipmi_sim reads, and the chassis.
func (o Options) write(ports []int) error {
	var lan, commands strings.Builder
	lan.WriteString("name \"bmc\"\n")
	commands.WriteString("mc_setbmc 0x20\n")
	for i, m := range o.Machines {
		mc := 0x20 + 2*i // addresses on an IPMB are even
		chassis := filepath.Join(o.Dir, fmt.Sprintf("chassis-%d", i))
		if err := os.MkdirAll(chassis, 0o700); err != nil {
			return fmt.Errorf("make chassis: %w", err)
		}
		power := "0"
		if m.On {
			power = "1"
		}
		if err := errors.Join(keep(chassis, "power", power), keep(chassis, "boot", "default")); err != nil {
			return err
		}
		fmt.Fprintf(&lan, `set_working_mc %#x
  startlan 1
    addr %s %d
    priv_limit admin
    allowed_auths_callback md5
    allowed_auths_user md5
    allowed_auths_operator md5
    allowed_auths_admin md5
    guid %032x
  endlan
  chassis_control "%s %s"
  user 2 true "%s" "%s" admin 10 md5
`, mc, loopback, ports[i], i+1, strings.Join(o.Chassis, " "), chassis, m.User, m.Pass)
		// Device id, revision, firmware, what it supports, maker and product: none of it matters here.
		fmt.Fprintf(&commands, "mc_add %#x 0 no-device-sdrs 0x20 1 0 0x9f 0x2a2 0x100\nmc_enable %#x\n", mc, mc)
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, "state"), 0o700); err != nil {
		return fmt.Errorf("make folder of ipmi_sim: %w", err)
	}
	for name, text := range map[string]string{"lan.conf": lan.String(), "commands": commands.String()} {
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write configuration of ipmi_sim: %w", err)
		}
	}
	return nil
}
