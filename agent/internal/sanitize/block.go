package sanitize

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Device is a block device that can be erased. Offsets, lengths and buffers of
// reads and writes are multiples of a block.
type Device interface {
	io.ReaderAt
	io.WriterAt
	Size() int64
	// Settle writes everything to the device and drops the kernel's cache of
	// it.
	Settle() error
	// Zero makes a range read as zeroes. The kernel decides how.
	Zero(offset, length int64) error
	Discard(offset, length int64, secure bool) error
	// DiscardZeroes says that the device promises zeroes after a plain discard.
	DiscardZeroes() bool
	// NVMe says that NVMe commands can be sent.
	NVMe() bool
	NamespaceID() (uint32, error)
	Admin(c *NVMeCommand, data []byte) error
}

const (
	nvmeIoctlID    = 0x4e40     // _IO('N', 0x40)
	nvmeIoctlAdmin = 0xc0484e41 // _IOWR('N', 0x41, struct nvme_admin_cmd)
)

// Block is a block device of this machine.
type Block struct {
	file *os.File
	size int64
	nvme bool
}

// Look opens a device for reading; it may be in use. The device behind the path
// must have these numbers.
func Look(path string, disk Disk) (*Block, error) {
	return open(path, disk, unix.O_RDONLY)
}

// Open opens a device for erasing. While it is open, the kernel makes sure that
// nothing else uses the device, including mounts in other namespaces.
func Open(path string, disk Disk) (*Block, error) {
	const flags = unix.O_RDWR | unix.O_EXCL | unix.O_DIRECT
	b, err := open(path, disk, flags)
	for began := time.Now(); errors.Is(err, unix.EBUSY) && time.Since(began) < busyFor; {
		time.Sleep(50 * time.Millisecond) // the kernel tells nobody when a device is free
		b, err = open(path, disk, flags)
	}
	return b, err
}

// busyFor is how long a device may be busy before that counts. A confined program has
// its own copy of the mounts of its beginning, and keeps their devices until it ends.
const busyFor = 10 * time.Second

func open(path string, disk Disk, flags int) (*Block, error) {
	f, err := os.OpenFile(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open device: %w", err)
	}
	b := &Block{file: f, nvme: disk.nvme()}
	if err := b.identify(disk); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return b, nil
}

func (b *Block) identify(disk Disk) error {
	var st unix.Stat_t
	if err := unix.Fstat(b.fd(), &st); err != nil {
		return fmt.Errorf("look at device: %w", err)
	}
	if numbers := deviceNumbers(&st); st.Mode&unix.S_IFMT != unix.S_IFBLK || numbers != disk.Numbers {
		return fmt.Errorf("%s is not the block device %s", disk.Node, disk.Numbers)
	}
	size, err := ioctlSize(b.fd())
	if err != nil {
		return fmt.Errorf("ask device for its size: %w", err)
	}
	b.size = size
	return nil
}

func deviceNumbers(st *unix.Stat_t) string {
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
}

func ioctlSize(fd int) (int64, error) {
	var size int64
	err := ioctl(fd, unix.BLKGETSIZE64, unsafe.Pointer(&size))
	return size, err
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

func (b *Block) fd() int { return int(b.file.Fd()) }

// Close lets others use the device again.
func (b *Block) Close() error { return b.file.Close() }

// ReadAt implements Device.
func (b *Block) ReadAt(p []byte, offset int64) (int, error) { return b.file.ReadAt(p, offset) }

// WriteAt implements Device.
func (b *Block) WriteAt(p []byte, offset int64) (int, error) { return b.file.WriteAt(p, offset) }

// Size implements Device.
func (b *Block) Size() int64 { return b.size }

// Settle implements Device.
func (b *Block) Settle() error {
	if err := b.file.Sync(); err != nil {
		return fmt.Errorf("flush device: %w", err)
	}
	if err := ioctl(b.fd(), unix.BLKFLSBUF, nil); err != nil {
		return fmt.Errorf("forget what is remembered of device: %w", err)
	}
	return nil
}

// Zero implements Device.
func (b *Block) Zero(offset, length int64) error { return b.span(unix.BLKZEROOUT, offset, length) }

// Discard implements Device.
func (b *Block) Discard(offset, length int64, secure bool) error {
	if secure {
		return b.span(unix.BLKSECDISCARD, offset, length)
	}
	return b.span(unix.BLKDISCARD, offset, length)
}

func (b *Block) span(request uintptr, offset, length int64) error {
	span := [2]int64{offset, length}
	return ioctl(b.fd(), request, unsafe.Pointer(&span))
}

// DiscardZeroes implements Device. Present kernels promise nothing.
func (b *Block) DiscardZeroes() bool {
	var zeroes uint32
	err := ioctl(b.fd(), unix.BLKDISCARDZEROES, unsafe.Pointer(&zeroes))
	return err == nil && zeroes == 1
}

// NVMe implements Device.
func (b *Block) NVMe() bool { return b.nvme }

// NamespaceID implements Device.
func (b *Block) NamespaceID() (uint32, error) {
	id, err := unix.IoctlRetInt(b.fd(), nvmeIoctlID)
	if err != nil {
		return 0, fmt.Errorf("ask for namespace: %w", err)
	}
	return uint32(id), nil //nolint:gosec // it is one, in the result of a system call
}

// Admin implements Device.
func (b *Block) Admin(c *NVMeCommand, data []byte) error {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	if len(data) > 0 {
		pinned.Pin(&data[0])
		c.Addr = uint64(uintptr(unsafe.Pointer(&data[0])))
		c.DataLen = uint32(len(data)) //nolint:gosec // at most a page
	}
	status, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(b.fd()), nvmeIoctlAdmin, uintptr(unsafe.Pointer(c)))
	switch {
	case errno != 0:
		return errno
	case status != 0:
		return NVMeError(status) //nolint:gosec // a status has 16 bits
	}
	return nil
}

// buffer returns memory for direct reads and writes. The caller frees it.
func buffer(size int) (memory []byte, free func(), err error) {
	memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("get memory: %w", err)
	}
	return memory, func() { _ = unix.Munmap(memory) }, nil
}
