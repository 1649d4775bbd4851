package operation

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/contract/agentwire"
)

var _ = carries(agentwire.StepFileRender, func(m machine) Kind { return fileRender{m} })

// fileRender writes a file from a template, removes it, or brings back what was
// there before.
type fileRender struct{ machine }

// Check implements Kind.
func (h fileRender) Check(_ context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.FileRenderWith](s)
	if err != nil {
		return Look{}, err
	}
	before, after, err := h.both(s, w)
	if err != nil {
		return Look{}, err
	}
	out := h.result(w, before, after)
	if !out.Changed {
		return Look{Done: true, Output: out, Summary: w.Path + " is as wanted"}, nil
	}
	return Look{Output: out, Summary: words(w, before, after, out)}, nil
}

// Apply implements Kind.
func (h fileRender) Apply(_ context.Context, s *Step) (Result, error) {
	w, err := params[agentwire.FileRenderWith](s)
	if err != nil {
		return Result{}, err
	}
	before, after, err := h.both(s, w)
	if err != nil {
		return Result{}, err
	}
	out := h.result(w, before, after)
	if !out.Changed {
		return Result{Output: out, Summary: w.Path + " is as wanted"}, nil
	}
	if w.Action != agentwire.FileRevert {
		if err := h.backUp(w.Path, before); err != nil {
			return Result{}, err
		}
	}
	s.point("backed-up")
	at, err := reach(h.Host, w.Path, w.Folders || w.Action == agentwire.FileRevert)
	if err != nil {
		return Result{}, pathFailure(w.Path, err)
	}
	defer at.close()
	if after.exists {
		err = at.write(after)
	} else {
		err = at.remove()
	}
	if err != nil {
		return Result{}, pathFailure(w.Path, err)
	}
	s.point("renamed")
	return Result{Output: out, Changed: true, Summary: words(w, before, after, out)}, nil
}

// both returns what is there and what should be.
func (h fileRender) both(s *Step, w *agentwire.FileRenderWith) (before, after content, err error) {
	at, err := reach(h.Host, w.Path, false)
	switch {
	case errors.Is(err, fs.ErrNotExist) &&
		(w.Folders || w.Action == agentwire.FileRemove || w.Action == agentwire.FileRevert):
	case errors.Is(err, fs.ErrNotExist):
		return before, after, fail(agentwire.FailurePermanent, "folder_missing", "the folder of "+w.Path+" does not exist",
			"set folders: true, or make it in a step before", err)
	case err != nil:
		return before, after, pathFailure(w.Path, err)
	default:
		defer at.close()
		if before, err = at.read(); err != nil {
			return before, after, pathFailure(w.Path, err)
		}
	}
	switch w.Action {
	case agentwire.FileRemove:
		return before, content{}, nil
	case agentwire.FileRevert:
		after, err = h.backup(w.Path)
		return before, after, err
	default:
		after, err = h.wanted(s, w)
		return before, after, err
	}
}

func pathFailure(path string, err error) error {
	switch {
	case errors.Is(err, errDenied):
		return fail(agentwire.FailurePolicy, "path_denied", path+" is not written",
			"choose a path whose folders belong to root only and that no link leads to", err)
	case errors.Is(err, unix.ENOSPC):
		return fail(agentwire.FailurePermanent, "no_space", "there is no space for "+path, "free space on the node", err)
	default:
		return fail(agentwire.FailurePermanent, "file_failed", path+" was not written",
			"look at the file system of the node", err)
	}
}

// wanted is the file that the template gives.
func (h fileRender) wanted(s *Step, w *agentwire.FileRenderWith) (content, error) {
	raw, err := render(w, s.Secret)
	if err != nil {
		return content{}, fail(agentwire.FailurePermanent, "template_error", "the content of "+w.Path+" cannot be made",
			"mend the value or choose another format", err)
	}
	mode := w.Mode
	if mode == "" && len(w.Secrets) > 0 {
		mode = "0600"
	}
	c, err := h.owned(w.Path, w.Owner, w.Group, mode)
	c.exists, c.bytes = true, raw
	return c, err
}

