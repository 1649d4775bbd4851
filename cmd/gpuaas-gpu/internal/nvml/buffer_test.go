package nvml

import "unsafe"

// The driver sees a buffer as its first element and a length; so do the fakes.

func bytesAt(b *byte, n uint32) []byte { return unsafe.Slice(b, n) }

func infosAt(p *processInfo, n uint32) []processInfo { return unsafe.Slice(p, n) }

func sizeOf[T any]() uintptr {
	var v T
	return unsafe.Sizeof(v)
}
