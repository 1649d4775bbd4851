package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/blob/internal/blobdb"
	"gpuaas/controlplane/internal/engine/postgres"
)

// MaxPart is how much one call of Append takes. As JSON it fits into the body of a
// request.
const MaxPart = 512 << 10

// unusedFor is how long an upload may rest, and a blob be without an owner.
const unusedFor = 24 * time.Hour

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Store keeps blobs. It is safe for concurrent use, and any number of replicas may
// run side by side.
type Store struct{ DB *postgres.DB }

// Blob is a file that is there whole.
type Blob struct {
	Digest string
	Size   int64
}

// Owner is who needs a blob.
type Owner struct{ Kind, ID string }

// Announced is what somebody wants to upload.
type Announced struct {
	Purpose string // in the words of the owner; the same upload is found again by it
	Digest  string
	Size    int64
	Most    int64 // the limit of size that the owner sets
}

// Upload is a file that comes in parts.
type Upload struct {
	ID       id.BlobUpload
	Digest   string
	Size     int64
	Received int64 // where the next part begins
}

// DigestOf returns the digest of a content.
func DigestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Begin opens an upload, or returns the one that was begun for the same purpose and
// content and has not been completed.
func Begin(ctx context.Context, tx pgx.Tx, a Announced) (Upload, error) {
	switch {
	case !digestForm.MatchString(a.Digest):
		return Upload{}, fault.New(fault.Invalid, "blob_digest_invalid",
			"%.80q is no SHA-256: it has 64 hexadecimal digits, in lower case", a.Digest)
	case a.Size <= 0:
		return Upload{}, fault.New(fault.Invalid, "blob_empty", "the file is empty").WithRemedy("give a file with content")
	case a.Size > a.Most:
		return Upload{}, fault.New(fault.Invalid, "blob_too_large", "the file has %d bytes, more than %d", a.Size, a.Most).
			WithRemedy("make it smaller; let it fetch what is large from a server of yours")
	}
	row, err := blobdb.New(tx).BeginUpload(ctx, blobdb.BeginUploadParams{
		ID: id.New[id.BlobUpload](), Purpose: a.Purpose, Digest: a.Digest, Size: a.Size,
	})
	if err != nil {
		return Upload{}, fmt.Errorf("begin upload: %w", err)
	}
	return uploadFrom(row), nil
}

func uploadFrom(r blobdb.BlobUpload) Upload {
	return Upload{ID: r.ID, Digest: r.Digest, Size: r.Size, Received: r.Received}
}

func noUpload(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.New(fault.NotFound, "blob_upload_missing", "there is no such upload: it was completed, or given up").
			WithRemedy("begin the upload again")
	}
	return fmt.Errorf("read upload: %w", err)
}

// Append adds a part to an upload. A part that does not begin where the last one
// ended is refused, and the refusal says where to go on.
func Append(ctx context.Context, tx pgx.Tx, upload id.BlobUpload, purpose string, offset int64, part []byte,
) (Upload, error) {
	q := blobdb.New(tx)
	row, err := q.LockUpload(ctx, blobdb.LockUploadParams{ID: upload, Purpose: purpose})
	if err != nil {
		return Upload{}, noUpload(err)
	}
	switch {
	case offset != row.Received:
		return Upload{}, fault.New(fault.Conflict, "blob_offset_mismatch",
			"the part begins at byte %d, but the upload has %d bytes", offset, row.Received).
			WithRemedy("go on at byte %d", row.Received)
	case len(part) == 0 || len(part) > MaxPart:
		return Upload{}, fault.New(fault.Invalid, "blob_part_size", "a part has 1 to %d bytes, not %d", MaxPart, len(part))
	case offset+int64(len(part)) > row.Size:
		return Upload{}, fault.New(fault.Invalid, "blob_longer_than_announced",
			"the upload would have more than the %d bytes that were announced", row.Size).
			WithRemedy("the file has changed: begin the upload again")
	}
	if err := q.InsertChunk(ctx, blobdb.InsertChunkParams{
		ContentID: row.ID.String(), Start: offset, Data: part,
	}); err != nil {
		return Upload{}, fmt.Errorf("keep part of upload: %w", err)
	}
	row, err = q.Received(ctx, blobdb.ReceivedParams{ID: upload, More: int64(len(part))})
	if err != nil {
		return Upload{}, fmt.Errorf("note part of upload: %w", err)
	}
	return uploadFrom(row), nil
}

