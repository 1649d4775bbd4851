package certificate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gpuaas/contract/certificate"
)

func TestNoClaimWithoutEvidence(t *testing.T) {
	first, _ := both(t)
	for name, tc := range map[string]struct {
		change func(d *certificate.Document)
		path   string
	}{
		"no evidence": {func(d *certificate.Document) { d.Subjects[0].Evidence = nil }, "/subjects/0/evidence"},
		"evidence digest": {
			func(d *certificate.Document) { d.Subjects[0].Evidence[0].Digest = "" },
			"/subjects/0/evidence/0/digest",
		},
		"evidence number": {
			func(d *certificate.Document) { d.Subjects[0].Evidence[0].Seq = 0 },
			"/subjects/0/evidence/0/seq",
		},
		"no evidence, none": {func(d *certificate.Document) { d.Subjects[3].Evidence = nil }, "/subjects/3/evidence"},
		"method":            {func(d *certificate.Document) { d.Subjects[1].Method = " " }, "/subjects/1/method"},
		"tool":              {func(d *certificate.Document) { d.Subjects[1].Tool = "" }, "/subjects/1/tool"},
		"coverage":          {func(d *certificate.Document) { d.Subjects[1].CoveredBytes = 0 }, "/subjects/1/covered_bytes"},
		"too much coverage": {func(d *certificate.Document) { d.Subjects[1].CoveredBytes++ }, "/subjects/1/covered_bytes"},
		"hidden shortfall":  {func(d *certificate.Document) { d.NotCovered = nil }, "/subjects/0/covered_bytes"},
		"not verified": {
			func(d *certificate.Document) { d.Subjects[1].Verification.Result = certificate.NotVerifiable },
			"/subjects/1/verification/result",
		},
		"failed": {
			func(d *certificate.Document) { d.Subjects[1].Verification.Result = certificate.NotPassed },
			"/subjects/1/verification/result",
		},
		"canary survived": {
			func(d *certificate.Document) { d.Subjects[1].Verification.CanariesFound = 1 },
			"/subjects/1/verification/canaries_found",
		},
		"unclean sample": {
			func(d *certificate.Document) { d.Subjects[1].Verification.SamplesUnclean = 1 },
			"/subjects/1/verification/samples_unclean",
		},
		"nothing read": {
			func(d *certificate.Document) { d.Subjects[1].Verification.BytesRead = 0 },
			"/subjects/1/verification/bytes_read",
		},
		"how": {
			func(d *certificate.Document) { d.Subjects[1].Verification.How = "" },
			"/subjects/1/verification/how",
		},
		"liar with a level": {
			func(d *certificate.Document) { d.Subjects[2].Level = certificate.Clear },
			"/subjects/2/outcome",
		},
		"seen by MAAS":    {func(d *certificate.Document) { d.Subjects[1].ObservedBy = "maas" }, "/subjects/1/observed_by"},
		"unknown level":   {func(d *certificate.Document) { d.Subjects[1].Level = "destroy" }, "/subjects/1/level"},
		"kind of subject": {func(d *certificate.Document) { d.Subjects[1].Kind = "maas_release" }, "/subjects/1/kind"},
		"times":           {func(d *certificate.Document) { d.Subjects[1].EndedAt = at(1) }, "/subjects/1/ended_at"},
		"report":          {func(d *certificate.Document) { d.Reported[0].Evidence = nil }, "/reported/0/evidence"},
		"risk of downgrade": {
			func(d *certificate.Document) { d.Downgrades[0].ResidualRisk = "" },
			"/downgrades/0/residual_risk",
		},
		"who overrode":  {func(d *certificate.Document) { d.Overrides[0].By = "" }, "/overrides/0/by"},
		"not validated": {func(d *certificate.Document) { d.Operation.Mode = "reimage" }, "/validation"},
		"receipt":       {func(d *certificate.Document) { d.Kind = certificate.HandoverReceipt }, "/kind"},
		"mode":          {func(d *certificate.Document) { d.Operation.Mode = "drain" }, "/operation/mode"},
		"requester":     {func(d *certificate.Document) { d.Operation.RequestedBy = "" }, "/operation/requested_by"},
		"chain":         {func(d *certificate.Document) { d.Previous.Digest = "" }, "/previous/digest"},
		"number":        {func(d *certificate.Document) { d.Seq = 3 }, "/previous/seq"},
		"first":         {func(d *certificate.Document) { d.Seq, d.Previous.Seq = 1, 0 }, "/previous/digest"},
		"node":          {func(d *certificate.Document) { d.Node.ID = "x" }, "/node/id"},
		"format":        {func(d *certificate.Document) { d.Format = "gpuaas.certificate/2" }, "/format"},
		"issuer":        {func(d *certificate.Document) { d.Issuer = "" }, "/issuer"},
	} {
		d := decommissioned(first)
		tc.change(&d)
		_, err := certificate.Prepare(d, keyID)
		var bad *certificate.FieldError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), tc.path+":") {
			t.Errorf("%s: got %v, want something about %s", name, err, tc.path)
		}
	}
}

