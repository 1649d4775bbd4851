package sanitize

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
)

const (
	block  = 4096
	sector = 512
	mebi   = 1 << 20
	// smallest is the size that canaries in the first and the last mebibyte
	// need.
	smallest = 4 * mebi

	canaryCount = 64
	sampleCount = 1024
	// mark is how many bytes of a hash are kept.
	mark = 8
)

// canary is a block of random bytes that was written to a device. Only hashes
// of its sectors are kept, so the bytes exist nowhere but on the device.
type canary struct {
	Offset  int64  `json:"offset"`
	Sectors []byte `json:"sectors"`
}

// marks returns the hashes of the pieces of a block, one after the other.
func marks(p []byte, piece int) []byte {
	all := make([]byte, 0, len(p)/piece*mark)
	for ; len(p) >= piece; p = p[piece:] {
		sum := sha256.Sum256(p[:piece])
		all = append(all, sum[:mark]...)
	}
	return all
}

// survived says whether any sector of the canary is in a block.
func (c canary) survived(p []byte) bool {
	now := marks(p, sector)
	for i := 0; i+mark <= len(now); i += mark {
		if bytes.Equal(now[i:i+mark], c.Sectors[i:i+mark]) {
			return true
		}
	}
	return false
}

// spread returns n places of a device, one at a random place in each of n equal
// parts. Nobody can know them without the seed.
func spread(seed []byte, size int64, n int) []int64 {
	var key [32]byte
	copy(key[:], seed)
	random := mathrand.New(mathrand.NewChaCha8(key)) //nolint:gosec // the seed is of crypto/rand, and ChaCha8 is strong
	blocks := size / block
	n = int(min(int64(n), blocks))
	places := make([]int64, 0, n)
	for i := range int64(n) {
		from, to := blocks*i/int64(n), blocks*(i+1)/int64(n)
		places = append(places, (from+random.Int64N(max(1, to-from)))*block)
	}
	return places
}

// canaryPlaces spreads canaries over a device, with one in the first and one in
// the last mebibyte, where file systems and partition tables keep their data.
func canaryPlaces(seed []byte, size int64) []int64 {
	last := size/block*block - mebi
	pick := int64(binary.LittleEndian.Uint32(seed)) % (mebi / block) * block
	places := []int64{pick}
	for _, between := range spread(seed, last-mebi, canaryCount-2) {
		places = append(places, mebi+between)
	}
	return append(places, last+pick)
}

func randomBytes(p []byte) { _, _ = rand.Read(p) } // it never fails

// plant writes canaries and makes sure that they can be read back. It also
// notes what is at the places of the samples, to find out later whether it is
// still there.
func (r *run) plant() error {
	rec := r.rec
	rec.Seed = make([]byte, 32)
	randomBytes(rec.Seed)
	p, free, err := buffer(block)
	if err != nil {
		return err
	}
	defer free()
	rec.Canaries = nil
	for _, place := range canaryPlaces(rec.Seed, r.dev.Size()) {
		randomBytes(p)
		if _, err := r.dev.WriteAt(p, place); err != nil {
			return fmt.Errorf("write canary at %d: %w", place, err)
		}
		rec.Canaries = append(rec.Canaries, canary{Offset: place, Sectors: marks(p, sector)})
	}
	if err := r.dev.Settle(); err != nil {
		return err
	}
	for _, c := range rec.Canaries {
		if _, err := r.dev.ReadAt(p, c.Offset); err != nil {
			return fmt.Errorf("read canary at %d: %w", c.Offset, err)
		}
		if !bytes.Equal(marks(p, sector), c.Sectors) {
			return fmt.Errorf("a canary at %d did not come back: the device does not keep what is written, so that nothing "+
				"can be shown", c.Offset)
		}
	}
	return r.noteSamples(p)
}

func (r *run) noteSamples(p []byte) error {
	r.rec.Before = nil
	for _, place := range spread(r.rec.Seed, r.dev.Size(), sampleCount) {
		if _, err := r.dev.ReadAt(p, place); err != nil {
			return fmt.Errorf("read sample at %d: %w", place, err)
		}
		r.rec.Before = append(r.rec.Before, sampleMark(p)...)
	}
	return nil
}

// sampleMark returns zero for a block of equal bytes, because it holds nothing
// that could be recognised.
func sampleMark(p []byte) []byte {
	if bytes.Equal(p[1:], p[:len(p)-1]) {
		return make([]byte, mark)
	}
	return marks(p, len(p))
}
