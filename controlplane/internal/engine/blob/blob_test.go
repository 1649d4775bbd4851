package blob_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
)

const (
	purpose = "package 1"
	limit   = 4 << 20
)

var owner = blob.Owner{Kind: "package", ID: "1"}

type world struct {
	t     *testing.T
	db    *postgres.DB
	root  *postgres.DB
	store blob.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, root := postgrestest.NewWithOwner(t)
	return &world{t: t, db: db, root: root, store: blob.Store{DB: db}}
}

func (w *world) begin(digest string, size int64) (u blob.Upload, err error) {
	w.t.Helper()
	err = w.db.InTx(w.t.Context(), func(ctx context.Context, tx pgx.Tx) (err error) {
		u, err = blob.Begin(ctx, tx, blob.Announced{Purpose: purpose, Digest: digest, Size: size, Most: limit})
		return err
	})
	return u, err
}

func (w *world) send(u id.BlobUpload, of string, offset int64, part []byte) (after blob.Upload, err error) {
	w.t.Helper()
	err = w.db.InTx(w.t.Context(), func(ctx context.Context, tx pgx.Tx) (err error) {
		after, err = blob.Append(ctx, tx, u, of, offset, part)
		return err
	})
	return after, err
}

func (w *world) complete(u id.BlobUpload) error {
	w.t.Helper()
	return w.store.Complete(w.t.Context(), u, purpose, io.Discard,
		func(ctx context.Context, tx pgx.Tx, b blob.Blob) error { return blob.Refer(ctx, tx, b.Digest, owner) })
}

// upload uploads a content whole.
func (w *world) upload(content []byte) {
	w.t.Helper()
	u, err := w.begin(blob.DigestOf(content), int64(len(content)))
	if err != nil {
		w.t.Fatal(err)
	}
	for u.Received < u.Size {
		part := content[u.Received:min(u.Received+blob.MaxPart, u.Size)]
		if u, err = w.send(u.ID, purpose, u.Received, part); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.complete(u.ID); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) count(table string) (n int) {
	w.t.Helper()
	if err := w.root.QueryRow(w.t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func wants(t *testing.T, err error, code string) {
	t.Helper()
	if err == nil || fault.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func TestAnInterruptedUploadGoesOnWhereItStopped(t *testing.T) {
	w := newWorld(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 100_000) // four parts
	digest := blob.DigestOf(content)
	u, err := w.begin(digest, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	if u, err = w.send(u.ID, purpose, 0, content[:blob.MaxPart]); err != nil {
		t.Fatal(err)
	}
	again, err := w.begin(digest, int64(len(content)))
	if err != nil || again != u {
		t.Fatalf("begun again: %+v, %v; want %+v", again, err, u)
	}
	wants(t, w.complete(u.ID), "blob_incomplete")
	w.upload(content)
	got, err := w.store.Read(t.Context(), digest)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
	if w.count("blob_uploads") != 0 {
		t.Error("the upload is still there")
	}
}

func TestWhatAnUploadRefuses(t *testing.T) {
	w := newWorld(t)
	content := []byte("#!/bin/sh\n")
	digest := blob.DigestOf(content)
	for code, of := range map[string]struct {
		digest string
		size   int64
	}{
		"blob_digest_invalid": {strings.ToUpper(digest), 10}, "blob_empty": {digest, 0},
		"blob_too_large": {digest, limit + 1},
	} {
		_, err := w.begin(of.digest, of.size)
		wants(t, err, code)
	}
	u, err := w.begin(digest, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	send := func(offset int64, part []byte, code string) {
		t.Helper()
		_, err := w.send(u.ID, purpose, offset, part)
		wants(t, err, code)
	}
	send(1, content[1:], "blob_offset_mismatch")
	send(0, nil, "blob_part_size")
	send(0, make([]byte, blob.MaxPart+1), "blob_part_size")
	send(0, append(content, '!'), "blob_longer_than_announced")
	_, err = w.send(u.ID, "package 2", 0, content)
	wants(t, err, "blob_upload_missing")
	if _, err := w.send(u.ID, purpose, 0, []byte("#!/bin/ksh")); err != nil {
		t.Fatal(err)
	}
	wants(t, w.complete(u.ID), "blob_digest_mismatch")
	wants(t, w.complete(u.ID), "blob_upload_missing")
	if n := w.count("blob_chunks"); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
	_, err = w.store.Read(t.Context(), digest)
	wants(t, err, "blob_missing")
}

func TestTheSameContentIsStoredOnce(t *testing.T) {
	w := newWorld(t)
	content := []byte("#!/bin/sh\n")
	w.upload(content)
	w.upload(content)
	if err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := blob.Put(ctx, tx, content, blob.Owner{Kind: "package", ID: "2"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if blobs, chunks := w.count("blobs"), w.count("blob_chunks"); blobs != 1 || chunks != 1 {
		t.Errorf("%d blobs in %d chunks", blobs, chunks)
	}
}

func TestADamagedBlobIsNotRead(t *testing.T) {
	w := newWorld(t)
	content := []byte("#!/bin/sh\n")
	w.upload(content)
	for _, damage := range []string{"UPDATE blob_chunks SET data = '#!/bin/ksh'", "DELETE FROM blob_chunks"} {
		if _, err := w.root.Exec(t.Context(), damage); err != nil {
			t.Fatal(err)
		}
		_, err := w.store.Read(t.Context(), blob.DigestOf(content))
		wants(t, err, "blob_corrupt")
		// Uploading it again mends it.
		w.upload(content)
		if got, err := w.store.Read(t.Context(), blob.DigestOf(content)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("after another upload: %q, %v", got, err)
		}
	}
}

func TestOnlyWhatNobodyNeedsIsRemoved(t *testing.T) {
	w := newWorld(t)
	content := []byte("#!/bin/sh\n")
	w.upload(content)
	if _, err := w.begin(blob.DigestOf([]byte("x")), 1); err != nil {
		t.Fatal(err)
	}
	sweep := func(now time.Time, want blob.Removed) {
		t.Helper()
		if got, err := w.store.Sweep(t.Context(), now); err != nil || got != want {
			t.Errorf("removed %+v, %v; want %+v", got, err, want)
		}
	}
	later := time.Now().Add(25 * time.Hour)
	sweep(time.Now(), blob.Removed{})
	sweep(later, blob.Removed{Uploads: 1})
	if err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return blob.Release(ctx, tx, blob.DigestOf(content), owner)
	}); err != nil {
		t.Fatal(err)
	}
	sweep(time.Now(), blob.Removed{})
	sweep(later, blob.Removed{Blobs: 1})
	if n := w.count("blob_chunks"); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
}
