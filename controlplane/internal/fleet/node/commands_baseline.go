package node

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// SignedBaseline is a baseline whose signature was verified.
type SignedBaseline struct {
	Inventory agentwire.Inventory
	Raw       []byte // what was signed
	Signature []byte
	Serial    string // serial of the certificate whose key signed it
}

// KeepBaseline stores the baseline of an installation, as long as no tenant had
// access to it: somebody with access could have written it.
func (s *Service) KeepBaseline(ctx context.Context, node id.Node, b SignedBaseline) (
	agentwire.BaselineResponse, error,
) {
	var answer agentwire.BaselineResponse
	err := s.inChange(asAgent(ctx, node), func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		open, refusal, err := c.baselineOpen(ctx, n, b.Inventory.Installation)
		if err != nil || refusal != "" {
			answer = agentwire.BaselineResponse{Outcome: agentwire.BaselineClosed, Reason: refusal}
			return err
		}
		answer = agentwire.BaselineResponse{Outcome: agentwire.BaselineKept}
		sum := sha256.Sum256(b.Raw)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		if open.Digest == digest {
			return nil
		}
		content, err := pack(b.Raw)
		if err != nil {
			return err
		}
		err = c.SetBaseline(ctx, nodedb.SetBaselineParams{
			NodeID: node, Generation: open.Generation, Installation: b.Inventory.Installation, Content: content, Digest: digest,
			Signature: b.Signature, CertificateSerial: b.Serial, TakenAt: &b.Inventory.TakenAt,
		})
		if err != nil {
			return fmt.Errorf("keep baseline of node: %w", err)
		}
		return c.audit(ctx, n, entry{action: "node.keep_baseline", metadata: map[string]any{
			"digest": digest, "serial": b.Serial, "entries": len(b.Inventory.Entries), "replaces": open.Digest,
		}})
	})
	return answer, err
}

// baselineOpen says why a baseline of the present installation is no longer
// accepted, or "" if it is.
func (c change) baselineOpen(ctx context.Context, n Node, installation string) (
	open nodedb.NodeBaseline, refusal string, err error,
) {
	open, err = c.NewestBaseline(ctx, n.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return open, "the node enrolled before baselines were kept; its next installation gets one", nil
	}
	if err != nil {
		return open, "", fmt.Errorf("read baseline of node: %w", err)
	}
	if n.TaintedAt == nil {
		return open, "", nil
	}
	switch {
	case !n.TaintedAt.Before(open.OpenedAt):
		return open, "somebody had access to this installation already", nil
	case n.OnboardingMode == Manual:
		return open, "somebody had access to this machine, and nobody here saw it being installed since", nil
	}
	if installation == "" {
		return open, "", nil
	}
	again, err := c.EarlierBaseline(ctx, nodedb.EarlierBaselineParams{
		NodeID: n.ID, Generation: open.Generation,
		Installation: installation,
	})
	if err != nil {
		return open, "", fmt.Errorf("read earlier baselines of node: %w", err)
	}
	if again {
		refusal = "this is the installation that the node had before, and its baseline stays the one that was taken first"
	}
	return open, refusal, nil
}

// openBaseline records that the baseline of an installation is expected, when
// it enrols for the first time. An enrolment with a recovery token keeps the
// earlier installation.
func (c change) openBaseline(ctx context.Context, n Node, purpose Purpose) error {
	if purpose != Bootstrap {
		return nil
	}
	if err := c.OpenBaseline(ctx, nodedb.OpenBaselineParams{NodeID: n.ID, Generation: n.Generation}); err != nil {
		return fmt.Errorf("await baseline of node: %w", err)
	}
	return nil
}

// AmendBaseline adds the changes that a task made to the installation of a
// node, in the transaction that ends the task.
func AmendBaseline(ctx context.Context, tx pgx.Tx, node id.Node, task id.NodeTask, taskType, serial string,
	a agentwire.Amendment,
) error {
	entries, err := json.Marshal(a.Entries)
	if err != nil {
		return fmt.Errorf("encode amendment of baseline: %w", err)
	}
	err = nodedb.New(tx).InsertAmendment(ctx, nodedb.InsertAmendmentParams{
		TaskID: task, NodeID: node, TaskType: taskType, Entries: entries, Signature: a.Signature, CertificateSerial: serial,
	})
	if err != nil {
		return fmt.Errorf("amend baseline of node: %w", err)
	}
	return nil
}

// PresentBaseline returns the installation whose baseline the node delivered at
// its last enrolment. ok is false if none has come. An agent that delivered a
// baseline can report its installation at any time.
func (s *Service) PresentBaseline(ctx context.Context, node id.Node) (installation string, ok bool, err error) {
	installation, err = s.reads.PresentBaseline(ctx, node)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read present baseline of node: %w", err)
	}
	return installation, true, nil
}

// BaselineOf reads the baseline of an installation of a node. ok is false if
// there is none.
func (s *Service) BaselineOf(ctx context.Context, node id.Node, installation string) (b Baseline, ok bool, err error) {
	row, err := s.reads.BaselineOf(ctx, nodedb.BaselineOfParams{NodeID: node, Installation: installation})
	if errors.Is(err, pgx.ErrNoRows) {
		return Baseline{}, false, nil
	}
	if err != nil {
		return Baseline{}, false, fmt.Errorf("read baseline of node: %w", err)
	}
	raw, err := unpack(row.Content)
	if err != nil {
		return Baseline{}, false, err
	}
	var taken agentwire.Inventory
	if err := json.Unmarshal(raw, &taken); err != nil {
		return Baseline{}, false, fmt.Errorf("decode baseline of node: %w", err)
	}
	lists := [][]agentwire.Entry{taken.Entries}
	amendments, err := s.reads.Amendments(ctx, nodedb.AmendmentsParams{NodeID: node, Generation: row.Generation})
	if err != nil {
		return Baseline{}, false, fmt.Errorf("read amendments of baseline: %w", err)
	}
	for _, text := range amendments {
		var entries []agentwire.Entry
		if err := json.Unmarshal(text, &entries); err != nil {
			return Baseline{}, false, fmt.Errorf("decode amendment of baseline: %w", err)
		}
		lists = append(lists, entries)
	}
	b = newBaseline(lists...)
	b.TakenAt, b.Digest, b.Serial, b.covers = taken.TakenAt, row.Digest, row.CertificateSerial, taken.Covers
	return b, true, nil
}

func pack(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write(raw); err != nil {
		return nil, fmt.Errorf("compress baseline: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress baseline: %w", err)
	}
	return out.Bytes(), nil
}

func unpack(content []byte) ([]byte, error) {
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("read baseline of node: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(zip, 2*agentwire.MaxInventory))
	if err != nil {
		return nil, fmt.Errorf("read baseline of node: %w", err)
	}
	return raw, nil
}
