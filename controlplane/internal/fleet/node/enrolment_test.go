package node_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/node"
)

func TestManualEnrolmentIsCompleteOnlyWithThePoll(t *testing.T) {
	w := newWorld(t)
	n, token := w.make(t, "c1")
	if n.Status != node.BootstrapIssued || n.Schedulable || n.GPUsTotal != 8 || n.Port != 22 || n.Host != "c1" ||
		n.LastDeliveryResult != "issued" {
		t.Fatalf("a fresh node is %+v", n)
	}
	a := &agent{w: w, node: n.ID, key: "k", Presented: node.Presented{Node: n.ID, Instance: "m1", Session: "s1"}}
	if err := a.begin(t, token); err != nil {
		t.Fatal(err)
	}
	if now := w.read(t, n.ID); now.Status != node.Enrolling || now.AgentInstance != "m1" || now.Generation != 1 ||
		now.ReportedAgentVersion != "1.0.0" {
		t.Errorf("after the token was used the node is %+v", now)
	}
	a.certify(t, false)
	if now := w.read(t, n.ID); now.Status != node.Enrolling || now.Schedulable || now.LastDeliveryResult != "enrolled" {
		t.Errorf("with a certificate alone the node is %+v", now)
	}
	for range 3 {
		if err := a.poll(t, "s1"); err != nil {
			t.Fatal(err)
		}
	}
	if now := w.read(t, n.ID); now.Status != node.Active || !now.Schedulable || now.LastContactAt == nil {
		t.Errorf("after its poll the node is %+v", now)
	}
	for event, want := range map[string]int64{
		"node.created": 1, "node.state_changed": 2, "node.enrolled": 1,
		"node.identity_conflict": 0,
	} {
		if got := w.told(t, n.ID, event); got != want {
			t.Errorf("%d events %s, want %d", got, event, want)
		}
	}
	for _, action := range []string{
		"node.create", "node.issue_token", "node.start_enrolment", "node.enrol",
		"node.enrolled",
	} {
		if got := w.audited(t, n.ID, action); got != 1 {
			t.Errorf("%d audit entries %s", got, action)
		}
	}
}

// Two polls that begin at once both see a node that is enrolling.
func TestThePollThatComesSecondChangesNothing(t *testing.T) {
	w := newWorld(t)
	a := w.enrol(t, "a")
	who, err := w.service.Authorize(t.Context(), a.Presented)
	if err != nil || who.Status != node.Enrolling {
		t.Fatalf("%+v %v", who, err)
	}
	for range 2 {
		if err := w.service.Polled(t.Context(), who); err != nil {
			t.Fatal(err)
		}
	}
	if told := w.told(t, a.node, "node.state_changed"); told != 2 {
		t.Errorf("%d changes were told", told)
	}
}

