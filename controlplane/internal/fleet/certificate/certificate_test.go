package certificate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	wire "gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/controlplane/internal/fleet/certificate"
	"gpuaas/stack/stacktest"
)

func TestWhatIsIssuedVerifiesAndIsChained(t *testing.T) {
	w := newWorld(t)
	var files []*wire.Signed
	for i := range 3 {
		d := w.draft()
		issued := w.issue(t, d)
		f := w.file(t, issued.ID)
		if issued.Seq != i+1 || f.Document.Seq != i+1 || f.Digest() != issued.Digest ||
			f.Document.Operation.DecommissionID != d.Decommission.String() ||
			f.Document.Node.ID != w.node.String() || f.Document.Issuer != "dc1" || len(f.Document.NotCovered) != 1 {
			t.Errorf("%+v: %+v", issued, f.Document)
		}
		files = append(files, f)
		w.clock = w.clock.Add(-time.Minute) // clocks of replicas differ; times in a chain still increase
	}
	chains, err := wire.Chains(files)
	if err != nil || len(chains) != 1 || !chains[0].Complete() {
		t.Error(chains, err)
	}
	if got := w.trace(t); got != (trace{3, 3, 3}) {
		t.Errorf("%+v", got)
	}
}

func TestTheSameEvidenceGetsOneDocument(t *testing.T) {
	w := newWorld(t)
	d := w.draft()
	first := w.issue(t, d)
	d.Body.Operation.Reason = "another one"
	if again := w.issue(t, d); again.ID != first.ID || again.Digest != first.Digest ||
		!again.IssuedAt.Equal(first.IssuedAt) {
		t.Errorf("%+v, then %+v", first, again)
	}
	if got := w.trace(t); got != (trace{1, 1, 1}) || w.engine.signings != 1 {
		t.Errorf("%+v, signed %d times", got, w.engine.signings)
	}
}

// Later evidence of an operation gets another document, which counts from then
// on. The former one stays as it was.
func TestLaterEvidenceGetsADocumentOfItsOwn(t *testing.T) {
	w := newWorld(t)
	d := w.draft()
	first := w.issue(t, d)
	d.EvidenceSeq, d.Body.Operation.Reason = d.EvidenceSeq+1, "once more"
	second := w.issue(t, d)
	if second.ID == first.ID || second.Seq != 2 || second.Previous != first.Digest ||
		w.file(t, second.ID).Document.Operation.Reason != "once more" {
		t.Errorf("%+v, then %+v", first, second)
	}
	d.EvidenceSeq--
	if again := w.issue(t, d); again.ID != first.ID {
		t.Errorf("the evidence of %s got %s", first.ID, again.ID)
	}
	if got := w.trace(t); got != (trace{2, 2, 2}) {
		t.Errorf("%+v", got)
	}
}

// Replicas that issue for one node at the same time make one chain, and one
// document per operation.
func TestRacesEndInOneChain(t *testing.T) {
	w := newWorld(t)
	const operations, replicas = 3, 2
	var wg sync.WaitGroup
	for range operations {
		d := w.draft()
		for range replicas {
			wg.Add(1)
			go func() {
				defer wg.Done()
				s := w.replica(w.engine)
				for {
					_, err := s.Issue(w.ctx, d)
					if err == nil {
						return
					}
					if fault.CodeOf(err) != "certificate_chain_busy" {
						t.Error(err)
						return
					}
				}
			}()
		}
	}
	wg.Wait()
	rows := listAll(t, w)
	files := make([]*wire.Signed, len(rows))
	for i, r := range rows {
		files[i] = w.file(t, r.CertificateID)
	}
	chains, err := wire.Chains(files)
	if err != nil || len(rows) != operations || len(chains) != 1 || !chains[0].Complete() {
		t.Errorf("%d documents, %v", len(rows), err)
	}
	if got := w.trace(t); got != (trace{operations, operations, operations}) {
		t.Errorf("%+v", got)
	}
}

