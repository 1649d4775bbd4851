package bmc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// The codes of the faults of this package.
const (
	CodeUnreachable = "bmc_unreachable" // no answer
	CodeRefused     = "bmc_refused"     // the account is refused, or lacks the right
	CodeBusy        = "bmc_busy"        // it has no free session
	CodeFailed      = "bmc_failed"      // it answered, but did not do it
)

const (
	port       = 623
	actionTime = time.Minute     // for everything within one session
	replyTime  = 5 * time.Second // for one message
	retries    = 2
)

// suites are the cipher suites that are tried, the strongest first: 17 is SHA-256,
// which newer BMCs insist on, and 3 is SHA-1, which is all that older ones have.
var suites = []types.CipherSuiteID{types.CipherSuiteID17, types.CipherSuiteID3}

// IPMI speaks to BMCs. The zero value is ready for use.
type IPMI struct {
	// Find returns where the BMC of an address listens, as host:port, for
	// networks in which BMCs are reached in another way. Nil means the address
	// itself.
	Find func(address string) string
}

// PXECycle makes a server boot from the network once, now. If the server is on,
// it is switched off and on again.
func (i *IPMI) PXECycle(ctx context.Context, address, user string, pass redact.Secret) error {
	return i.session(ctx, address, user, pass, func(ctx context.Context, c *client.Client) error {
		state, err := c.GetChassisStatus(ctx)
		if err != nil {
			return fmt.Errorf("get chassis status: %w", err)
		}
		// GPU servers boot by EFI; legacy firmware accepts the same request.
		if err := c.SetBootDevice(ctx, types.BootDeviceSelectorForcePXE, types.BIOSBootTypeEFI, false); err != nil {
			return fmt.Errorf("set boot device: %w", err)
		}
		how := chassis.ChassisControlPowerUp
		if state.PowerIsOn {
			how = chassis.ChassisControlPowerCycle
		}
		if _, err := c.ChassisControl(ctx, how); err != nil {
			return fmt.Errorf("control chassis: %w", err)
		}
		return nil
	})
}

// session does something within its own session and ends it, because a BMC has
// few sessions.
func (i *IPMI) session(ctx context.Context, address, user string, pass redact.Secret,
	do func(context.Context, *client.Client) error,
) error {
	host, at, err := i.where(address)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, actionTime)
	defer cancel()
	c, err := client.NewClient(host, at, user, pass.Reveal())
	if err != nil {
		return fault.New(fault.Invalid, CodeRefused, "user name or password are longer than IPMI allows").
			WithRemedy("correct the BMC credentials of the site or its override")
	}
	c.WithTimeout(replyTime).WithRetry(retries).WithCipherSuiteID(suites...).WithMaxPrivilegeLevel(
		types.PrivilegeLevelOperator)
	if err := c.Connect(within); err != nil {
		cancel() // there is no session to end: this only closes the socket
		_ = c.Close(within)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return explain(address, err)
	}
	err = do(within, c)
	last, done := context.WithTimeout(context.WithoutCancel(ctx), replyTime)
	defer done()
	closed := c.Close(last)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return explain(address, errors.Join(err, closed))
	}
	return nil // the work is done; a session that does not end times out
}

func (i *IPMI) where(address string) (host string, at int, err error) {
	if i.Find == nil {
		return address, port, nil
	}
	found := i.Find(address)
	host, number, err := net.SplitHostPort(found)
	if err == nil {
		at, err = strconv.Atoi(number)
	}
	if err != nil {
		return "", 0, fault.Wrap(err, fault.Unavailable, CodeUnreachable, "no way to the BMC at %s is known",
			address).WithRemedy("%s", remedyReach)
	}
	return host, at, nil
}

const (
	remedyReach = "check the address of the BMC, its network, and that IPMI over LAN is switched on"
	remedyEnter = "check user, password and privilege (operator or more) of the BMC credentials"
)

// explain turns a failure into a fault. The library joins the failures of a
// handshake as text, so only the text tells them apart.
func explain(address string, err error) error {
	text := err.Error()
	has := func(parts ...error) bool {
		for _, p := range parts {
			if strings.Contains(text, p.Error()) {
				return true
			}
		}
		return false
	}
	cause := errors.New("IPMI") // the library's text may quote what was sent
	switch {
	case has(client.ErrRAKPAuthentication, types.NewRmcpStatusError(types.RmcpStatusCodeInvalidIntegrityCheckValue),
		types.NewRmcpStatusError(types.RmcpStatusCodeUnauthorizedName)):
		return fault.Wrap(cause, fault.Forbidden, CodeRefused,
			"the BMC at %s does not know the user, or not by this password", address).WithRemedy("%s", remedyEnter)
	case has(types.NewRmcpStatusError(types.RmcpStatusCodeUnauthorizedRoleOfPriLevel)):
		return fault.Wrap(cause, fault.Forbidden, CodeRefused, "the user may not switch the server of the BMC at %s",
			address).WithRemedy("%s", remedyEnter)
	case strings.Contains(text, "timeout"), strings.Contains(text, "deadline exceeded"),
		strings.Contains(text, "connection refused"),
		strings.Contains(text, "no route to host"), strings.Contains(text, "unreachable"):
		return fault.Wrap(cause, fault.Unavailable, CodeUnreachable, "the BMC at %s does not answer",
			address).WithRemedy("%s", remedyReach)
	case strings.Contains(text, "Open Session failed"):
		return fault.Wrap(cause, fault.Unavailable, CodeBusy, "the BMC at %s has no session left",
			address).WithRemedy("retry in a minute: sessions that were not ended are given up by then")
	}
	return fault.Wrap(cause, fault.Unavailable, CodeFailed, "the BMC at %s did not make the server boot from the network",
		address).
		WithRemedy("look at the log of the BMC, then retry")
}
