package certificate_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/certificate"
)

var update = flag.Bool("update", false, "write the golden files")

const keyID = "gpuaas-certificates-1"

// private is a key for tests only. It is always the same, so the files are too.
func private() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

func keys() []certificate.Key {
	return []certificate.Key{{
		KeyID: keyID, Algorithm: certificate.Algorithm,
		PublicKey: private().Public().(ed25519.PublicKey),
	}}
}

func at(minute int) time.Time { return time.Date(2026, 3, 4, 5, minute, 7, 0, time.UTC) }

func evidence(seq int64, stage, kind string) []certificate.Evidence {
	return []certificate.Evidence{{Seq: seq, Stage: stage, Kind: kind, Digest: "sha256:" + strings.Repeat("ab", 32)}}
}

// receipt is the handover receipt of a soft reset, the first document of its node.
func receipt() certificate.Document {
	return certificate.Document{
		Format: certificate.Format, Kind: certificate.HandoverReceipt, ID: "0190b2f4-7c1e-7d3a-8f5b-0000000000c1", Seq: 1,
		Issuer: "dc1", IssuedAt: at(20),
		Node: certificate.Node{
			ID: "0190b2f4-7c1e-7d3a-8f5b-00000000000c", Hostname: "c07u31",
			SKU: "h200-sxm-baremetal-8g", Region: "eu-1",
		},
		Machine: certificate.Machine{
			SystemID: "x7k2ab",
			Serials:  []certificate.Serial{{Part: "gpu", Name: "0", Value: "GPU-1", Source: "agent"}},
		},
		Operation: certificate.Operation{
			DecommissionID: "0190b2f4-7c1e-7d3a-8f5b-0000000000d1", Mode: "soft_reset", Reason: "next tenant",
			RequestedBy: "Ada",
			RequestedAt: at(1), StartedAt: at(2), EndedAt: at(19),
			Actors: []certificate.Actor{{Name: "Ada", Did: "asked for it", At: at(1)}},
		},
		Subjects: []certificate.Subject{{
			Kind: "gpu", Identifier: "GPU-1", ObservedBy: certificate.Agent, Outcome: certificate.Sanitized,
			Method: "overwrite_verify_zero", Level: certificate.Clear,
			CoveredBytes: 995, TotalBytes: 1000,
			Verification: certificate.Verification{
				How: "all covered memory read back", Samples: 1, BytesRead: 995,
				Result: certificate.Passed,
			},
			Tool: "gpuaas-gpu", ToolVersion: "1.2.3", StartedAt: at(5), EndedAt: at(6),
			Evidence: evidence(3, "scrub_gpu", "gpu_scrub"),
		}},
		Validation: &certificate.Validation{
			At: at(18), ObservedBy: certificate.Agent, Clean: true,
			Looked: []certificate.Look{
				{Kind: "users", Result: "clean", Detail: "31 accounts"},
				{Kind: "gpu_memory", Result: "clean"},
			},
			Evidence: evidence(4, "validate_clean_node", "validate_clean"),
		},
		NotCovered: []certificate.Gap{{
			Subject: "GPU-1", What: "5 of 1000 bytes of gpu GPU-1",
			Why: "the method did not reach them",
		}},
	}
}

// decommissioned is the certificate of a full decommission with everything that
// it can contain, including texts that try to be more than text.
func decommissioned(previous *certificate.Signed) certificate.Document {
	d := receipt()
	d.Kind, d.ID, d.Seq, d.IssuedAt = certificate.Certificate, "0190b2f4-7c1e-7d3a-8f5b-0000000000c2", 2, at(50)
	d.Previous = certificate.Previous{Seq: 1, Digest: previous.Digest()}
	d.Operation.DecommissionID, d.Operation.Mode, d.Operation.Reason = "0190b2f4-7c1e-7d3a-8f5b-0000000000d2",
		"full_decommission", "end of life <script>alert(1)</script> \x1b[31m\u202e"
	d.Operation.Actors = append(d.Operation.Actors,
		certificate.Actor{Name: "Grace", Did: "continued without drain_node", At: at(30)})
	d.Subjects = append(d.Subjects, certificate.Subject{
		Kind: "disk", Identifier: "S5P2NG0R", Description: "/dev/nvme0n1 at /share1", ObservedBy: certificate.Agent,
		Outcome: certificate.Sanitized,
		Method:  "nvme_sanitize_crypto", Level: certificate.Purge, CoveredBytes: 1920383410176, TotalBytes: 1920383410176,
		Verification: certificate.Verification{
			How: "canaries probed, random places read", Samples: 4096,
			BytesRead: 268435456, CanariesPlanted: 64, Result: certificate.Passed,
		},
		Tool: "nvme-cli", ToolVersion: "2.4", StartedAt: at(7), EndedAt: at(9),
		Evidence: evidence(5, "cleanup_storage", "storage_cleanup"),
	}, certificate.Subject{
		Kind: "disk", Identifier: "LIAR01", Description: "/dev/sdb at /share2", ObservedBy: certificate.Agent,
		Outcome: certificate.Failed,
		Detail:  "3 of 64 canaries were still there", Method: "blkdiscard", Level: certificate.None,
		TotalBytes: 1000204886016,
		Verification: certificate.Verification{
			How: "canaries probed", CanariesPlanted: 64, CanariesFound: 3,
			Result: certificate.NotPassed,
		},
		Tool: "blkdiscard", StartedAt: at(7), EndedAt: at(9),
		Evidence: evidence(5, "cleanup_storage", "storage_cleanup"),
	}, certificate.Subject{
		Kind: "power", Identifier: "x7k2ab", ObservedBy: certificate.ControlPlane, Outcome: certificate.Done,
		Detail: "the BMC says off", Level: certificate.None,
		Verification: certificate.Verification{Result: certificate.NotVerifiable}, StartedAt: at(40), EndedAt: at(41),
		Evidence: evidence(8, "power_off_maas_node", "power_off"),
	})
	d.Validation = nil
	d.Reported = []certificate.Report{{
		By: "MAAS", Subject: "x7k2ab", Statement: "Released; erase quick was asked for",
		At: at(35), Evidence: evidence(7, "release_maas_node", "release"),
	}}
	d.NotCovered = append(d.NotCovered, certificate.Gap{What: "firmware of BMC and NICs", Why: "no tool here looks at it"})
	d.Downgrades = []certificate.Downgrade{{
		Subject: "x7k2ab", Requested: "secure", Achieved: "quick", Why: "the disks do not support it",
		DecidedBy: "policy of profile default", At: at(34), ResidualRisk: "data may be recoverable with laboratory means",
	}}
	d.Overrides = []certificate.Override{{
		Stage: "drain_node", By: "Grace", Why: "the agent is gone",
		ResidualRisk: "sessions may have been open", At: at(30),
	}}
	return d
}

func signed(tb testing.TB, d certificate.Document) *certificate.Signed {
	tb.Helper()
	u, err := certificate.Prepare(d, keyID)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := u.Seal(ed25519.Sign(private(), u.Message()))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// both are the two documents of a node.
func both(tb testing.TB) (first, second *certificate.Signed) {
	tb.Helper()
	first = signed(tb, receipt())
	return first, signed(tb, decommissioned(first))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not as it was:\n%s", path, got)
	}
}

// edited returns a file with changed members, encoded as anybody would.
func edited(tb testing.TB, s *certificate.Signed, change func(file map[string]any)) []byte {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(s.Bytes()))
	d.UseNumber()
	var file map[string]any
	if err := d.Decode(&file); err != nil {
		tb.Fatal(err)
	}
	change(file)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(file); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}
