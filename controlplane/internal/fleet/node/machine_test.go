package node_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
)

// stranger is another machine on the same network.
var stranger = hardware{
	UUID: "9a9a9a9a-0042-3510-8052-b4c04f4d3233", SystemSerial: "STRANGER1",
	MACs: []string{"b0:7b:25:cc:00:01"},
}

// expected is a node that onboarding awaits, with its token; MAAS knows the server.
func (w *world) expected(tb testing.TB, addressRequired bool) (node.Node, redact.Secret) {
	tb.Helper()
	var n node.Node
	w.inTx(tb, func(ctx context.Context, c tx) (err error) {
		if n, err = node.CreateInTx(ctx, c, node.NewNode{
			Hostname: "m1", SKU: someSKU, RegionCode: "eu-1", Mode: node.MAAS,
			AwaitedBy: "onboarding-1",
		}); err != nil {
			return err
		}
		return node.Expect(ctx, c, n.ID, server, addressRequired)
	})
	return n, w.bootstrap(tb, n)
}

func (w *world) bootstrap(tb testing.TB, n node.Node) redact.Secret {
	tb.Helper()
	token, _, err := w.service.IssueToken(system(tb), n.ID, node.Bootstrap, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

// comes lets a machine enrol with a key of its own, from an address.
func (w *world) comes(tb testing.TB, token redact.Secret, key, from string, said *hardware) error {
	tb.Helper()
	ctx := telemetry.WithClientAddr(tb.Context(), from)
	_, err := w.service.BeginEnrolment(ctx, token, key, "instance of "+key, "m1", release, anything, said)
	return err
}

// denies checks that a refusal says in what the machine differs, and not what is
// known: it would only have to be repeated.
func denies(tb testing.TB, err error, code, field string) {
	tb.Helper()
	wantCode(tb, err, fault.Forbidden, code)
	e, _ := fault.As(err)
	if e == nil || !strings.Contains(e.Message, field) {
		tb.Errorf("the refusal %v does not name %s", err, field)
		return
	}
	for _, secret := range append([]string{server.UUID, server.SystemSerial, "10.0.0.7"}, server.MACs...) {
		if strings.Contains(strings.ToLower(e.Message+e.Remedy), strings.ToLower(secret)) {
			tb.Errorf("the refusal tells what is known: %v", err)
		}
	}
}

func TestAttackAnotherMachineEnrolsWithAStolenToken(t *testing.T) {
	w := newWorld(t)
	n, token := w.expected(t, false)
	before := len(w.signals(t))
	denies(t, w.comes(t, token, "thief", "10.0.0.9", &stranger), agentwire.CodeHardwareMismatch, "system UUID")
	now := w.read(t, n.ID)
	if now.AgentInstance != "" || !strings.Contains(now.IdentityVoid, "STRANGER1") ||
		!strings.Contains(now.IdentityVoid, "10.0.0.9") || now.FirstPollAt != nil {
		t.Errorf("the node is %+v", now)
	}
	if len(w.signals(t)) != before+1 || w.told(t, n.ID, "node.identity_conflict") != 1 ||
		w.audited(t, n.ID, "node.void_identity") != 1 {
		t.Error("nobody was told")
	}
	// The token works for nobody any more, the right machine included.
	wantCode(t, w.comes(t, token, "right", "10.0.0.7", &server), fault.Unauthenticated, agentwire.CodeTokenInvalid)
	// A new one does, and the right machine completes.
	if err := w.comes(t, w.bootstrap(t, n), "right", "10.0.0.7", &server); err != nil {
		t.Fatal(err)
	}
	if now := w.read(t, n.ID); now.IdentityVoid != "" || !now.HardwareSaid {
		t.Errorf("the node is %+v", now)
	}
}

func TestAttackAMachineThatIsSilentAboutItselfEnrols(t *testing.T) {
	w := newWorld(t)
	n, token := w.expected(t, false)
	wantCode(t, w.comes(t, token, "thief", "10.0.0.9", nil), fault.Forbidden, agentwire.CodeHardwareMissing)
	for said, field := range map[*hardware]string{
		{}: "system UUID", {MACs: server.MACs}: "system UUID",
		{ChassisSerial: server.ChassisSerial}: "system UUID",
	} {
		denies(t, w.comes(t, w.bootstrap(t, n), "thief", "10.0.0.9", said), agentwire.CodeHardwareMismatch, field)
	}
	if w.read(t, n.ID).AgentInstance != "" {
		t.Error("a silent machine is the node")
	}
}

// Machines broadcast their UUID when they ask for an address (DHCP option 97), from
// a MAC address that everybody sees. A thief who repeats both lacks the serials.
func TestAttackAThiefRepeatsWhatTheNetworkShows(t *testing.T) {
	w := newWorld(t)
	n, token := w.expected(t, false)
	network := hardware{UUID: server.UUID, MACs: server.MACs}
	denies(t, w.comes(t, token, "thief", "10.0.0.9", &network), agentwire.CodeHardwareMismatch,
		"system serial, board serial, chassis serial")
	for name, c := range map[string]struct {
		said  hardware
		field string
	}{
		"a serial of its own":     {but(func(h *hardware) { h.SystemSerial = "STRANGER1" }), "system serial"},
		"no serial of the board":  {but(func(h *hardware) { h.BoardSerial = "" }), "board serial"},
		"what vendors fill in":    {but(func(h *hardware) { h.SystemSerial = "To be filled by O.E.M." }), "system serial"},
		"zeros":                   {but(func(h *hardware) { h.BoardSerial = "00000000" }), "board serial"},
		"no interface":            {but(func(h *hardware) { h.MACs = nil }), "MAC addresses"},
		"an interface of no one":  {but(func(h *hardware) { h.MACs = []string{"00:00:00:00:00:00"} }), "MAC addresses"},
		"serials and no UUID":     {but(func(h *hardware) { h.UUID = "" }), "system UUID"},
		"another UUID, all other": {but(func(h *hardware) { h.UUID = stranger.UUID }), "system UUID"},
	} {
		t.Run(name, func(t *testing.T) {
			denies(t, w.comes(t, w.bootstrap(t, n), "thief", "10.0.0.9", &c.said), agentwire.CodeHardwareMismatch, c.field)
		})
	}
	if w.read(t, n.ID).AgentInstance != "" {
		t.Error("the thief is the node")
	}
}

// The thief comes first, and says of itself what it has overheard. When the right
// machine comes with the same token, nobody is the node.
func TestAttackATokenIsUsedByTwoKeysDuringOnboarding(t *testing.T) {
	w := newWorld(t)
	n, token := w.expected(t, false)
	thief := &agent{
		w: w, node: n.ID, key: "thief",
		Presented: node.Presented{Node: n.ID, Instance: "instance of thief", Session: "s1"},
	}
	if err := w.comes(t, token, "thief", "10.0.0.9", &server); err != nil {
		t.Fatal(err)
	}
	thief.certify(t, false)
	if err := thief.poll(t, "s1"); err != nil {
		t.Fatal(err)
	}
	before := len(w.signals(t))
	wantCode(t, w.comes(t, token, "right", "10.0.0.7", &server), fault.Unauthenticated, agentwire.CodeTokenInvalid)
	now := w.read(t, n.ID)
	if now.IdentityVoid == "" || now.FirstPollAt != nil || len(w.signals(t)) != before+1 {
		t.Errorf("the node is %+v", now)
	}
	wantCode(t, thief.poll(t, "s1"), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	if !slices.Contains(w.pki.revoked, thief.Serial) {
		t.Error("the PKI was not told")
	}
	wantCode(t, w.comes(t, token, "thief", "10.0.0.9", &server), fault.Unauthenticated, agentwire.CodeTokenInvalid)
}

// A token that is not spent yet, used by another key when the node is in service:
// which of the two is the node is not known, so nothing new gets on it.
func TestAttackAStolenTokenOfANodeInServiceHoldsIt(t *testing.T) {
	w := newWorld(t)
	n, token := w.make(t, "c1")
	a := &agent{w: w, node: n.ID, key: "k", Presented: node.Presented{
		Node: n.ID, Instance: "instance of k",
		Session: "s1",
	}}
	if err := w.comes(t, token, "k", "10.0.0.7", &server); err != nil {
		t.Fatal(err)
	}
	a.certify(t, false)
	if err := a.poll(t, "s1"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, w.comes(t, token, "thief", "10.0.0.9", &stranger), fault.Unauthenticated, agentwire.CodeTokenInvalid)
	if now := w.read(t, n.ID); now.Status != node.Active || now.Schedulable || now.HoldReason == "" ||
		now.IdentityVoid != "" {
		t.Errorf("the node is %+v", now)
	}
	if err := a.poll(t, "s1"); err != nil {
		t.Errorf("the agent of the node: %v", err)
	}
}

// pinned is a node that was added by hand, in service on the server.
func (w *world) pinned(tb testing.TB) *agent {
	tb.Helper()
	n, token := w.make(tb, "c1")
	a := &agent{w: w, node: n.ID, key: "k", Presented: node.Presented{
		Node: n.ID, Instance: "instance of k",
		Session: "s1",
	}}
	if err := w.comes(tb, token, "k", "10.0.0.7", &server); err != nil {
		tb.Fatal(err)
	}
	a.certify(tb, false)
	if err := a.poll(tb, "s1"); err != nil {
		tb.Fatal(err)
	}
	return a
}

func (w *world) recovery(tb testing.TB, a *agent) redact.Secret {
	tb.Helper()
	token, _, err := w.service.IssueToken(system(tb), a.node, node.Recovery, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

func TestAttackAnotherMachineRecoversANodeAddedByHand(t *testing.T) {
	w := newWorld(t)
	a := w.pinned(t)
	token := w.recovery(t, a)
	denies(t, w.comes(t, token, "thief", "10.0.0.9", &stranger), agentwire.CodeHardwareMismatch, "system serial")
	wantCode(t, w.comes(t, token, "thief", "10.0.0.9", &server), fault.Unauthenticated, agentwire.CodeTokenInvalid)
	wantCode(t, w.comes(t, w.recovery(t, a), "thief", "10.0.0.9", nil), fault.Forbidden, agentwire.CodeHardwareMissing)
	if now := w.read(t, a.node); now.Status != node.Active || now.Generation != 1 || now.IdentityVoid != "" {
		t.Errorf("the node is %+v", now)
	}
	if err := a.poll(t, "s1"); err != nil {
		t.Errorf("the machine itself: %v", err)
	}
	if err := w.comes(t, w.recovery(t, a), "next key", "10.0.0.7", &server); err != nil {
		t.Errorf("the machine itself: %v", err)
	}
}

func TestAReplacedMainboardIsAcceptedByAnOperator(t *testing.T) {
	w := newWorld(t)
	a := w.pinned(t)
	path := "/" + a.node.String()
	w.call(t, http.MethodPost, path+"/accept-hardware", "", object{"reason": "why not"}).Wants(t, http.StatusConflict,
		"hardware_not_refused")
	board := but(func(h *hardware) { h.UUID, h.BoardSerial = "4c4c4544-0042-3510-8052-b4c04f4d3200", "NEWBOARD7" })
	denies(t, w.comes(t, w.recovery(t, a), "new key", "10.0.0.7", &board), agentwire.CodeHardwareMismatch,
		"system UUID, board serial")
	var seen node.HardwareView
	w.call(t, http.MethodGet, path+"/hardware", "", nil).Decode(t, &seen)
	if seen.Origin != node.FromEnrolment || seen.Known.UUID != server.UUID || seen.Refused == nil ||
		seen.Refused.UUID != board.UUID ||
		!strings.Contains(seen.RefusedWhy, board.UUID) || !seen.Said {
		t.Errorf("%+v", seen)
	}
	w.callAs(t, "auditor", http.MethodPost, path+"/accept-hardware", "", object{"reason": "no"}).Wants(t,
		http.StatusForbidden, "insufficient_permissions")
	w.call(t, http.MethodPost, path+"/accept-hardware", "", object{"reason": ""}).Wants(t, http.StatusUnprocessableEntity,
		"validation_error")
	claim := seen.RefusedClaim
	seen = node.HardwareView{}
	w.call(t, http.MethodPost, path+"/accept-hardware", "",
		object{"reason": "mainboard replaced", "claim": claim}).Decode(t, &seen)
	if seen.Origin != node.FromOperator || seen.Known.UUID != board.UUID || seen.RefusedAt != nil ||
		w.audited(t, a.node, "node.accept_hardware") != 1 {
		t.Errorf("%+v", seen)
	}
	if err := w.comes(t, w.recovery(t, a), "new key", "10.0.0.7", &board); err != nil {
		t.Errorf("the accepted machine: %v", err)
	}
	denies(t, w.comes(t, w.recovery(t, a), "old key", "10.0.0.7", &server), agentwire.CodeHardwareMismatch, "system UUID")
	// MAAS has not looked since: it does not take the decision back.
	w.inTx(t, func(ctx context.Context, c tx) error { return node.Expect(ctx, c, a.node, server, false) })
	if m, err := w.service.MachineOf(t.Context(), a.node); err != nil || m.Known.UUID != board.UUID {
		t.Errorf("%+v, %v", m, err)
	}
}

// The operator reads the claim of the machine with the new mainboard. Before they
// accept it, another machine is refused: it is not the one that they have read.
func TestAttackAnotherClaimIsSlippedInBeforeAnOperatorAccepts(t *testing.T) {
	w := newWorld(t)
	a := w.pinned(t)
	path := "/" + a.node.String()
	hardwareOf := func() (v node.HardwareView) {
		w.call(t, http.MethodGet, path+"/hardware", "", nil).Decode(t, &v)
		return v
	}
	accept := func(with object) httpapitest.Answer {
		with["reason"] = "mainboard replaced"
		return w.call(t, http.MethodPost, path+"/accept-hardware", "", with)
	}
	board := but(func(h *hardware) { h.UUID, h.BoardSerial = "4c4c4544-0042-3510-8052-b4c04f4d3200", "NEWBOARD7" })
	denies(t, w.comes(t, w.recovery(t, a), "new key", "10.0.0.7", &board), agentwire.CodeHardwareMismatch,
		"system UUID, board serial")
	read := hardwareOf()
	denies(t, w.comes(t, w.recovery(t, a), "thief", "10.0.0.9", &stranger), agentwire.CodeHardwareMismatch, "system UUID")

	accept(object{}).Wants(t, http.StatusUnprocessableEntity, "hardware_claim_missing")
	changed := accept(object{"claim": read.RefusedClaim})
	changed.Wants(t, http.StatusConflict, "hardware_claim_changed")
	for _, want := range []string{stranger.UUID, "STRANGER1", stranger.MACs[0], "gpuaas node hardware NODE"} {
		if !strings.Contains(string(changed.Body), want) {
			t.Errorf("the refusal does not say %s: %s", want, changed.Body)
		}
	}
	if now := hardwareOf(); now.Known.UUID != server.UUID || now.RefusedClaim == read.RefusedClaim ||
		w.audited(t, a.node, "node.accept_hardware") != 0 {
		t.Errorf("the node is %+v", now)
	}
	// The machine comes again: it says the same, so that it is the claim that was read.
	denies(t, w.comes(t, w.recovery(t, a), "new key", "10.0.0.7", &board), agentwire.CodeHardwareMismatch,
		"system UUID, board serial")
	// One that says nothing takes nothing from the claim.
	denies(t, w.comes(t, w.recovery(t, a), "thief", "10.0.0.9", nil), agentwire.CodeHardwareMissing, "")
	var now node.HardwareView
	accept(object{"claim": read.RefusedClaim}).Decode(t, &now)
	if now.Known.UUID != board.UUID || now.Origin != node.FromOperator || now.RefusedClaim != "" {
		t.Errorf("the node is %+v", now)
	}
}

func TestTheSourceAddressIsAskedForWhereTheProfileSaysSo(t *testing.T) {
	w := newWorld(t)
	n, token := w.expected(t, true)
	wantCode(t, w.comes(t, token, "k", "10.0.0.7", &server), fault.Unavailable, "node_address_unknown")
	if err := w.service.ExpectFrom(t.Context(), n.ID, []string{"10.0.0.7", "10.0.1.7"}); err != nil {
		t.Fatal(err)
	}
	denies(t, w.comes(t, token, "k", "10.0.0.9", &server), agentwire.CodeAddressMismatch, "source address")
	if now := w.read(t, n.ID); !strings.Contains(now.IdentityVoid, "10.0.0.9") {
		t.Errorf("void because of %q", now.IdentityVoid)
	}
	if err := w.comes(t, w.bootstrap(t, n), "k", "10.0.0.7", &server); err != nil {
		t.Error(err)
	}
}

func TestTheSourceAddressIsOtherwiseOnlyNoted(t *testing.T) {
	w := newWorld(t)
	n, token := w.expected(t, false)
	if err := w.service.ExpectFrom(t.Context(), n.ID, []string{"10.0.0.7"}); err != nil {
		t.Fatal(err)
	}
	if err := w.comes(t, token, "k", "10.0.0.9", &server); err != nil {
		t.Fatal(err)
	}
	if got := w.count(t,
		`SELECT count(*) FROM node_events WHERE node_id = $1 AND cause LIKE '%from 10.0.0.9, which is not an address%'`,
		n.ID); got != 1 {
		t.Errorf("noted %d times", got)
	}
}

// An agent of the release before goes on; the machine is known once a newer one
// says which it is.
func TestAnAgentThatDoesNotSayWhichMachineItIsOnIsLearntLater(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "c1")
	if now := w.read(t, a.node); now.HardwareSaid {
		t.Errorf("the node is %+v", now)
	}
	a.certify(t, true)
	if err := a.poll(t, a.Session); err != nil {
		t.Errorf("an agent of the release before, renewed: %v", err)
	}
	report := agentwire.Report{Build: release, Capabilities: anything}
	if err := w.service.Report(t.Context(), a.node, report); err != nil {
		t.Fatal(err)
	}
	report.Hardware = &server
	if err := w.service.Report(t.Context(), a.node, report); err != nil {
		t.Fatal(err)
	}
	m, err := w.service.MachineOf(t.Context(), a.node)
	if err != nil || m.Origin != node.FromReport || m.Known.UUID != server.UUID || !w.read(t, a.node).HardwareSaid {
		t.Errorf("%+v, %v", m, err)
	}
	denies(t, w.comes(t, w.recovery(t, a), "thief", "10.0.0.9", &stranger), agentwire.CodeHardwareMismatch, "system UUID")
	// What an agent reports of another machine is told, and changes nothing known.
	report.Hardware, report.VerifierVersion = &stranger, 7
	if err := w.service.Report(t.Context(), a.node, report); err != nil {
		t.Fatal(err)
	}
	m, err = w.service.MachineOf(t.Context(), a.node)
	if err != nil || m.Known.UUID != server.UUID || m.Refused == nil || m.Refused.SystemSerial != "STRANGER1" {
		t.Errorf("%+v, %v", m, err)
	}
}
