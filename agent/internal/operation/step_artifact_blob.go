package operation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"gpuaas/agent/internal/blob"
	"gpuaas/contract/agentwire"
)

var (
	_ = carries(agentwire.StepArtifactPullBlob, func(m machine) Kind { return pullBlob{m} })
	_ = carries(agentwire.StepArtifactVerify, func(m machine) Kind { return verifyFile{m} })
)

// pullBlob fetches a file by its digest. What came of it is kept beside its place until
// it is whole, so that the next attempt goes on there.
type pullBlob struct{ machine }

const (
	partSuffix  = ".part"
	notesSuffix = ".parts"
)

// Check implements Kind.
func (h pullBlob) Check(ctx context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.ArtifactPullBlobWith](s)
	if err != nil {
		return Look{}, err
	}
	owned, err := h.owned(w.Path, w.Owner, w.Group, w.Mode)
	if err != nil {
		return Look{}, err
	}
	at, err := reach(h.Host, w.Path, false)
	switch {
	case errors.Is(err, fs.ErrNotExist) && w.Folders:
		return Look{Summary: fmt.Sprintf("fetches %s with %d bytes", w.Path, w.Bytes)}, nil
	case errors.Is(err, fs.ErrNotExist):
		return Look{}, fail(agentwire.FailurePermanent, "folder_missing", "the folder of "+w.Path+" does not exist",
			"set folders: true, or make it in a step before", err)
	case err != nil:
		return Look{}, pathFailure(w.Path, err)
	}
	defer at.close()
	found, err := h.found(ctx, at, w)
	switch {
	case err != nil && ctx.Err() != nil:
		return Look{}, err
	case err != nil:
		return Look{}, pathFailure(w.Path, err)
	case !found.exists:
		return Look{Summary: fmt.Sprintf("fetches %s with %d bytes", w.Path, w.Bytes)}, nil
	case !found.like(owned):
		return Look{Summary: "gives " + w.Path + " the owner and mode that are wanted"}, nil
	}
	out := agentwire.ArtifactPullBlobResult{Path: w.Path, SHA256: w.SHA256, Bytes: w.Bytes}
	return Look{Done: true, Output: out, Summary: w.Path + " is as wanted"}, nil
}

// found is the file at the place, if it has the bytes that are wanted.
func (h pullBlob) found(ctx context.Context, at place, w *agentwire.ArtifactPullBlobWith) (content, error) {
	f, st, err := at.open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{}, nil
	case err != nil:
		return content{}, err
	}
	defer f.Close()
	if st.Size != w.Bytes {
		return content{}, nil
	}
	sum, _, err := sumOf(ctx, f)
	if err != nil || sum != w.SHA256 {
		return content{}, err
	}
	return content{exists: true, uid: int(st.Uid), gid: int(st.Gid), mode: permissions(st)}, nil
}

// like says whether two files have the same owner and mode. An agent that is not root
// cannot give files away.
func (c content) like(other content) bool {
	return c.mode == other.mode && (os.Geteuid() != 0 || c.uid == other.uid && c.gid == other.gid)
}

// Apply implements Kind.
func (h pullBlob) Apply(ctx context.Context, s *Step) (Result, error) {
	w, err := params[agentwire.ArtifactPullBlobWith](s)
	if err != nil {
		return Result{}, err
	}
	owned, err := h.owned(w.Path, w.Owner, w.Group, w.Mode)
	if err != nil {
		return Result{}, err
	}
	at, err := reach(h.Host, w.Path, w.Folders)
	if err != nil {
		return Result{}, pathFailure(w.Path, err)
	}
	defer at.close()
	found, err := h.found(ctx, at, w)
	switch {
	case err != nil && ctx.Err() != nil:
		return Result{}, err
	case err != nil:
		return Result{}, pathFailure(w.Path, err)
	}
	out := agentwire.ArtifactPullBlobResult{Path: w.Path, Changed: true, SHA256: w.SHA256, Bytes: w.Bytes}
	if found.exists {
		if err := h.giveAway(at, owned); err != nil {
			return Result{}, pathFailure(w.Path, err)
		}
		return Result{Output: out, Changed: true, Summary: "gave " + w.Path + " the owner and mode that are wanted"}, nil
	}
	if out.Resumed, err = h.bring(ctx, s, at, w, owned); err != nil {
		return Result{}, err
	}
	summary := fmt.Sprintf("fetched %s with %d bytes", w.Path, w.Bytes)
	if out.Resumed > 0 {
		summary += fmt.Sprintf(", of which %d were on the node already", out.Resumed)
	}
	return Result{Output: out, Changed: true, Summary: summary}, nil
}

// giveAway changes the owner and mode of the file that is there.
func (h pullBlob) giveAway(at place, owned content) error {
	f, _, err := at.open()
	if err != nil {
		return err
	}
	return errors.Join(give(f, owned), f.Sync(), f.Close())
}

func give(f *os.File, owned content) error {
	if os.Geteuid() == 0 {
		if err := f.Chown(owned.uid, owned.gid); err != nil {
			return fmt.Errorf("give %s away: %w", f.Name(), err)
		}
	}
	if err := f.Chmod(owned.mode); err != nil {
		return fmt.Errorf("set the mode of %s: %w", f.Name(), err)
	}
	return nil
}