// Complete makes a blob of an upload, in one transaction with what the owner does
// about it: refer to it, at least. Before, it reads the content back and passes it on,
// so that the owner can look at it. An upload with other content than was announced
// is removed.
func (s Store) Complete(ctx context.Context, upload id.BlobUpload, purpose string, content io.Writer,
	own func(ctx context.Context, tx pgx.Tx, b Blob) error,
) error {
	row, err := blobdb.New(s.DB).Upload(ctx, blobdb.UploadParams{ID: upload, Purpose: purpose})
	if err != nil {
		return noUpload(err)
	}
	if row.Received < row.Size {
		return fault.New(fault.Conflict, "blob_incomplete", "the upload has %d of %d bytes", row.Received, row.Size).
			WithRemedy("send the rest, from byte %d on", row.Received)
	}
	blob := Blob{Digest: row.Digest, Size: row.Size}
	if err := copyContent(ctx, blobdb.New(s.DB), content, row.ID.String(), blob); err != nil {
		if fault.CodeOf(err) != codeCorrupt {
			return err
		}
		if err := s.discard(ctx, upload); err != nil {
			return err
		}
		return fault.New(fault.Invalid, "blob_digest_mismatch",
			"what was uploaded does not have the SHA-256 %s that was announced; it was removed", row.Digest).
			WithRemedy("upload the file again, with the digest that sha256sum shows for it")
	}
	return s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := blobdb.New(tx)
		if _, err := q.LockUpload(ctx, blobdb.LockUploadParams{ID: upload, Purpose: purpose}); err != nil {
			return noUpload(err)
		}
		if err := keep(ctx, q, blob, row.ID.String()); err != nil {
			return err
		}
		if err := q.DeleteUpload(ctx, upload); err != nil {
			return fmt.Errorf("end upload: %w", err)
		}
		return own(ctx, tx, blob)
	})
}

// keep makes a content a blob, or removes it where the blob is there already. A
// blob whose content is damaged gets the new one.
func keep(ctx context.Context, q *blobdb.Queries, b Blob, content string) error {
	kept, err := q.KeepBlob(ctx, blobdb.KeepBlobParams{Digest: b.Digest, Size: b.Size, ContentID: content})
	if err != nil {
		return fmt.Errorf("keep blob: %w", err)
	}
	if kept == content {
		return nil
	}
	spare := content
	switch err := copyContent(ctx, q, io.Discard, kept, b); {
	case err != nil && fault.CodeOf(err) != codeCorrupt:
		return err
	case err != nil:
		if err := q.MendBlob(ctx, blobdb.MendBlobParams{Digest: b.Digest, ContentID: content}); err != nil {
			return fmt.Errorf("mend blob: %w", err)
		}
		spare = kept
	}
	if err := q.DeleteChunks(ctx, spare); err != nil {
		return fmt.Errorf("remove second copy of blob: %w", err)
	}
	return nil
}

func (s Store) discard(ctx context.Context, upload id.BlobUpload) error {
	return s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return discard(ctx, blobdb.New(tx), upload)
	})
}

func discard(ctx context.Context, q *blobdb.Queries, upload id.BlobUpload) error {
	if err := q.DeleteUpload(ctx, upload); err != nil {
		return fmt.Errorf("remove upload: %w", err)
	}
	if err := q.DeleteChunks(ctx, upload.String()); err != nil {
		return fmt.Errorf("remove parts of upload: %w", err)
	}
	return nil
}

// Put keeps a content that is at hand, for an owner.
func Put(ctx context.Context, tx pgx.Tx, content []byte, o Owner) (Blob, error) {
	blob := Blob{Digest: DigestOf(content), Size: int64(len(content))}
	q := blobdb.New(tx)
	key := id.NewString()
	for start := 0; start < len(content); start += MaxPart {
		part := content[start:min(start+MaxPart, len(content))]
		if err := q.InsertChunk(ctx, blobdb.InsertChunkParams{
			ContentID: key, Start: int64(start), Data: part,
		}); err != nil {
			return Blob{}, fmt.Errorf("keep part of blob: %w", err)
		}
	}
	if err := keep(ctx, q, blob, key); err != nil {
		return Blob{}, err
	}
	return blob, Refer(ctx, tx, blob.Digest, o)
}

