package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/blob"
	"gpuaas/agent/internal/oci"
	"gpuaas/contract/agentwire"
)

var _ = carries(agentwire.StepArtifactPullOCI, func(m machine) Kind { return pullOCI{m} })

// pullOCI unpacks an artifact into a folder. Layers are fetched into a folder beside its
// place, unpacked there, and the whole takes its place at once.
type pullOCI struct{ machine }

const (
	workSuffix   = ".oci"      // the folder of an attempt
	recordSuffix = ".oci.json" // what the step made
)

// madeFolder is what the step wrote down of a folder that it made.
type madeFolder struct {
	Reference string                          `json:"reference"` // what was asked for
	Tree      string                          `json:"tree"`      // what it holds, as one hash
	Folders   []string                        `json:"folders"`   // which folders are the step's: see identity
	Result    agentwire.ArtifactPullOCIResult `json:"result"`
}

// Check implements Kind.
func (h pullOCI) Check(ctx context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.ArtifactPullOCIWith](s)
	if err != nil {
		return Look{}, err
	}
	changes := Look{Summary: "unpacks " + w.Reference + " into " + w.Path}
	at, err := reach(h.Host, w.Path, false)
	switch {
	case errors.Is(err, fs.ErrNotExist) && w.Folders:
		return changes, nil
	case errors.Is(err, fs.ErrNotExist):
		return Look{}, fail(agentwire.FailurePermanent, "folder_missing", "the folder of "+w.Path+" does not exist",
			"set folders: true, or make it in a step before", err)
	case err != nil:
		return Look{}, pathFailure(w.Path, err)
	}
	defer at.close()
	now, known, err := h.mine(at)
	if err != nil {
		return Look{}, err
	}
	if now == "" || known.Reference != w.Reference {
		return changes, nil
	}
	root, err := os.OpenRoot(at.below(at.name))
	if err != nil {
		return Look{}, pathFailure(w.Path, err)
	}
	defer root.Close()
	tree, err := oci.Sum(ctx, root)
	if err != nil {
		return Look{}, err
	}
	if tree.SHA256 != known.Tree {
		changes.Summary += ", because something in it was changed"
		return changes, nil
	}
	if s.Begun && !s.run.params.Plan { // a process that died may not have come to it
		if err := at.dropWork(); err != nil {
			return Look{}, pathFailure(w.Path, err)
		}
	}
	known.Result.Changed = false
	return Look{Done: true, Output: known.Result, Summary: w.Path + " holds the artifact as it was unpacked"}, nil
}

// identity tells a folder from any other one that was or will be at its place: numbers of
// files are given again, moments of birth are not. It is empty where there is none.
func identity(in *os.File, name string) (string, error) {
	var st unix.Statx_t
	err := unix.Statx(int(in.Fd()), name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_BTIME, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look at %s: %w", name, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return "", fmt.Errorf("%s is no folder: %w", name, errDenied)
	}
	return fmt.Sprintf("%d:%d %d %d.%09d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec), nil
}

// mine refuses a place that holds something the step did not make, and returns which
// folder is there and what is known of what the step did.
func (h pullOCI) mine(at place) (now string, known madeFolder, err error) {
	if now, err = identity(at.folder, at.name); err != nil {
		return "", known, pathFailure(at.path, err)
	}
	raw, err := place{folder: at.folder, name: at.ownName(recordSuffix), path: at.path}.read()
	if err != nil {
		return "", known, pathFailure(at.path, err)
	}
	if raw.exists && json.Unmarshal(raw.bytes, &known) != nil {
		known = madeFolder{} // it was cut off: the folder is made anew
	}
	if now != "" && !slices.Contains(known.Folders, now) {
		return "", known, fail(agentwire.FailurePolicy, "folder_in_use", at.path+" holds what no step unpacked there",
			"choose another folder, or remove what is there", nil)
	}
	return now, known, nil
}

// below is a path to something in the folder of the place that is held open.
func (p place) below(name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(p.folder.Fd())) + "/" + name
}

// Apply implements Kind.
func (h pullOCI) Apply(ctx context.Context, s *Step) (Result, error) {
	w, err := params[agentwire.ArtifactPullOCIWith](s)
	if err != nil {
		return Result{}, err
	}
	at, err := reach(h.Host, w.Path, w.Folders)
	if err != nil {
		return Result{}, pathFailure(w.Path, err)
	}
	defer at.close()
	now, _, err := h.mine(at)
	if err != nil {
		return Result{}, err
	}
	work, err := workFolder(at)
	if err != nil {
		return Result{}, pathFailure(w.Path, err)
	}
	defer work.Close()
	made, err := h.make(ctx, s, w, work)
	var bad *oci.Refused
	if errors.As(err, &bad) { // no other attempt would do better with what came
		err = errors.Join(err, at.dropWork())
	}
	if err != nil {
		return Result{}, h.failure(ctx, w, err)
	}
	if err := h.place(s, at, now, made); err != nil {
		return Result{}, pathFailure(w.Path, err)
	}
	return Result{
		Output: made.Result, Changed: true,
		Summary: fmt.Sprintf("unpacked %d files with %d bytes into %s", made.Result.Files, made.Result.UnpackedBytes, w.Path),
	}, nil
}