// bring fetches the file beside its place and puts it there when it is whole.
func (h pullBlob) bring(
	ctx context.Context, s *Step, at place, w *agentwire.ArtifactPullBlobWith, owned content,
) (resumed int64, err error) {
	part, err := at.beside(partSuffix)
	if err != nil {
		return 0, pathFailure(w.Path, err)
	}
	defer part.Close()
	notes, err := at.beside(notesSuffix)
	if err != nil {
		return 0, pathFailure(w.Path, err)
	}
	defer notes.Close()
	want := blob.Want{
		Sources: append([]string{w.URL}, w.Mirrors...), SHA256: w.SHA256, Bytes: w.Bytes, Parallel: w.Parallel,
		BytesPerSecond: w.MiBASecond << 20, KeepFree: w.KeepFreeMiB << 20,
		Resumed:  func(bytes int64) { resumed = bytes },
		Progress: tell(s, w.Bytes),
	}
	if w.Token != "" {
		if want.Token, err = s.Secret(w.Token); err != nil {
			return 0, err
		}
	} else {
		want.Door = s.door(agentwire.CredentialSourceRead, want.Sources, func(place string) map[string]string {
			return map[string]string{"source": place, "digest": "sha256:" + w.SHA256}
		})
	}
	if err := (blob.Fetcher{}).Fetch(ctx, want, part, notes); err != nil {
		return 0, fetchFailure(ctx, w.Path, err)
	}
	s.point("fetched")
	if err := errors.Join(give(part, owned), part.Sync()); err != nil {
		return 0, pathFailure(w.Path, err)
	}
	s.point("given")
	if err := errors.Join(at.putInPlace(partSuffix), at.dropBeside(notesSuffix)); err != nil {
		return 0, pathFailure(w.Path, err)
	}
	s.point("renamed")
	return resumed, nil
}

// every is how often the log says how far a transfer is.
const every = 10 * time.Second

// tell says in the log how far a transfer is.
func tell(s *Step, all int64) func(int64) {
	var mu sync.Mutex
	said := time.Now()
	return func(done int64) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(said) >= every && done < all {
			said = time.Now()
			s.Say(agentwire.StreamAgent, fmt.Sprintf("%d of %d bytes are on the node", done, all))
		}
	}
}

// fetchFailure tells why something was not fetched.
func fetchFailure(ctx context.Context, what string, err error) error {
	var bad *blob.Error
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return fail(agentwire.FailureTransient, "step_timeout", what+" was not fetched in time",
			"give the step more time in the definition; the next attempt goes on where this one ended", err)
	case ctx.Err() != nil || !errors.As(err, &bad):
		return err
	}
	class, remedy := agentwire.FailurePermanent, ""
	switch bad.Reason {
	case blob.Unreachable:
		class = agentwire.FailureTransient
		remedy = "see whether the node reaches the source; the next attempt goes on where this one ended"
	case blob.Busy:
		class, remedy = agentwire.FailureTransient, "wait until the other run has ended"
	case blob.NotFound:
		remedy = "look whether the address is right"
	case blob.Denied:
		remedy = "see what the source and the control plane answered; a private one needs an artifact source of the tenant " +
			"or the platform, and the artifact must be registered there"
	case blob.Redirected:
		remedy = "name the address that it sends to, if files may come from there; or have it added as an artifact source"
	case blob.Changed:
		remedy = "compare size and address with the file at the source"
	case blob.Mismatch:
		remedy = "compare the digest with the file at the source; nothing of what came was kept"
	case blob.NoSpace:
		remedy = "free space on the node, or choose another folder"
	case blob.DiskFailed:
		remedy = "look at the file system of the node"
	}
	return fail(class, string(bad.Reason), what+" was not fetched", remedy, err)
}

// verifyFile compares a file with its digest.
type verifyFile struct{ machine }

// Check implements Kind.
func (h verifyFile) Check(ctx context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.ArtifactVerifyWith](s)
	if err != nil {
		return Look{}, err
	}
	if s.run.params.Plan {
		return Look{Done: true, Summary: "compares " + w.Path + " with its digest"}, nil
	}
	at, err := reach(h.Host, w.Path, false)
	if err != nil {
		return Look{}, readFailure(w.Path, err)
	}
	defer at.close()
	f, _, err := at.open()
	if err != nil {
		return Look{}, readFailure(w.Path, err)
	}
	defer f.Close()
	sum, size, err := sumOf(ctx, f)
	switch {
	case err != nil && ctx.Err() != nil:
		return Look{}, err
	case err != nil:
		return Look{}, readFailure(w.Path, err)
	}
	out := agentwire.ArtifactVerifyResult{Path: w.Path, SHA256: sum, Bytes: size}
	if sum != w.SHA256 || w.Bytes > 0 && size != w.Bytes {
		bad := fail(agentwire.FailurePermanent, string(blob.Mismatch),
			fmt.Sprintf("%s has %d bytes with the SHA-256 %s, and others were expected", w.Path, size, sum),
			"fetch it anew; find out who changed it", nil)
		bad.Output = out
		return Look{}, bad
	}
	return Look{Done: true, Output: out, Summary: w.Path + " is the file with this digest"}, nil
}

// Apply implements Kind. There is nothing to change.
func (h verifyFile) Apply(ctx context.Context, s *Step) (Result, error) {
	look, err := h.Check(ctx, s)
	return Result{Output: look.Output, Summary: look.Summary}, err
}

func readFailure(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(agentwire.FailurePermanent, "file_missing", path+" is not there", "fetch it in a step before", err)
	case errors.Is(err, errDenied):
		return fail(agentwire.FailurePolicy, "path_denied", path+" is not read",
			"choose a path whose folders belong to root only and that no link leads to", err)
	default:
		return fail(agentwire.FailurePermanent, "file_failed", path+" was not read",
			"look at the file system of the node", err)
	}
}

// sumOf hashes a file from its beginning, until the step ends.
func sumOf(ctx context.Context, f *os.File) (sum string, size int64, err error) {
	all := sha256.New()
	size, err = io.CopyBuffer(all, blob.Reader{Ctx: ctx, From: f}, make([]byte, 1<<20))
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return hex.EncodeToString(all.Sum(nil)), size, nil
}
