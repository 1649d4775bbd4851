package agentrelease

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentpackage"
	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/fleet/agentrelease/internal/agentreleasedb"
)

// Begin opens the upload of a release, or finds the one that was interrupted. Nothing
// is stored of a release that nobody with a release key has signed.
func (s *Service) Begin(ctx context.Context, r agentpackage.Signed) (blob.Upload, error) {
	if err := s.believe(r); err != nil {
		return blob.Upload{}, err
	}
	var upload blob.Upload
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if err := free(ctx, agentreleasedb.New(tx), r.Statement.Version); err != nil {
			return err
		}
		upload, err = blob.Begin(ctx, tx, blob.Announced{
			Purpose: purpose(r.Statement.Version), Digest: r.Statement.Digest, Size: r.Statement.Size,
			Most: agentpackage.MaxSize,
		})
		return err
	})
	return upload, err
}

// believe refuses a statement that is not sound, or not signed by one of the keys.
func (s *Service) believe(r agentpackage.Signed) error {
	if field, problem := r.Statement.Check(); field != "" {
		return fault.New(fault.Invalid, "agent_release_invalid", "the statement about the release is not sound: %s %s", field,
			problem).WithFields(fault.Field{Path: "body.statement." + field, Message: problem}).
			WithRemedy("build the release again: gpuaas agent release build")
	}
	switch {
	case len(s.keys) == 0:
		return fault.New(fault.Conflict, "agent_release_no_keys", "this control plane believes no release key").
			WithRemedy("name the public keys of those who build releases in nodes.release_keys")
	case len(r.Signature) == 0:
		return fault.New(fault.Invalid, "agent_release_unsigned", "release %s is not signed", r.Statement.Version).
			WithRemedy("sign it with a release key: gpuaas agent release build --key FILE")
	case !r.By(s.keys):
		return fault.New(fault.Invalid, "agent_release_untrusted",
			"release %s is not signed by a release key of this control plane (its key is %.32q)", r.Statement.Version, r.KeyID).
			WithRemedy("sign it with one of the keys of nodes.release_keys, and do not change its statement afterwards")
	}
	return nil
}

// free refuses a version that was given before.
func free(ctx context.Context, q *agentreleasedb.Queries, version string) error {
	switch _, err := q.Release(ctx, version); {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return fmt.Errorf("look for release: %w", err)
	default:
		return fault.New(fault.Conflict, "agent_release_version_taken", "release %s is there already, or was withdrawn",
			version).
			WithRemedy("a version is given once: build the release with another one")
	}
	b, err := q.Blocked(ctx, version)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for blocked version: %w", err)
	}
	return blocked(version, b.Reason)
}

// Add takes a part of an upload.
func (s *Service) Add(ctx context.Context, version string, upload id.BlobUpload, offset int64, part []byte,
) (blob.Upload, error) {
	var after blob.Upload
	if err := checkVersion(version); err != nil {
		return after, err
	}
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		after, err = blob.Append(ctx, tx, upload, purpose(version), offset, part)
		return err
	})
	return after, err
}

// Complete makes a release of an upload that is there whole, after it has looked into
// the archive.
func (s *Service) Complete(ctx context.Context, upload id.BlobUpload, r agentpackage.Signed) (Release, error) {
	if err := s.believe(r); err != nil {
		return Release{}, err
	}
	reader, writer := io.Pipe()
	type looked struct {
		contents agentpackage.Contents
		err      error
	}
	seen := make(chan looked, 1)
	go func() {
		contents, err := agentpackage.Read(bufio.NewReader(reader))
		_, _ = io.Copy(io.Discard, reader) // what is wrong with the archive is told, not that nobody reads on
		seen <- looked{contents, err}
	}()
	var made Release
	err := blob.Store{DB: s.db}.Complete(ctx, upload, purpose(r.Statement.Version), writer,
		func(ctx context.Context, tx pgx.Tx, b blob.Blob) error {
			_ = writer.Close() // of a pipe: it never fails
			got := <-seen
			seen <- got // a transaction may be tried again
			if err := fits(r.Statement, b, got.contents, got.err); err != nil {
				return err
			}
			var err error
			made, err = insert(ctx, tx, r, got.contents)
			return err
		})
	_ = writer.CloseWithError(io.ErrClosedPipe) // so that nobody waits for an upload that failed
	return made, err
}