// owned says whose a file becomes: root's, readable to all, where nothing is said.
func (h machine) owned(file, owner, group, mode string) (content, error) {
	bits, err := strconv.ParseUint(cmp.Or(mode, "0644"), 8, 12)
	if err != nil {
		return content{}, fmt.Errorf("mode %s: %w", mode, err)
	}
	uid, err := h.userID(cmp.Or(owner, "root"))
	gid, second := h.groupID(cmp.Or(group, "root"))
	if err := errors.Join(err, second); err != nil {
		return content{}, fail(agentwire.FailurePermanent, "account_missing", "the owner of "+file+" does not exist",
			"make the account in a step before, for example by its package", err)
	}
	return content{uid: uid, gid: gid, mode: os.FileMode(bits)}, nil
}

// result compares. An agent that is not root cannot give files away.
func (h fileRender) result(w *agentwire.FileRenderWith, before, after content) agentwire.FileRenderResult {
	given := os.Geteuid() != 0 || before.uid == after.uid && before.gid == after.gid
	same := before.exists == after.exists &&
		(!after.exists || bytes.Equal(before.bytes, after.bytes) && before.mode == after.mode && given)
	out := agentwire.FileRenderResult{
		Path: w.Path, Changed: !same, Created: !before.exists && after.exists, Removed: before.exists && !after.exists,
		Bytes: int64(len(after.bytes)),
	}
	if after.exists {
		out.Owner, out.Group = strconv.Itoa(after.uid), strconv.Itoa(after.gid)
		out.Mode = fmt.Sprintf("%04o", after.mode)
	}
	// What not everybody on the machine may read is not shown either.
	if len(w.Secrets) > 0 || before.exists && before.mode&0o004 == 0 || after.exists && after.mode&0o004 == 0 {
		return out
	}
	if after.exists {
		out.SHA256 = digest(after.bytes)
	}
	if before.exists && !same {
		out.Before = digest(before.bytes)
	}
	if !bytes.Equal(before.bytes, after.bytes) {
		out.Diff = diff(string(before.bytes), string(after.bytes))
	}
	return out
}

func words(w *agentwire.FileRenderWith, before, after content, out agentwire.FileRenderResult) string {
	switch {
	case out.Created:
		return fmt.Sprintf("creates %s with %d bytes", w.Path, out.Bytes)
	case out.Removed:
		return "removes " + w.Path
	case bytes.Equal(before.bytes, after.bytes):
		return fmt.Sprintf("changes owner or mode of %s to %d:%d %04o", w.Path, after.uid, after.gid, after.mode)
	default:
		return fmt.Sprintf("changes %s from %d to %d bytes", w.Path, len(before.bytes), len(after.bytes))
	}
}

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// backups is where the former content of files is kept, for root only.
const backups = "/var/lib/gpuaas/operations/backups"

// kept is a file as it was before a step changed it.
type kept struct {
	Path    string `json:"path"`
	Existed bool   `json:"existed"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Mode    uint32 `json:"mode"`
	Content []byte `json:"content"`
}

func (h fileRender) backupFile(file string) string {
	return h.Host.Path(path.Join(backups, digest([]byte(file))+".json"))
}

func (h fileRender) backUp(file string, c content) error {
	raw, err := json.Marshal(kept{
		Path: file, Existed: c.exists, UID: c.uid, GID: c.gid, Mode: uint32(c.mode), Content: c.bytes,
	})
	if err == nil {
		err = atomicfile.Write(h.backupFile(file), raw, 0o600)
	}
	if err != nil {
		return fail(agentwire.FailurePermanent, "backup_failed",
			file+" was not changed, because its former content cannot be kept",
			"free space below "+backups+" on the node", err)
	}
	return nil
}

func (h fileRender) backup(file string) (content, error) {
	raw, err := os.ReadFile(h.backupFile(file))
	var k kept
	if err == nil {
		err = json.Unmarshal(raw, &k)
	}
	if err != nil || k.Path != file {
		return content{}, fail(agentwire.FailurePermanent, "no_backup", "no former content of "+file+" is kept on this node",
			"write the file with a template instead", err)
	}
	return content{exists: k.Existed, bytes: k.Content, uid: k.UID, gid: k.GID, mode: os.FileMode(k.Mode)}, nil
}
