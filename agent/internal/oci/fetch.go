package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/blob"
)

// TreeFolder is where Unpack puts the files, within the folder of the attempt.
const TreeFolder = "tree"

// layersAtATime is how many layers are on their way; each comes in parts, two at a time.
const (
	layersAtATime = 4
	partsAtATime  = 2
)

// Fetch brings layers to a machine.
type Fetch struct {
	Want
	Fetcher        blob.Fetcher
	KeepFree       int64
	BytesPerSecond int64
	Progress       func(done int64)
}

// Layers fetches all layers into a folder. Those that are there, or begun, are gone on
// with.
func (f Fetch) Layers(ctx context.Context, work *os.Root, a Artifact) error {
	if err := work.MkdirAll("layers", 0o700); err != nil {
		return fmt.Errorf("make the folder of layers: %w", err)
	}
	if err := f.room(work, a); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	layers := make(chan Layer)
	var done atomic.Int64
	var workers sync.WaitGroup
	for range layersAtATime {
		workers.Go(func() {
			for l := range layers {
				if err := f.layer(ctx, work, l, &done); err != nil {
					cancel(err)
				}
			}
		})
	}
	seen := map[string]bool{}
	for _, l := range a.Layers {
		if !seen[l.SHA256] && ctx.Err() == nil {
			layers <- l
		}
		seen[l.SHA256] = true
	}
	close(layers)
	workers.Wait()
	return context.Cause(ctx)
}

// room refuses what the file system cannot hold: the layers that are not there yet, and
// beside them their files, which have about as many bytes at least.
func (f Fetch) room(work *os.Root, a Artifact) error {
	var needs int64
	seen := map[string]bool{}
	for _, l := range a.Layers {
		if seen[l.SHA256] {
			continue
		}
		seen[l.SHA256] = true
		needs += l.Bytes
		var have unix.Stat_t
		part, err := work.Open("layers/" + l.SHA256)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("open a layer: %w", err)
		default:
			if err := errors.Join(unix.Fstat(int(part.Fd()), &have), part.Close()); err != nil {
				return fmt.Errorf("look at a layer: %w", err)
			}
		}
		needs += max(l.Bytes-have.Blocks*512, 0)
	}
	folder, err := work.Open(".")
	if err != nil {
		return fmt.Errorf("open the folder of the step: %w", err)
	}
	return errors.Join(blob.Room(folder, needs, f.KeepFree), folder.Close())
}

func (f Fetch) layer(ctx context.Context, work *os.Root, l Layer, done *atomic.Int64) error {
	part, err := work.OpenFile("layers/"+l.SHA256, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open a layer: %w", err)
	}
	defer part.Close()
	notes, err := work.OpenFile("layers/"+l.SHA256+".parts", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the notes of a layer: %w", err)
	}
	defer notes.Close()
	var before int64
	want := blob.Want{
		SHA256: l.SHA256, Bytes: l.Bytes, Token: f.Token, Door: f.Door, Parallel: partsAtATime,
		KeepFree:       f.KeepFree,
		BytesPerSecond: f.BytesPerSecond / layersAtATime,
		Progress: func(now int64) {
			all := done.Add(now - before)
			if before = now; f.Progress != nil {
				f.Progress(all)
			}
		},
	}
	for _, s := range f.Sources {
		want.Sources = append(want.Sources, s+"/blobs/sha256:"+l.SHA256)
	}
	return f.Fetcher.Fetch(ctx, want, part, notes)
}

// Unpack writes the files of all layers, in their order, into a new folder, and answers
// what it holds.
func Unpack(ctx context.Context, work *os.Root, a Artifact, b Budget) (Tree, error) {
	if err := errors.Join(work.RemoveAll(TreeFolder), work.Mkdir(TreeFolder, 0o755)); err != nil {
		return Tree{}, fmt.Errorf("make the folder of files: %w", err)
	}
	tree, err := work.OpenRoot(TreeFolder)
	if err != nil {
		return Tree{}, fmt.Errorf("open the folder of files: %w", err)
	}
	defer tree.Close()
	if err := tree.Chmod(".", 0o755); err != nil {
		return Tree{}, fmt.Errorf("open the folder of files: %w", err)
	}
	for _, l := range a.Layers {
		if err := layer(ctx, work, tree, l, &b); err != nil { // what is there of the files helps no other attempt
			return Tree{}, errors.Join(err, work.RemoveAll(TreeFolder))
		}
	}
	if err := settle(tree); err != nil {
		return Tree{}, err
	}
	return Sum(ctx, tree)
}

func layer(ctx context.Context, work, tree *os.Root, l Layer, b *Budget) error {
	f, err := work.Open("layers/" + l.SHA256)
	if err != nil {
		return fmt.Errorf("open a layer: %w", err)
	}
	defer f.Close()
	return Put(tree, l, blob.Reader{Ctx: ctx, From: f}, b)
}

// settle waits until everything in the folder survives a loss of power.
func settle(tree *os.Root) error {
	f, err := tree.Open(".")
	if err != nil {
		return fmt.Errorf("open the folder of files: %w", err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("bring the files to the disk: %w", err)
	}
	return nil
}