// A node of a workflow is not made active behind its back.
func TestThePollOfAWorkflowsNodeLeavesItsState(t *testing.T) {
	w := newWorld(t)
	var n node.Node
	w.inTx(t, func(ctx context.Context, c tx) (err error) {
		n, err = node.CreateInTx(ctx, c, node.NewNode{Hostname: "m1", SKU: someSKU, RegionCode: "eu-1", Mode: node.MAAS})
		return err
	})
	if n.Status != node.Enrolling {
		t.Fatalf("the node is %s", n.Status)
	}
	token, _, err := w.service.IssueToken(system(t), n.ID, node.Bootstrap, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{w: w, node: n.ID, key: "k", Presented: node.Presented{Node: n.ID, Instance: "m1", Session: "s1"}}
	if err := a.begin(t, token); err != nil {
		t.Fatal(err)
	}
	a.certify(t, false)
	if err := a.poll(t, "s1"); err != nil {
		t.Fatal(err)
	}
	if now := w.read(t, n.ID); now.Status != node.Enrolling {
		t.Errorf("the node is %s", now.Status)
	}
}

func TestEnrolmentIsRepeatedWhenTheAnswerWasLost(t *testing.T) {
	w := newWorld(t)
	n, token := w.make(t, "c1")
	a := &agent{w: w, node: n.ID, key: "k", Presented: node.Presented{Node: n.ID, Instance: "m1", Session: "s1"}}
	for range 3 {
		if err := a.begin(t, token); err != nil {
			t.Fatal(err)
		}
		a.certify(t, false)
	}
	if now := w.read(t, n.ID); now.Generation != 1 || now.Status != node.Enrolling {
		t.Errorf("the node is %+v", now)
	}
	if err := a.poll(t, "s1"); err != nil {
		t.Errorf("the newest certificate: %v", err)
	}
	if got := w.count(t, `SELECT count(*) FROM node_certificates WHERE revoked_at IS NULL`); got != 1 {
		t.Errorf("%d certificates work", got)
	}
	// The node is active now: the token that made it so is worth nothing.
	wantCode(t, a.begin(t, token), fault.Forbidden, agentwire.CodeNodeFenced)
}

func TestTokensThatAreRefused(t *testing.T) {
	w := newWorld(t)
	begin := func(token redact.Secret, key string) error {
		_, err := w.service.BeginEnrolment(t.Context(), token, key, "m", "host", release, anything, nil)
		return err
	}
	both := func(token redact.Secret, key, code string) {
		t.Helper()
		wantCode(t, begin(token, key), fault.Unauthenticated, code)
		_, err := w.service.TokenGrant(t.Context(), token)
		wantCode(t, err, fault.Unauthenticated, code)
	}
	both(redact.New(""), "k", agentwire.CodeTokenInvalid)
	both(redact.New("gpuaas_p"+strings.Repeat("x", 43)), "k", agentwire.CodeTokenInvalid)
	both(redact.New("gpuaas_n"+strings.Repeat("x", 43)), "k", agentwire.CodeTokenInvalid)

	used, token := w.make(t, "used")
	if err := begin(token, "first"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		both(token, "second", agentwire.CodeTokenInvalid)
	}
	both(token, "third", agentwire.CodeTokenInvalid)
	if told, audited := w.told(t, used.ID, "node.identity_conflict"),
		w.audited(t, used.ID, "node.identity_conflict")+w.audited(t, used.ID, "node.void_identity"); told != 2 ||
		audited != 2 {
		t.Errorf("two foreign keys were told %d times, audited %d times", told, audited)
	}

	reissued, older := w.make(t, "reissued")
	if _, _, err := w.service.IssueToken(system(t), reissued.ID, node.Bootstrap, 0); err != nil {
		t.Fatal(err)
	}
	both(older, "k", agentwire.CodeTokenInvalid)

	_, late := w.make(t, "late")
	if _, err := w.service.TokenGrant(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	w.later(15 * time.Minute)
	both(late, "k", agentwire.CodeTokenExpired)

	_, err := w.service.BeginEnrolment(t.Context(), late, "", "m", "h", release, anything, nil)
	wantCode(t, err, fault.Invalid, "enrolment_incomplete")
}

func TestTokensAreIssuedOnlyWhereTheyWork(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "c1")
	_, _, err := w.service.IssueToken(system(t), a.node, node.Bootstrap, 0)
	wantCode(t, err, fault.Conflict, "node_state_conflict")
	token, _, err := w.service.IssueToken(system(t), a.node, node.Recovery, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, ttl := range []time.Duration{time.Second, 8 * 24 * time.Hour} {
		_, _, err = w.service.IssueToken(system(t), a.node, node.Recovery, ttl)
		wantCode(t, err, fault.Invalid, "node_token_ttl")
	}
	w.drive(t, a.node, node.Drain, node.Drained)
	_, _, err = w.service.IssueToken(system(t), a.node, node.Recovery, 0)
	wantCode(t, err, fault.Conflict, "node_state_conflict")
	_, err = w.service.TokenGrant(t.Context(), token)
	wantCode(t, err, fault.Forbidden, agentwire.CodeNodeFenced)
	wantCode(t, a.begin(t, token), fault.Forbidden, agentwire.CodeNodeFenced)
	_, _, err = w.service.IssueToken(system(t), id.New[id.Node](), node.Bootstrap, 0)
	wantCode(t, err, fault.NotFound, "node_not_found")
}

func TestRecoveryTakesTheIdentityOver(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "c1")
	old := *a
	token, _, err := w.service.IssueToken(system(t), a.node, node.Recovery, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.key, a.Instance = "new key", "new board"
	if err := a.begin(t, token); err != nil {
		t.Fatal(err)
	}
	a.certify(t, false)
	now := w.read(t, a.node)
	if now.Status != node.Active || now.Generation != 2 || now.AgentInstance != "new board" {
		t.Errorf("the node is %+v", now)
	}
	if err := a.poll(t, "s9"); err != nil {
		t.Errorf("the new machine: %v", err)
	}
	wantCode(t, old.poll(t, old.Session), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
}

func TestATokenIsUsedByOneOfManyAtOnce(t *testing.T) {
	w := newWorld(t)
	n, token := w.make(t, "c1")
	const many = 8
	results := make([]error, many)
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			_, results[i] = w.service.BeginEnrolment(t.Context(), token, fmt.Sprint("key", i), "m", "host", release, anything,
				nil)
		})
	}
	group.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
			continue
		}
		wantCode(t, err, fault.Unauthenticated, agentwire.CodeTokenInvalid)
	}
	if won != 1 {
		t.Errorf("%d keys used the token", won)
	}
	if now := w.read(t, n.ID); now.Generation != 1 {
		t.Errorf("generation %d", now.Generation)
	}
}