// Refer says that an owner needs a blob.
func Refer(ctx context.Context, tx pgx.Tx, digest string, o Owner) error {
	if err := blobdb.New(tx).Refer(ctx, blobdb.ReferParams{
		Digest: digest, OwnerKind: o.Kind, OwnerID: o.ID,
	}); err != nil {
		return fmt.Errorf("refer to blob: %w", err)
	}
	return nil
}

// Release says that an owner does not need a blob any more.
func Release(ctx context.Context, tx pgx.Tx, digest string, o Owner) error {
	if err := blobdb.New(tx).Release(ctx, blobdb.ReleaseParams{
		Digest: digest, OwnerKind: o.Kind, OwnerID: o.ID,
	}); err != nil {
		return fmt.Errorf("release blob: %w", err)
	}
	return nil
}

const codeCorrupt = "blob_corrupt"

// Read returns the content of a blob.
func (s Store) Read(ctx context.Context, digest string) ([]byte, error) {
	var content bytes.Buffer
	if err := s.Copy(ctx, &content, digest); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// Copy writes the content of a blob. What it has written counts only if it does not
// fail: that the content has the digest is known at its end.
func (s Store) Copy(ctx context.Context, to io.Writer, digest string) error {
	row, err := blobdb.New(s.DB).Blob(ctx, digest)
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.New(fault.NotFound, "blob_missing", "no file with the SHA-256 %s is stored", digest).
			WithRemedy("upload it again")
	}
	if err != nil {
		return fmt.Errorf("read blob: %w", err)
	}
	return copyContent(ctx, blobdb.New(s.DB), to, row.ContentID, Blob{Digest: row.Digest, Size: row.Size})
}

func copyContent(ctx context.Context, q *blobdb.Queries, to io.Writer, content string, b Blob) error {
	corrupt := func(format string, args ...any) error {
		return fault.New(fault.Conflict, codeCorrupt, "the stored file with the SHA-256 %s is damaged: %s", b.Digest,
			fmt.Sprintf(format, args...)).
			WithRemedy("upload it again, which mends it, and look into the database: its content was changed or lost")
	}
	sum := sha256.New()
	for at := int64(0); at < b.Size; {
		data, err := q.Chunk(ctx, blobdb.ChunkParams{ContentID: content, Start: at})
		if errors.Is(err, pgx.ErrNoRows) {
			return corrupt("nothing is stored from byte %d on", at)
		}
		if err != nil {
			return fmt.Errorf("read chunk of blob: %w", err)
		}
		_, _ = sum.Write(data) // a hash never fails
		if _, err := to.Write(data); err != nil {
			return fmt.Errorf("pass on chunk of blob: %w", err)
		}
		at += int64(len(data))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != b.Digest {
		return corrupt("its content has the SHA-256 %s", got)
	}
	return nil
}

// Removed is what Sweep removed.
type Removed struct{ Uploads, Blobs int }

// Sweep removes uploads that nobody goes on with, and blobs that nobody needs, each
// in a transaction of its own.
func (s Store) Sweep(ctx context.Context, now time.Time) (r Removed, err error) {
	before := now.Add(-unusedFor)
	if r.Uploads, err = s.each(ctx, func(ctx context.Context, q *blobdb.Queries) error {
		upload, err := q.LockAbandoned(ctx, before)
		if err != nil {
			return err
		}
		return discard(ctx, q, upload)
	}); err != nil {
		return r, fmt.Errorf("remove abandoned uploads: %w", err)
	}
	if r.Blobs, err = s.each(ctx, func(ctx context.Context, q *blobdb.Queries) error {
		unused, err := q.LockUnused(ctx, before)
		if err != nil {
			return err
		}
		gone, err := q.DeleteUnused(ctx, unused.Digest)
		if err != nil || gone == 0 {
			return err
		}
		return q.DeleteChunks(ctx, unused.ContentID)
	}); err != nil {
		return r, fmt.Errorf("remove unused blobs: %w", err)
	}
	return r, nil
}

// each repeats a step in transactions of its own until it finds nothing.
func (s Store) each(ctx context.Context, step func(ctx context.Context, q *blobdb.Queries) error) (n int, err error) {
	for {
		err := s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return step(ctx, blobdb.New(tx)) })
		if errors.Is(err, pgx.ErrNoRows) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		n++
	}
}
