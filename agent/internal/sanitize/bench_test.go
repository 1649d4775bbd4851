package sanitize

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// BenchmarkVerifyRead compares the read-back with dd on the same loop device at
// the same block size, both from the device and not from the kernel's cache.
// "share" is its speed relative to dd.
func BenchmarkVerifyRead(b *testing.B) {
	const size = 1 << 30
	d := newLoop(b, 4*mebi)
	d.Resize(b, size)
	fill(b, d.Backing, size)
	d.open(b)
	for _, flag := range []string{"iflag=direct", "iflag=fullblock"} {
		b.Run("dd "+flag, func(b *testing.B) {
			var ours, dd time.Duration
			for b.Loop() {
				dd += timed(b, d, func() error {
					return exec.CommandContext(b.Context(), "dd", "if="+d.Node, "of=/dev/null", fmt.Sprint("bs=", piece), flag).Run()
				})
				ours += timed(b, d, func() error {
					s := scan{places: everywhere(size), length: piece, clean: isZero}
					f, err := s.run(b.Context(), d)
					if err == nil && (f.bytes != size || f.unclean > 0) {
						err = fmt.Errorf("%+v", f)
					}
					return err
				})
			}
			rate := func(t time.Duration) float64 { return float64(size) * float64(b.N) / t.Seconds() / 1e6 }
			b.ReportMetric(rate(ours), "MB/s")
			b.ReportMetric(rate(dd), "dd-MB/s")
			b.ReportMetric(100*rate(ours)/rate(dd), "share-%")
		})
	}
}

func timed(b *testing.B, d *loop, read func() error) time.Duration {
	b.Helper()
	if err := d.Settle(); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if err := read(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// fill really writes zeroes, because holes of a file are read faster than any
// disk.
func fill(b *testing.B, path string, size int64) {
	b.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	zeroes := make([]byte, mebi)
	for at := int64(0); at < size; at += mebi {
		if _, err := f.WriteAt(zeroes, at); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
}
