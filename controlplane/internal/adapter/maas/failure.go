package maas

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// The codes of the faults of this package. The code says what went wrong, the
// kind what that means: a BMC failure is unavailable if a read met it, and
// ambiguous if a write did.
const (
	CodeURLInvalid        = "maas_url_invalid"         // the site's URL cannot be used
	CodeIDInvalid         = "maas_id_invalid"          // not an id of a machine
	CodeCAInvalid         = "maas_ca_invalid"          // the site's CA is not a certificate
	CodeTokenMalformed    = "maas_token_malformed"     //nolint:gosec // a code, not a credential
	CodeAddressRefused    = "maas_address_refused"     // the URL leads outside the allowed networks
	CodeUnreachable       = "maas_unreachable"         // no connection, or a proxy without MAAS behind it
	CodeTLS               = "maas_tls"                 // the certificate cannot be trusted
	CodeNotMAAS           = "maas_not_maas"            // something else answered
	CodeAnswerTruncated   = "maas_answer_truncated"    // the answer ended early
	CodeAnswerTooLarge    = "maas_answer_too_large"    // the answer is larger than allowed
	CodeAnswerInvalid     = "maas_answer_invalid"      // the answer is not what was asked for
	CodeTokenInvalid      = "maas_token_invalid"       // the API key is refused
	CodeClockSkew         = "maas_clock_skew"          // signatures look too old to MAAS
	CodeForbidden         = "maas_forbidden"           // the owner of the token lacks the right
	CodeNotFound          = "maas_not_found"           // no such object
	CodeFieldErrors       = "maas_field_errors"        // MAAS rejected parameters
	CodeStateConflict     = "maas_state_conflict"      // the machine's status does not allow it
	CodeNoneAvailable     = "maas_none_available"      // nothing to allocate
	CodeAddressInUse      = "maas_address_in_use"      // a static address is taken
	CodeBusy              = "maas_busy"                // MAAS gave up after collisions in its database
	CodeRackUnavailable   = "maas_rack_unavailable"    // no rack controller could do it
	CodeBMCFailure        = "maas_bmc_failure"         // the BMC did not do it
	CodeServerError       = "maas_server_error"        // MAAS failed
	CodeAmbiguous         = "maas_ambiguous"           // a write whose outcome is unknown
	CodeMachineLocked     = "maas_machine_locked"      // somebody locked the machine in MAAS
	CodeNotOwner          = "maas_not_owner"           // only the owner of the machine may do that
	CodeResurrected       = "maas_resurrected"         // shown as Deployed, with nothing installed
	CodeWouldDeploy       = "maas_power_on_deploys"    // power on would start an installation
	CodePowerUncontrolled = "maas_power_uncontrolled"  // MAAS has no BMC for the machine
	CodeImageInvalid      = "maas_image_invalid"       // not a name of an image
	CodeImageMissing      = "maas_image_missing"       // no such image in MAAS
	CodeImageMismatch     = "maas_image_mismatch"      // MAAS chose another image
	CodeNoMachineToken    = "maas_machine_token_unset" // the machine has no token yet
	CodeMachineGone       = "maas_machine_gone"        // the machine was deleted
	CodeMachineFailed     = "maas_machine_failed"      // a wait ended in a failure status
	CodeWaitEnded         = "maas_wait_ended"          // the time for a wait is over
)

// AnswerError holds the details of a fault: what was asked and what came back,
// bounded and free of control characters and secrets. It is the cause of the
// faults of this package; find it with DetailOf.
type AnswerError struct {
	Operation  string        // for example "POST machines/abc123/ op=deploy"
	Status     int           // of HTTP; 0: no answer came
	Snippet    string        // the beginning of the answer
	RetryAfter time.Duration // as MAAS asked; 0: it did not
	Sent       bool          // the request was sent, so it may have had an effect
	genuine    bool          // the answer bears a mark of the MAAS API
	cause      error
}

func (d *AnswerError) Error() string {
	var b strings.Builder
	b.WriteString(d.Operation)
	if d.Status != 0 {
		fmt.Fprintf(&b, " answered %d", d.Status)
	}
	if d.Snippet != "" {
		fmt.Fprintf(&b, " %q", d.Snippet)
	}
	if d.cause != nil {
		b.WriteString(": " + sanitise([]byte(d.cause.Error())))
	}
	return b.String()
}

func (d *AnswerError) Unwrap() error { return d.cause }

// DetailOf returns the details of a fault.
func DetailOf(err error) (*AnswerError, bool) {
	var d *AnswerError
	ok := errors.As(err, &d)
	return d, ok
}

// failing builds a fault from what is known about a call.
func failing(d *AnswerError, kind fault.Kind, code, remedy, format string, args ...any) *fault.Error {
	return fault.Wrap(d, kind, code, format, args...).WithRemedy("%s", remedy)
}

const remedyReread = "read the machine in MAAS before repeating: MAAS may have done it although it reported a failure"
