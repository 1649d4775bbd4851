package maas

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

const (
	nonceUsed   = "Nonce already used"
	expiredTime = "Expired timestamp"
	noneOfField = "__all__"
)

func (c *Client) judge(k call, a answer) error {
	return judge(k, a, append(c.key.words(), k.secrets()...))
}

// judge turns an unsuccessful answer into a fault. It is the only place that
// knows what the statuses and texts of MAAS mean.
func judge(k call, a answer, secrets []string) *fault.Error {
	d := &AnswerError{
		Operation: k.String(), Status: a.status, Snippet: sanitise(a.body, secrets...), Sent: true,
		RetryAfter: retryAfter(a.header),
		genuine: a.header.Get("X-MAAS-API-Hash") != "" ||
			bytes.HasSuffix(bytes.TrimSpace(a.body), []byte("matches the given query.")),
	}
	switch {
	case a.status == http.StatusConflict && d.RetryAfter > 0:
		return failing(d, fault.Unavailable, CodeBusy, "repeat later",
			"MAAS could not settle a collision in its database; nothing was changed")
	case a.status == http.StatusTooManyRequests:
		return failing(d, fault.Unavailable, CodeBusy, "repeat later",
			"something in front of MAAS limits the requests; nothing was changed")
	case a.status >= http.StatusInternalServerError:
		return serverError(k, d)
	case looksLikeHTML(a):
		return notMAAS(k, d, "answered with a web page")
	case a.status >= http.StatusMultipleChoices && a.status < http.StatusBadRequest:
		return notMAAS(k, d, "redirects elsewhere, which is not followed")
	case a.status == http.StatusUnauthorized, invisibleKey(k, a):
		return refusedKey(k, d)
	case a.status == http.StatusForbidden:
		return failing(d, fault.Forbidden, CodeForbidden,
			"use an API key of a MAAS administrator, and check that the machine is not locked",
			"the user of the API key is not permitted to do this in MAAS%s", quoted(d.Snippet))
	case a.status == http.StatusNotFound:
		return notFound(d)
	case a.status == http.StatusGone, a.status == http.StatusMethodNotAllowed:
		return notMAAS(k, d, "does not offer what MAAS 3 offers there")
	case a.status == http.StatusConflict:
		return conflict(d)
	default:
		return rejected(d, a, secrets)
	}
}

// serverError handles a 5xx. MAAS commits first and talks to racks and BMCs
// afterwards, so a write that ends here may well have happened.
func serverError(k call, d *AnswerError) *fault.Error {
	kind, remedy := fault.Unavailable, "repeat later"
	if k.write() {
		kind, remedy = fault.Ambiguous, remedyReread
	}
	gateway := d.Status == http.StatusBadGateway || d.Status == http.StatusServiceUnavailable ||
		d.Status == http.StatusGatewayTimeout
	switch {
	case gateway && aboutRack(d.Snippet): // before the BMC: the text may name that too
		return rackAway(d, kind, remedy)
	case AboutBMC(d.Snippet):
		return failing(d, kind, CodeBMCFailure, "check the power credentials, the address of the BMC and its network; "+
			remedy,
			"the BMC did not do what MAAS asked of it%s", quoted(d.Snippet))
	case gateway && d.RetryAfter > 0:
		return rackAway(d, kind, remedy)
	case k.write():
		return failing(d, kind, CodeAmbiguous, remedy, "MAAS failed with status %d, and may have done it nevertheless%s",
			d.Status, quoted(d.Snippet))
	case gateway:
		return failing(d, kind, CodeUnreachable, "check that the MAAS region is running",
			"MAAS does not answer (status %d)%s", d.Status, quoted(d.Snippet))
	default:
		return failing(d, kind, CodeServerError, "look into the log of the MAAS region", "MAAS failed with status %d%s",
			d.Status, quoted(d.Snippet))
	}
}

func rackAway(d *AnswerError, kind fault.Kind, remedy string) *fault.Error {
	return failing(d, kind, CodeRackUnavailable, "check that rackd runs and is connected; "+remedy,
		"no rack controller of MAAS could do it%s", quoted(d.Snippet))
}

// noRackReaches is what MAAS answers if no rack is connected that it knows to
// reach a BMC, and also if racks are connected and none of them reaches it.
const noRackReaches = "No rack controllers can access the BMC"

// AboutBMC recognises texts of MAAS's power drivers.
func AboutBMC(text string) bool {
	lower := strings.ToLower(text)
	return slices.ContainsFunc([]string{
		"power action", "bmc", "power driver", "incorrect username", "incorrect password", "ipmi", "power type",
		"power control",
		"k_g", "cipher suite", "redfish",
	}, func(word string) bool { return strings.Contains(lower, word) })
}

