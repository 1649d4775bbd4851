package bringup

import (
	"errors"
	"fmt"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
)

// failed makes a failure of a class.
func failed(class durable.FailureClass, code, format string, args ...any) *Failure {
	return &Failure{Class: class, Code: code, Message: fmt.Sprintf(format, args...)}
}

// with adds what to do about it.
func (f *Failure) with(format string, args ...any) *Failure {
	f.Remedy = fmt.Sprintf(format, args...)
	return f
}

// final says that another attempt would end the same.
func (f *Failure) final() *Failure {
	f.Final = true
	return f
}

// because keeps the cause, for logs.
func (f *Failure) because(err error) *Failure {
	f.Cause = err
	return f
}

// about adds details, as pairs of a key and a value.
func (f *Failure) about(details map[string]any) *Failure {
	f.Details = details
	return f
}

// classes says what the faults of adapters and nouns mean to a machine that is
// being brought up. What is not listed is judged by its kind.
var classes = map[string]durable.FailureClass{
	"maas_token_invalid":        durable.SiteCapabilityMissing,
	"maas_forbidden":            durable.SiteCapabilityMissing,
	"maas_clock_skew":           durable.SiteCapabilityMissing,
	"maas_tls":                  durable.SiteCapabilityMissing,
	"maas_not_maas":             durable.SiteCapabilityMissing,
	"maas_address_refused":      durable.SiteCapabilityMissing,
	"maas_url_invalid":          durable.SiteCapabilityMissing,
	"maas_image_missing":        durable.SiteCapabilityMissing,
	"maas_image_mismatch":       durable.SiteCapabilityMissing,
	"maas_rack_unavailable":     durable.UpstreamTransient,
	"maas_bmc_failure":          durable.BMCPowerFailure,
	"maas_power_uncontrolled":   durable.BMCPowerFailure,
	"maas_machine_gone":         durable.StateAmbiguity,
	"maas_machine_locked":       durable.StateAmbiguity,
	"maas_not_owner":            durable.StateAmbiguity,
	"maas_state_conflict":       durable.StateAmbiguity,
	"maas_resurrected":          durable.StateAmbiguity,
	"maas_field_errors":         durable.InputConfigError,
	"maas_image_invalid":        durable.InputConfigError,
	"power_credentials_missing": durable.SiteCapabilityMissing,
	"site_credentials_missing":  durable.SiteCapabilityMissing,
	"site_token_of_other_url":   durable.SiteCapabilityMissing,
	"site_disabled":             durable.InputConfigError,
	"profile_disabled":          durable.InputConfigError,
	"bmc_unreachable":           durable.BMCPowerFailure,
	"bmc_refused":               durable.BMCPowerFailure,
	"bmc_failed":                durable.BMCPowerFailure,
	"nodes_url_missing":         durable.SiteCapabilityMissing,
	"commit_outcome_unknown":    durable.UpstreamTransient, // stages look first and may be repeated
}

// Classify gives an error of a stage its class. The kind of a fault says
// whether another attempt makes sense.
func Classify(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	out := failed(durable.StateAmbiguity, fault.CodeOf(err), "an unexpected error; see the worker's log").because(err)
	if e, ok := fault.As(err); ok {
		out.Message, out.Remedy = e.Message, e.Remedy
	}
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.RateLimited:
		out.Class = durable.UpstreamTransient
	case fault.Invalid, fault.NotFound:
		out.Class, out.Final = durable.InputConfigError, true
	case fault.Unauthenticated, fault.Forbidden:
		out.Class, out.Final = durable.SiteCapabilityMissing, true
	case fault.Conflict, fault.Stale, fault.Ambiguous, fault.Internal:
		out.Final = true
	}
	if class, known := classes[out.Code]; known {
		out.Class = class
		out.Final = class != durable.UpstreamTransient && class != durable.BMCPowerFailure
	}
	return out
}