func TestValidationOrOverride(t *testing.T) {
	override := []certificate.Override{{
		Stage: certificate.ValidateStage, By: "Grace", Why: "w", ResidualRisk: "r",
		At: at(3),
	}}
	for name, tc := range map[string]struct {
		change func(d *certificate.Document)
		right  bool
	}{
		"clean":                {func(*certificate.Document) {}, true},
		"none":                 {func(d *certificate.Document) { d.Validation = nil }, false},
		"none, overridden":     {func(d *certificate.Document) { d.Validation, d.Overrides = nil, override }, true},
		"nothing looked at":    {func(d *certificate.Document) { d.Validation.Looked = nil }, false},
		"no evidence":          {func(d *certificate.Document) { d.Validation.Evidence = nil }, false},
		"unclean, no findings": {func(d *certificate.Document) { d.Validation.Clean = false }, false},
		"clean, findings": {func(
			d *certificate.Document,
		) {
			d.Validation.Findings = []certificate.Finding{{Kind: "users"}}
		}, false},
		"findings": {func(d *certificate.Document) {
			d.Validation.Clean, d.Validation.Findings = false, []certificate.Finding{{Kind: "users"}}
		}, false},
		"findings, overridden": {func(d *certificate.Document) {
			d.Validation.Clean, d.Validation.Findings, d.Overrides = false, []certificate.Finding{{Kind: "users"}}, override
		}, true},
		"overridden another time": {func(d *certificate.Document) {
			d.Validation = nil
			d.Overrides = []certificate.Override{{Stage: "drain_node", By: "G", Why: "w", ResidualRisk: "r"}}
		}, false},
	} {
		d := receipt()
		tc.change(&d)
		if err := d.Validate(); (err == nil) != tc.right {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShortfallsAreNoted(t *testing.T) {
	d := receipt()
	d.NotCovered = nil
	d.NoteShortfalls()
	d.NoteShortfalls()
	if len(d.NotCovered) != 1 || d.NotCovered[0].Subject != "GPU-1" || d.Validate() != nil {
		t.Errorf("%+v %v", d.NotCovered, d.Validate())
	}
}

// A missing list becomes an empty one in the file, and the caller's own
// document stays as it was.
func TestListsAreNeverNull(t *testing.T) {
	d := receipt()
	s := signed(t, d)
	if bytes.Contains(s.Bytes(), []byte("null")) || d.Overrides != nil || d.Validation.Findings != nil {
		t.Errorf("%s", s.Bytes())
	}
	if want, err := certificate.DigestOf([]byte("[]")); err != nil || s.Fields["/overrides"] != want {
		t.Error("an empty list has no digest")
	}
}

func TestRenderings(t *testing.T) {
	first, second := both(t)
	file, err := json.MarshalIndent(certificate.Keys{Keys: keys()}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "keys.json", append(file, '\n'))
	for name, s := range map[string]*certificate.Signed{"handover_receipt": first, "certificate": second} {
		var text, html bytes.Buffer
		if err := errors.Join(s.Text(&text), s.HTML(&html)); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", append(s.Bytes(), '\n'))
		golden(t, name+".txt", text.Bytes())
		golden(t, name+".html", html.Bytes())
		for _, shown := range []string{text.String(), html.String()} {
			for _, word := range []string{"attest", "certified", "guarantee", "\x1b", "\u202e"} {
				if strings.Contains(strings.ToLower(shown), word) {
					t.Errorf("%s says %q", name, word)
				}
			}
		}
		for _, never := range []string{"<script", "http://", "https://", "<link", "<img", "@import"} {
			if strings.Contains(html.String(), never) {
				t.Errorf("the page of %s has %q", name, never)
			}
		}
	}
	if first.Document.Operation.Reason != "next tenant" || !strings.Contains(second.Document.Operation.Reason, "\x1b") {
		t.Error("showing a document changed it")
	}
}

// An installation that somebody had root on can say anything: it claims no
// level, and is enough only if an operator says so in words.
func TestAttackWhatIsNotIndependentClaimsNothing(t *testing.T) {
	had := at(1)
	accepted := []certificate.Override{{Stage: certificate.RootTaint, By: "Grace", Why: "w", ResidualRisk: "r", At: at(3)}}
	for name, tc := range map[string]struct {
		change func(d *certificate.Document)
		right  bool
	}{
		"independent": {func(d *certificate.Document) {
			d.Access = &certificate.Access{Had: certificate.RootAccess, Cause: "sudo", At: &had}
			d.Installation = &certificate.Installation{Independent: true}
		}, true},
		"a level": {func(d *certificate.Document) { d.Subjects[0].NotIndependent = "root" }, false},
		"a look":  {func(d *certificate.Document) { d.Validation.NotIndependent = "root" }, false},
		"a look, accepted": {
			func(d *certificate.Document) { d.Validation.NotIndependent, d.Overrides = "root", accepted },
			true,
		},
		"an installation": {func(d *certificate.Document) { d.Installation = &certificate.Installation{} }, false},
		"an installation, accepted": {func(d *certificate.Document) {
			d.Installation, d.Overrides = &certificate.Installation{}, accepted
		}, true},
		"root without how": {func(d *certificate.Document) {
			d.Access = &certificate.Access{
				Had: certificate.RootAccess,
				At:  &had,
			}
		}, false},
		"user without when": {
			func(d *certificate.Document) { d.Access = &certificate.Access{Had: certificate.UserAccess} },
			false,
		},
		"something else": {func(d *certificate.Document) { d.Access = &certificate.Access{Had: "all"} }, false},
	} {
		d := receipt()
		tc.change(&d)
		if err := d.Validate(); (err == nil) != tc.right {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoTestifiesIsShown(t *testing.T) {
	had, made := at(1), at(2)
	d := receipt()
	d.Access = &certificate.Access{Had: certificate.RootAccess, Cause: "physical_console", At: &had}
	d.Installation = &certificate.Installation{Independent: true, MadeAt: &made, MadeBy: "decommission 7", Generation: 2}
	d.Subjects = append(d.Subjects, d.Subjects[0])
	last := &d.Subjects[len(d.Subjects)-1]
	last.Outcome, last.Level, last.NotIndependent = certificate.Done, certificate.None, "somebody had root on it"
	s := signed(t, d)
	if _, err := certificate.Verify(s.Bytes(), keys()); err != nil {
		t.Fatal(err)
	}
	var text, html bytes.Buffer
	if err := errors.Join(s.Text(&text), s.HTML(&html)); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{text.String(), html.String()} {
		for _, says := range []string{"root (physical console), last at", "by decommission 7", "somebody had root on it"} {
			if !strings.Contains(shown, says) {
				t.Errorf("it does not say %q", says)
			}
		}
	}
}