// aboutRack recognises texts about rack controllers. Machines may be named after the
// racks that they stand in.
func aboutRack(text string) bool {
	lower := strings.ToLower(text)
	return strings.Contains(lower, "rack controller") || strings.Contains(lower, "rackd") ||
		strings.Contains(lower, "no connections available") ||
		strings.Contains(lower, "unable to connect to cluster")
}

// invisibleKey recognises that MAAS did not see our key: it does not refuse a
// machine listing without a key, but misunderstands it, because anonymous
// callers have other operations.
func invisibleKey(k call, a answer) bool {
	return a.status == http.StatusBadRequest && k.method == http.MethodGet && k.op == "" &&
		bytes.Contains(a.body, []byte("Unrecognised signature: method=GET op=None"))
}

func refusedKey(k call, d *AnswerError) *fault.Error {
	switch {
	case strings.Contains(d.Snippet, nonceUsed):
		if k.write() {
			return failing(d, fault.Ambiguous, CodeAmbiguous, remedyReread, "MAAS had seen this request before")
		}
		return failing(d, fault.Unavailable, CodeTokenInvalid, "repeat", "MAAS had seen this request before")
	case strings.Contains(d.Snippet, expiredTime):
		return failing(d, fault.Unavailable, CodeClockSkew, "set the clocks of the MAAS region and of this machine by NTP",
			"the clocks differ by more than five minutes, so MAAS refuses the signature")
	case d.Status == http.StatusBadRequest:
		return failing(d, fault.Forbidden, CodeTokenInvalid, "check that no proxy removes the Authorization header",
			"MAAS did not see the API key")
	default:
		return failing(d, fault.Forbidden, CodeTokenInvalid, "write a valid API key of a MAAS administrator for the site",
			"MAAS refuses the API key")
	}
}

func notFound(d *AnswerError) *fault.Error {
	switch {
	case strings.Contains(d.Snippet, "already in use"):
		return failing(d, fault.Conflict, CodeAddressInUse, "choose a free address", "the address is already in use")
	case strings.HasPrefix(d.Snippet, "Unknown API endpoint"):
		return failing(d, fault.Invalid, CodeNotMAAS, "check the site's URL and the version of MAAS (3.3 or newer)",
			"this MAAS does not offer the call")
	default:
		return failing(d, fault.NotFound, CodeNotFound, "list what exists in MAAS", "MAAS does not have it%s",
			quoted(d.Snippet))
	}
}

func conflict(d *AnswerError) *fault.Error {
	if strings.HasPrefix(d.Snippet, "No machine") || strings.HasPrefix(d.Snippet, "No available machine") {
		return failing(d, fault.Conflict, CodeNoneAvailable, "read the machine: it may be held already, locked, or not Ready",
			"MAAS has no such machine to give%s", quoted(d.Snippet))
	}
	return stateConflict(d)
}

func stateConflict(d *AnswerError) *fault.Error {
	return failing(d, fault.Conflict, CodeStateConflict, "read the machine and choose what its status allows",
		"the machine's status in MAAS does not allow it%s", quoted(d.Snippet))
}

// rejected handles 400 and 409. Most operations answer a wrong status with 409,
// but commission and test answer it as a form error with 400.
func rejected(d *AnswerError, a answer, secrets []string) *fault.Error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(a.body, &fields) != nil {
		return failing(d, fault.Invalid, CodeFieldErrors, "correct the request", "MAAS rejected the request%s",
			quoted(d.Snippet))
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []fault.Field
	for _, name := range names[:min(len(names), 50)] {
		text := sanitise([]byte(strings.Join(messages(fields[name]), " ")), secrets...)
		if name == noneOfField && strings.Contains(text, "because of the current state of the node") {
			return stateConflict(d)
		}
		out = append(out, fault.Field{Path: sanitise([]byte(name), secrets...), Message: text})
	}
	return failing(d, fault.Invalid, CodeFieldErrors, "correct the named fields", "MAAS rejected the request%s",
		quoted(d.Snippet)).WithFields(out...)
}

func messages(raw json.RawMessage) []string {
	var many []string
	if json.Unmarshal(raw, &many) == nil {
		return many
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	return []string{string(raw)}
}

func looksLikeHTML(a answer) bool {
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	return media == "text/html" && bytes.HasPrefix(bytes.TrimSpace(a.body), []byte("<"))
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

func quoted(snippet string) string {
	if snippet == "" {
		return ""
	}
	return ": " + snippet
}

// SaysAbsent reports whether MAAS itself said that it does not have the object.
// A 404 of a proxy does not count.
func SaysAbsent(err error) bool {
	d, ok := DetailOf(err)
	return ok && fault.CodeOf(err) == CodeNotFound && d.genuine
}
