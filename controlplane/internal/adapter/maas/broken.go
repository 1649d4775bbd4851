package maas

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/url"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// notSent is the failure of a call that was never sent: MAAS has not seen it.
func notSent(k call, err error) error {
	if f, ok := fault.As(err); ok {
		return f
	}
	d := &AnswerError{Operation: k.String(), cause: err}
	return failing(d, fault.Unavailable, CodeUnreachable, "repeat later",
		"the call to MAAS was given up before it was sent")
}

// broken is the failure of a call without an answer. If a write was sent, MAAS
// may have carried it out.
func broken(k call, err error, sent bool) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	d := &AnswerError{Operation: k.String(), Sent: sent, cause: err}
	if f, ok := fault.As(err); ok { // the guard refused it
		return fault.Wrap(d, f.Kind, f.Code, "%s", f.Message).WithRemedy("%s", f.Remedy)
	}
	late := errors.Is(err, context.DeadlineExceeded)
	switch {
	case k.write() && sent && late:
		return failing(d, fault.Ambiguous, CodeAmbiguous, remedyReread, "MAAS did not answer in time, and may have done it")
	case k.write() && sent:
		return failing(d, fault.Ambiguous, CodeAmbiguous, remedyReread,
			"the connection to MAAS broke after the request was sent")
	}
	if why := distrust(err); why != "" {
		return failing(d, fault.Unavailable, CodeTLS,
			"give the site the CA that signed the certificate, or renew the certificate of MAAS",
			"the certificate of MAAS cannot be trusted: %s", why)
	}
	if late {
		return failing(d, fault.Unavailable, CodeUnreachable, "check that MAAS is running and not overloaded",
			"MAAS did not answer in time")
	}
	if strings.Contains(err.Error(), "malformed HTTP") || strings.Contains(err.Error(), "server gave HTTP response") {
		return failing(d, fault.Invalid, CodeNotMAAS, "check the scheme and the port of the site's URL",
			"what answers there does not speak HTTP as MAAS does")
	}
	return failing(d, fault.Unavailable, CodeUnreachable,
		"check the site's URL, the network and that the MAAS region is running", "MAAS cannot be reached")
}

func distrust(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired or is not valid yet"
	case errors.As(err, &unknown):
		return "it is signed by an unknown authority"
	case errors.As(err, &host):
		return "it is for another name"
	case errors.As(err, &verify), errors.As(err, &invalid):
		return "it is not valid"
	case errors.As(err, &record), errors.As(err, &alert):
		return "the TLS handshake failed"
	}
	return ""
}

// cutShort is the failure of an answer that ended early. A write has probably
// happened, but its result is unknown.
func cutShort(k call, a answer, err error) error {
	d := &AnswerError{Operation: k.String(), Status: a.status, Snippet: k.shown(a), Sent: true, cause: err}
	code, message := CodeAnswerTruncated, "the answer of MAAS ended early"
	if errors.Is(err, context.DeadlineExceeded) {
		code, message = CodeUnreachable, "the answer of MAAS did not arrive in time"
	} else if !errors.Is(err, io.ErrUnexpectedEOF) && len(a.body) == 0 {
		message = "the answer of MAAS is empty"
	}
	if k.write() {
		return failing(d, fault.Ambiguous, code, remedyReread, "%s", message)
	}
	return failing(d, fault.Unavailable, code, "repeat later; if it persists, check proxies in front of MAAS", "%s",
		message)
}

func tooLarge(k call, a answer, limit int64) error {
	d := &AnswerError{Operation: k.String(), Status: a.status, Sent: true}
	kind, remedy := fault.Invalid, "ask for fewer machines at a time, or check that the site's URL leads to MAAS"
	if k.write() {
		kind, remedy = fault.Ambiguous, remedyReread
	}
	return failing(d, kind, CodeAnswerTooLarge, remedy, "the answer of MAAS is larger than %d bytes", limit)
}

func invalidAnswer(k call, a answer, err error) error {
	d := &AnswerError{Operation: k.String(), Status: a.status, Snippet: k.shown(a), Sent: true, cause: err}
	kind, remedy := fault.Invalid, "check that the site's URL leads to MAAS 3.3 or newer"
	if k.write() {
		kind, remedy = fault.Ambiguous, remedyReread
	}
	return failing(d, kind, CodeAnswerInvalid, remedy, "the answer is not what MAAS answers to this call")
}

func notMAAS(k call, d *AnswerError, what string) *fault.Error {
	kind, remedy := fault.Invalid, "check the site's URL: it should end in /MAAS and lead to the region without redirects"
	if k.write() && d.Status < 300 {
		kind, remedy = fault.Ambiguous, remedyReread
	}
	return failing(d, kind, CodeNotMAAS, remedy, "what answers at the site's URL is not the MAAS API: it %s", what)
}