// workFolder opens the folder of the step beside the place, for root only.
func workFolder(at place) (*os.Root, error) {
	name := at.ownName(workSuffix)
	if err := unix.Mkdirat(int(at.folder.Fd()), name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	inner, err := enter(at.folder, name, false)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer inner.Close()
	root, err := os.OpenRoot(place{folder: inner}.below("."))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return root, nil
}

// make fetches the layers and unpacks them.
func (h pullOCI) make(
	ctx context.Context, s *Step, w *agentwire.ArtifactPullOCIWith, work *os.Root,
) (madeFolder, error) {
	_, digest := w.Parts()
	want := oci.Want{
		Sources: w.Repositories(), Digest: digest, Architecture: runtime.GOARCH, MostBytes: w.Bytes,
	}
	if w.Token != "" {
		token, err := s.Secret(w.Token)
		if err != nil {
			return madeFolder{}, err
		}
		want.Token = token
	} else {
		want.Door = s.door(agentwire.CredentialOCIPull, w.Repositories(), func(place string) map[string]string {
			return map[string]string{"repository": w.Repository(place), "digest": digest}
		})
	}
	fetcher := blob.Fetcher{}
	if h.Registry != nil {
		fetcher.Home = h.Registry()
	}
	artifact, err := oci.Resolve(ctx, fetcher, want)
	if err != nil {
		return madeFolder{}, err
	}
	s.Say(agentwire.StreamAgent, fmt.Sprintf("%d layers with %d bytes", len(artifact.Layers), artifact.Bytes))
	fetch := oci.Fetch{
		Want: want, Fetcher: fetcher,
		KeepFree: w.KeepFreeMiB << 20, BytesPerSecond: w.MiBASecond << 20, Progress: tell(s, artifact.Bytes),
	}
	if err := fetch.Layers(ctx, work, artifact); err != nil {
		return madeFolder{}, err
	}
	s.point("fetched")
	budget := oci.Budget{
		Bytes: cmp.Or(w.UnpackedBytes, 4*w.Bytes), Files: cmp.Or(w.Files, agentwire.DefaultFiles), KeepFree: fetch.KeepFree,
	}
	tree, err := oci.Unpack(ctx, work, artifact, budget)
	if err != nil {
		return madeFolder{}, err
	}
	s.point("unpacked")
	return madeFolder{
		Reference: w.Reference, Tree: tree.SHA256, Result: agentwire.ArtifactPullOCIResult{
			Path: w.Path, Changed: true, Digest: artifact.Digest, Layers: len(artifact.Layers), Bytes: artifact.Bytes,
			Files: tree.Files, UnpackedBytes: tree.Bytes,
		},
	}, nil
}

// place puts the folder in its place, where another one of the step is now, or none. The
// record comes first and names both: any other folder was made by somebody else.
func (h pullOCI) place(s *Step, at place, now string, made madeFolder) error {
	unpacked := at.ownName(workSuffix) + "/" + oci.TreeFolder
	fresh, err := identity(at.folder, unpacked)
	if err != nil {
		return err
	}
	made.Folders = []string{fresh}
	if now != "" {
		made.Folders = append(made.Folders, now)
	}
	raw, err := json.Marshal(made)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	record := place{folder: at.folder, name: at.ownName(recordSuffix), path: at.path}
	if err := record.write(content{uid: os.Geteuid(), gid: os.Getegid(), mode: 0o600, bytes: raw}); err != nil {
		return err
	}
	s.point("recorded")
	folder, how := int(at.folder.Fd()), uint(unix.RENAME_NOREPLACE)
	if now != "" {
		how = unix.RENAME_EXCHANGE // what was there is removed with the folder of the attempt
	}
	if err := unix.Renameat2(folder, unpacked, folder, at.name, how); err != nil {
		return fmt.Errorf("put %s in its place: %w", at.path, err)
	}
	s.point("renamed")
	if err := at.dropWork(); err != nil {
		return err
	}
	return at.sync()
}

// dropWork removes the folder of an attempt.
func (p place) dropWork() error {
	if err := os.RemoveAll(p.below(p.ownName(workSuffix))); err != nil {
		return fmt.Errorf("remove what an attempt left: %w", err)
	}
	return nil
}

// failure tells why an artifact was not unpacked.
func (h pullOCI) failure(ctx context.Context, w *agentwire.ArtifactPullOCIWith, err error) error {
	var bad *oci.Refused
	var fetch *blob.Error
	switch {
	case errors.As(err, &bad):
		return fail(agentwire.FailurePolicy, "archive_refused", w.Reference+" was not unpacked",
			"look at what the artifact holds, and at the limits of the step; nothing of it was put in place", err)
	case errors.As(err, &fetch), ctx.Err() != nil:
		return fetchFailure(ctx, w.Reference, err)
	default:
		return pathFailure(w.Path, err)
	}
}
