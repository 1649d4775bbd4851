package ipmi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"gpuaas/sim/maas/region"
)

const (
	loopback = "127.0.0.1"
	// actionTime limits one action with its session; replyTime limits one
	// message.
	actionTime = 20 * time.Second
	replyTime  = 5 * time.Second
)

// refusalError is a failure in the words of MAAS's IPMI driver.
type refusalError string

func (e refusalError) Error() string { return string(e) }

// The failures that are distinguished.
const (
	errUser      refusalError = "Incorrect username.  Check BMC configuration and try again."
	errPassword  refusalError = "Incorrect password.  Check BMC configuration and try again."
	errPrivilege refusalError = "Access denied while performing power action.  Check BMC configuration and try again."
	errBusy      refusalError = "Device busy while performing power action.  MAAS performed several retries.  Please " +
		"wait and try again."
	errNoAnswer refusalError = "Connection timed out while performing power action.  Check BMC configuration and " +
		"connectivity and try again."
)

var _ region.BMC = (*BMCs)(nil)

// PowerOn switches a machine on.
func (b *BMCs) PowerOn(ctx context.Context, t region.Target) error {
	return b.control(ctx, t, chassis.ChassisControlPowerUp)
}

// PowerOff switches a machine off at once.
func (b *BMCs) PowerOff(ctx context.Context, t region.Target) error {
	return b.control(ctx, t, chassis.ChassisControlPowerDown)
}

// State asks the BMC whether its machine is on.
func (b *BMCs) State(ctx context.Context, t region.Target) (string, error) {
	state := "error"
	err := b.session(ctx, t, func(ctx context.Context, c *client.Client) error {
		s, err := c.GetChassisStatus(ctx)
		if err != nil {
			return fmt.Errorf("get chassis status: %w", err)
		}
		state = "off"
		if s.PowerIsOn {
			state = "on"
		}
		return nil
	})
	return state, err
}

func (b *BMCs) control(ctx context.Context, t region.Target, what chassis.ChassisControl) error {
	return b.session(ctx, t, func(ctx context.Context, c *client.Client) error {
		if _, err := c.ChassisControl(ctx, what); err != nil {
			return fmt.Errorf("control chassis: %w", err)
		}
		return nil
	})
}

// session does something within its own session, with the credentials that the
// region has on record, right or wrong.
func (b *BMCs) session(ctx context.Context, t region.Target, do func(context.Context, *client.Client) error) error {
	port, ok := b.ports[t.Address]
	if !ok {
		return errNoAnswer
	}
	ctx, cancel := context.WithTimeout(ctx, actionTime)
	defer cancel()
	pass, _ := t.Parameters["power_pass"].(string)
	c, err := client.NewClient(loopback, port, t.User, pass)
	if err != nil {
		return errUser // too long to be one
	}
	c.WithTimeout(replyTime).WithRetry(1).WithCipherSuiteID(types.CipherSuiteID3).WithMaxPrivilegeLevel(
		types.PrivilegeLevelOperator)
	if err := c.Connect(ctx); err != nil {
		// There is no session to end: this only closes the socket.
		cancel()
		_ = c.Close(ctx)
		return explain(err)
	}
	err = do(ctx, c)
	// A BMC has few sessions, so this one ends even if nobody waits any longer.
	last, done := context.WithTimeout(context.WithoutCancel(ctx), replyTime)
	defer done()
	return errors.Join(explain(err), explain(c.Close(last)))
}

// explain puts a failure into the words of MAAS. The client joins the failures
// of a handshake as text, so only the text tells them apart.
func explain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has(client.ErrRAKPAuthentication.Error()) ||
		has(types.NewRmcpStatusError(types.RmcpStatusCodeInvalidIntegrityCheckValue).Error()):
		return errPassword
	case has(types.NewRmcpStatusError(types.RmcpStatusCodeUnauthorizedName).Error()):
		return errUser
	case has(types.NewRmcpStatusError(types.RmcpStatusCodeUnauthorizedRoleOfPriLevel).Error()):
		return errPrivilege
	case has("timeout") || has("deadline exceeded") || has("connection refused"):
		return errNoAnswer
	case has("Open Session failed"):
		// No session is free: failed handshakes hold theirs for a minute.
		return errBusy
	}
	return fmt.Errorf("speak IPMI: %w", err)
}