// The plain text of a token is nowhere in the database.
func TestOfATokenOnlyTheHashIsKept(t *testing.T) {
	w := newWorld(t)
	a := w.call(t, "POST", "", "", object{"hostname": "c1", "sku": someSKU, "region_code": "eu-1"})
	var made node.NewView
	a.Decode(t, &made)
	token := strings.TrimPrefix(made.Bootstrap.Command, "bootstrap with ")
	n := &agent{
		w: w, node: made.Node.NodeID, key: "k",
		Presented: node.Presented{Node: made.Node.NodeID, Instance: "m", Session: "s"},
	}
	if err := n.begin(t, redact.New(token)); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{token, hex.EncodeToString([]byte(token)), strings.TrimPrefix(token, "gpuaas_n")} {
		for _, found := range w.search(t, form) {
			t.Errorf("the token is in %s", found)
		}
	}
	if got := w.search(t, made.Node.NodeID.String()); len(got) < 4 {
		t.Fatalf("the search finds nothing at all: %v", got)
	}
}

// search looks through every column of every table.
func (w *world) search(tb testing.TB, text string) []string {
	tb.Helper()
	rows, err := w.owner.Query(tb.Context(),
		`SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	if err != nil {
		tb.Fatal(err)
	}
	var tables, found []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			tb.Fatal(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil || len(tables) < 10 {
		tb.Fatalf("%d tables: %v", len(tables), err)
	}
	for _, table := range tables {
		if w.count(tb, `SELECT count(*) FROM `+table+` AS t WHERE t::text LIKE '%' || $1 || '%'`, text) > 0 {
			found = append(found, table)
		}
	}
	return found
}

func TestARevokedIdentityIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "c1")
	first := a.Serial
	a.certify(t, true)
	if err := a.poll(t, a.Session); err != nil {
		t.Fatal(err)
	}
	w.pki.failure = errors.New("sealed")
	err := w.service.RevokeIdentity(system(t), a.node, "the disk left the building")
	wantCode(t, err, fault.Unavailable, "node_revocation_incomplete")
	wantCode(t, a.poll(t, a.Session), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	// A certificate that was asked for before and is ready only now.
	err = w.service.RecordCertificate(t.Context(), a.node,
		node.Cert{Serial: "aa", KeyFingerprint: a.key, NotAfter: time.Now().Add(time.Hour)}, a.Serial)
	wantCode(t, err, fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	err = w.service.RecordCertificate(t.Context(), a.node,
		node.Cert{Serial: "ab", KeyFingerprint: a.key, NotAfter: time.Now().Add(time.Hour)}, "")
	wantCode(t, err, fault.Unauthenticated, agentwire.CodeTokenInvalid)

	w.pki.failure = nil
	if err := w.service.RevokeIdentity(system(t), a.node, "again"); err != nil {
		t.Fatal(err)
	}
	if len(w.pki.revoked) != 2 || !strings.Contains(strings.Join(w.pki.revoked, " "), first) {
		t.Errorf("the PKI took back %v", w.pki.revoked)
	}
	if now := w.read(t, a.node); now.Status != node.Active || now.Drift(time.Now()) != node.CertificateRepairOnly {
		t.Errorf("the node is %s, %s", now.Status, now.Drift(time.Now()))
	}
	if w.told(t, a.node, "node.identity_revoked") != 2 || w.audited(t, a.node, "node.revoke_identity") != 2 {
		t.Error("not told or audited")
	}
}

// What a certificate that was replaced asked for is not handed out, although the
// node has a good one by now.
func TestARenewalNeedsTheCertificateItWasAskedWith(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "c1")
	stolen := a.Serial
	token, _, err := w.service.IssueToken(system(t), a.node, node.Recovery, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.key = "key-new"
	if err := a.begin(t, token); err != nil {
		t.Fatal(err)
	}
	a.certify(t, false)
	other := w.active(t, "c2")
	cert := node.Cert{Serial: "aa", KeyFingerprint: a.key, NotAfter: time.Now().Add(time.Hour)}
	for name, serial := range map[string]string{"replaced": stolen, "of another node": other.Serial, "unknown": "ff"} {
		err := w.service.RecordCertificate(t.Context(), a.node, cert, serial)
		if fault.CodeOf(err) != agentwire.CodeCertificateRevoked {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.service.RecordCertificate(t.Context(), a.node, cert, strings.ToUpper(a.Serial)); err != nil {
		t.Errorf("the present one: %v", err)
	}
}

// All certificates are tried; one that the CA does not know any more is no
// reason to fail.
func TestRevocationTriesAllCertificates(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "c1")
	var serials []string
	for range 4 {
		serials = append(serials, a.Serial)
		a.certify(t, true)
	}
	w.pki.of = map[string]error{
		serials[0]: fault.New(fault.NotFound, "secret_not_found", "no such certificate"),
		serials[1]: errors.New("first failure"), serials[2]: errors.New("second failure"),
	}
	err := w.service.RevokeIdentity(system(t), a.node, "stolen")
	wantCode(t, err, fault.Unavailable, "node_revocation_incomplete")
	for _, part := range []string{"first failure", "second failure", serials[1], serials[2]} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
	if len(w.pki.revoked) != 2 {
		t.Errorf("taken back: %v, want the 2 that can be", w.pki.revoked)
	}
	delete(w.pki.of, serials[1])
	delete(w.pki.of, serials[2])
	if err := w.service.RevokeIdentity(system(t), a.node, "stolen"); err != nil {
		t.Errorf("with one that is not known: %v", err)
	}
}

// What hangs on an identity ends with it, or neither does.
func TestRevocationEndsWhatTheNodeHolds(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "c1")
	var told []id.Node
	w.onRevoked = func(ctx context.Context, tx pgx.Tx, node id.Node) error {
		told = append(told, node)
		_, err := tx.Exec(ctx, `UPDATE nodes SET host = 'ended' WHERE id = $1`, node)
		return err
	}
	if err := w.service.RevokeIdentity(system(t), a.node, "stolen"); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] != a.node || w.read(t, a.node).Host != "ended" {
		t.Errorf("told: %v", told)
	}
	b := w.active(t, "c2")
	w.onRevoked = func(context.Context, pgx.Tx, id.Node) error { return errors.New("no") }
	if err := w.service.RevokeIdentity(system(t), b.node, "stolen"); err == nil {
		t.Error("half a revocation succeeded")
	}
	if err := b.poll(t, b.Session); err != nil {
		t.Errorf("after a revocation that failed: %v", err)
	}
}
