package stack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const logLimit = 10 << 20

// openLog opens the log of an engine for appending and returns where the new
// lines begin. It renames a log that is too large first; one older file is
// kept.
func openLog(f folder, e Engine) (*os.File, int64, error) {
	path := f.path("logs", string(e)+".log")
	info, err := os.Stat(path)
	if err == nil && info.Size() > logLimit {
		err = os.Rename(path, path+".1")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("open log of %s: %w", e, err)
	}
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open log of %s: %w", e, err)
	}
	offset, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open log of %s: %w", e, err), log.Close())
	}
	return log, offset, nil
}

// tail reads at most limit bytes from the end of what was written after offset.
func tail(path string, offset, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		offset = max(offset, info.Size()-limit)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, offset, limit))
	if err != nil {
		return ""
	}
	return string(b)
}