func listAll(t *testing.T, w *world) []certificate.View {
	t.Helper()
	var list struct {
		Items []certificate.View `json:"items"`
	}
	rec := w.get(t, "auditor", "/admin/certificates")
	if err := json.Unmarshal(rec.Body, &list); err != nil || rec.Status != http.StatusOK {
		t.Fatal(rec.Status, rec.Body, err)
	}
	return list.Items
}

// If the chain grows while the engine signs, it is read again.
func TestTheEndOfTheChainMoves(t *testing.T) {
	w := newWorld(t)
	busy, moves := &engine{held: w.engine.held}, 0
	busy.signing = func() {
		if moves < 2 {
			moves++
			w.issue(t, w.draft())
		}
	}
	issued, err := w.replica(busy).Issue(w.ctx, w.draft())
	if err != nil || issued.Seq != 3 || busy.signings != 3 {
		t.Error(issued, err, busy.signings)
	}
	moves = -100
	if _, err := w.replica(busy).Issue(w.ctx, w.draft()); fault.CodeOf(err) != "certificate_chain_busy" ||
		fault.KindOf(err) != fault.Unavailable {
		t.Error(err)
	}
	// Somebody else issued a document about this very operation meanwhile.
	d := w.draft()
	busy.signing = func() { w.issue(t, d) }
	other, err := w.service.Issue(w.ctx, w.draft())
	if err != nil {
		t.Fatal(err)
	}
	if issued, err = w.replica(busy).Issue(w.ctx, d); err != nil || issued.Seq != other.Seq+1 {
		t.Error(issued, err)
	}
}