// fits refuses an archive that is not what its statement says.
func fits(s agentpackage.Statement, b blob.Blob, c agentpackage.Contents, unreadable error) error {
	switch {
	case b.Digest != s.Digest || b.Size != s.Size:
		return fault.New(fault.Invalid, "agent_release_mismatch", "the upload is not the archive that was signed").
			WithRemedy("complete the upload with the statement that it was begun with")
	case errors.Is(unreadable, agentpackage.ErrTruncated):
		return fault.New(fault.Invalid, "agent_release_truncated", "release %s is cut short: the archive ends in the middle",
			s.Version).WithRemedy("build and sign the release again")
	case unreadable != nil:
		return fault.New(fault.Invalid, "agent_release_broken", "release %s is no package of an agent: %v", s.Version,
			unreadable).
			WithRemedy("build it with gpuaas agent release build")
	case c.Version != s.Version:
		return fault.New(fault.Invalid, "agent_release_mismatch", "the archive is of version %.80q, the statement of %s",
			c.Version, s.Version).WithRemedy("build and sign the release again")
	}
	for name, p := range c.Programs {
		if p.Architecture != s.Architecture {
			return fault.New(fault.Invalid, "agent_release_foreign_architecture",
				"%s of release %s is built for %s, the release says %s", name, s.Version, orNothing(p.Architecture),
				s.Architecture).
				WithRemedy("build both programs for GOOS=linux GOARCH=%s", s.Architecture)
		}
	}
	return nil
}

func orNothing(architecture string) string {
	if architecture == "" {
		return "no architecture that we know"
	}
	return architecture
}

func insert(ctx context.Context, tx pgx.Tx, r agentpackage.Signed, c agentpackage.Contents) (Release, error) {
	q := agentreleasedb.New(tx)
	if err := free(ctx, q, r.Statement.Version); err != nil {
		return Release{}, err
	}
	programs := map[string]string{}
	for name, p := range c.Programs {
		programs[name] = p.Digest
	}
	stored, err := json.Marshal(programs)
	if err != nil {
		return Release{}, fmt.Errorf("encode programs: %w", err)
	}
	row, err := q.InsertRelease(ctx, agentreleasedb.InsertReleaseParams{
		Version: r.Statement.Version, Commit: r.Statement.Commit, Architecture: r.Statement.Architecture,
		Digest: r.Statement.Digest, Size: r.Statement.Size, Notes: r.Statement.Notes,
		MinimumControlPlane: r.Statement.MinimumControlPlane, ProtocolMin: r.Statement.ProtocolMin,
		ProtocolMax: r.Statement.ProtocolMax, Programs: stored, KeyID: r.KeyID, Signature: r.Signature,
		AddedBy: auth.From(ctx).ID,
	})
	if err != nil {
		return Release{}, fmt.Errorf("insert release: %w", err)
	}
	made := from(row)
	if err := blob.Refer(ctx, tx, made.Statement.Digest, ownerOf(made.Version())); err != nil {
		return Release{}, err
	}
	return made, record(ctx, tx, note{
		action: "agent_release.upload", version: made.Version(), change: eventwire.ReleaseUploaded,
		more: map[string]any{"sha256": made.Statement.Digest, "commit": made.Statement.Commit, "key_id": made.KeyID},
	})
}

// speaks refuses a release that this control plane cannot work with.
func (s *Service) speaks(r Release) error {
	t := r.Statement
	if agentwire.Protocol < t.ProtocolMin || agentwire.Protocol > t.ProtocolMax {
		return fault.New(fault.Conflict, "agent_release_protocol",
			"release %s speaks the protocols %d to %d, this control plane speaks %d", t.Version, t.ProtocolMin, t.ProtocolMax,
			agentwire.Protocol).WithRemedy("upgrade the control plane, or give another release")
	}
	need, needed := agentpackage.ParseVersion(t.MinimumControlPlane)
	// A control plane that was built of a working copy has no place in the order.
	have, released := agentpackage.ParseVersion(strings.TrimPrefix(s.controlPlane, "v"))
	if needed && released && have.Compare(need) < 0 {
		return fault.New(fault.Conflict, "agent_release_needs_control_plane",
			"release %s needs a control plane of version %s, this one is %s", t.Version, t.MinimumControlPlane, s.controlPlane).
			WithRemedy("upgrade the control plane first")
	}
	return nil
}
