package blob

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Bounds of the size of a part.
const (
	leastPart = 8 << 20
	mostPart  = 64 << 20
	wholeMiB  = 1 << 20
)

// partSize makes some hundreds of parts of a file, within bounds.
func partSize(total int64) int64 {
	size := (total/256 + wholeMiB - 1) / wholeMiB * wholeMiB
	return min(max(size, leastPart), mostPart)
}

// head is the first line of the notes: what they are about.
type head struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Part   int64  `json:"part"`
}

// line is a part that is on the disk.
type line struct {
	Part int    `json:"p"`
	Sum  uint32 `json:"c"` // CRC-32C of its bytes
}

// readNotes returns the parts that the notes vouch for. Notes about another file, or
// that cannot be read, vouch for nothing and are begun anew. A last line that was cut
// off does not count.
func readNotes(f *os.File, about head) (map[int]uint32, error) {
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<20))
	if err != nil {
		return nil, disk(err)
	}
	have := map[int]uint32{}
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(whole))
	var found head
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &found) != nil || found != about {
		return have, begin(f, about)
	}
	parts := int((about.Bytes + about.Part - 1) / about.Part)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Part >= 0 && l.Part < parts {
			have[l.Part] = l.Sum
		}
	}
	// What was cut off must not run into the next line.
	if err := f.Truncate(int64(len(whole))); err != nil {
		return nil, disk(err)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return nil, disk(err)
	}
	return have, nil
}

func begin(f *os.File, about head) error {
	if err := f.Truncate(0); err != nil {
		return disk(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return disk(err)
	}
	return add(f, about)
}

// add writes one line, which is on the disk when it returns.
func add(f *os.File, entry any) error {
	raw, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("encode notes: %w", err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Sync()); err != nil {
		return disk(err)
	}
	return nil
}