func TestNothingIsIssuedWithoutEvidence(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(d *certificate.Draft){
		"no evidence": func(d *certificate.Draft) { d.Body.Subjects[0].Evidence = nil },
		"not verified": func(d *certificate.Draft) {
			d.Body.Subjects[0].Verification = wire.Verification{Result: wire.NotVerifiable}
		},
		"not clean":  func(d *certificate.Draft) { d.Body.Validation.Clean = false },
		"wrong kind": func(d *certificate.Draft) { d.Kind = wire.Certificate },
	} {
		d := w.draft()
		change(&d)
		_, err := w.service.Issue(w.ctx, d)
		f, ok := fault.As(err)
		if !ok || f.Code != "certificate_unfounded" || f.Kind != fault.Conflict || len(f.Fields) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := w.trace(t); got != (trace{}) || w.engine.signings != 0 {
		t.Errorf("%+v, %d signatures", got, w.engine.signings)
	}
}

func TestTheEngineFails(t *testing.T) {
	w := newWorld(t)
	away := fault.New(fault.Unavailable, "secrets_unavailable", "the secrets engine cannot be reached")
	w.engine.fail = away
	if _, err := w.service.Issue(w.ctx, w.draft()); !errors.Is(err, away) {
		t.Error(err)
	}
	if rec := w.get(t, "guest", "/certificate-keys"); rec.Status != http.StatusServiceUnavailable {
		t.Error(rec.Status, rec.Body)
	}
	w.engine.fail = nil
	w.issue(t, w.draft())
	w.engine.fail = away
	if _, err := w.service.Issue(w.ctx, w.draft()); !errors.Is(err, away) {
		t.Error("the key is known, and signing fails:", err)
	}
	w.engine.fail = nil
	delete(w.engine.held, certificate.KeyName)
	if _, err := w.engine.CreateSigningKey(w.ctx, certificate.KeyName); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Issue(w.ctx, w.draft()); fault.CodeOf(err) != "certificate_key_changed" {
		t.Error("another key under the same name:", err)
	}
	if got := w.trace(t); got != (trace{1, 1, 1}) {
		t.Errorf("%+v", got)
	}
}

// The real engine, with the policy that the product ships.
func TestTheRealEngineSigns(t *testing.T) {
	w := newWorld(t)
	bao := stacktest.Bao(t)
	vault, err := secrets.Open(secrets.Config{
		Address: bao.Address, RoleIDFile: bao.RoleIDFile,
		SecretIDFile: bao.SecretIDFile, KVMount: "gpuaas-kv",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.service = w.replica(vault)
	w.file(t, w.issue(t, w.draft()).ID)
}

func TestTheAPIHandsOutTheVeryFile(t *testing.T) {
	w := newWorld(t)
	issued := w.issue(t, w.draft())
	raw, err := w.service.Signed(w.ctx, issued.ID)
	if err != nil {
		t.Fatal(err)
	}
	rec := w.get(t, "auditor", "/admin/certificates/"+issued.ID.String())
	if rec.Status != http.StatusOK || !bytes.Equal(rec.Body, append(raw, '\n')) {
		t.Errorf("%d\n%s\nis not\n%s", rec.Status, rec.Body, raw)
	}
	published := w.get(t, "guest", "/certificate-keys")
	keys, err := wire.ParseKeys(published.Body)
	if err != nil {
		t.Fatal(published.Status, published.Body, err)
	}
	if _, err := wire.Verify(rec.Body, keys); err != nil {
		t.Error(err)
	}
}

func TestListsAndWhoMayReadThem(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.issue(t, w.draft())
	}
	other := w.draft()
	other.Node = w.newNode(t, "c07u32")
	last := w.issue(t, other)
	count := func(path string) (n int, cursor string) {
		var list struct {
			Items      []certificate.View `json:"items"`
			NextCursor string             `json:"next_cursor"`
		}
		rec := w.get(t, "auditor", path)
		if err := json.Unmarshal(rec.Body, &list); err != nil || rec.Status != http.StatusOK {
			t.Fatal(path, rec.Status, rec.Body)
		}
		return len(list.Items), list.NextCursor
	}
	for path, want := range map[string]int{
		"/admin/certificates":                                                4,
		"/admin/certificates?node_id=" + w.node.String():                     3,
		"/admin/certificates?kind=certificate":                               0,
		"/admin/certificates?kind=handover_receipt":                          4,
		"/admin/nodes/" + w.node.String() + "/certificates":                  3,
		"/admin/nodes/" + other.Node.String() + "/certificates":              1,
		"/admin/nodes/" + w.node.String() + "/certificates?kind=certificate": 0,
	} {
		if got, _ := count(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	first, cursor := count("/admin/certificates?page_size=3")
	second, over := count("/admin/certificates?page_size=3&cursor=" + cursor)
	if first != 3 || second != 1 || over != "" {
		t.Error(first, second, over)
	}
	for path, want := range map[string][3]int{ // root, guest, nobody
		"/admin/certificates":                               {200, 403, 401},
		"/admin/certificates/" + last.ID.String():           {200, 403, 401},
		"/admin/certificates/" + id.NewString():             {404, 403, 401},
		"/admin/certificates/x":                             {422, 403, 401},
		"/admin/certificates?kind=x":                        {422, 403, 401},
		"/admin/nodes/" + id.NewString() + "/certificates":  {404, 403, 401},
		"/admin/nodes/" + w.node.String() + "/certificates": {200, 403, 401},
		"/certificate-keys":                                 {200, 200, 401},
	} {
		for i, who := range []string{"root", "guest", "stranger"} {
			if rec := w.get(t, who, path); rec.Status != want[i] {
				t.Errorf("%s as %s: %d, want %d: %s", path, who, rec.Status, want[i], rec.Body)
			}
		}
	}
}

// The application may not change or remove an issued document.
func TestWhatWasIssuedStays(t *testing.T) {
	w := newWorld(t)
	w.issue(t, w.draft())
	for _, sql := range []string{
		`UPDATE decommission_certificates SET digest = 'x'`,
		`DELETE FROM decommission_certificates`,
	} {
		if _, err := w.db.Exec(w.ctx, sql); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
