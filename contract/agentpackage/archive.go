package agentpackage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Names of the files that every archive holds.
const (
	ProgramAgent = "gpuaas-agent"
	ProgramGPU   = "gpuaas-gpu"
	FileManifest = "package.json"
)

const (
	mostFiles    = 16
	mostUnpacked = 1 << 30
)

// File is one file of an archive.
type File struct {
	Name    string
	Mode    int64
	Content []byte
}

// manifest is the content of package.json.
type manifest struct {
	Package string         `json:"package"`
	Version string         `json:"version"`
	Files   []manifestFile `json:"files"`
}

type manifestFile struct {
	Name      string `json:"name"`
	SizeBytes int    `json:"size_bytes"`
	SHA256    string `json:"sha256"`
}

const packageName = "gpuaas-agent"

// Write packs the files without times, owners or names of this machine, so that the
// same files give the same bytes.
func Write(version string, files []File) ([]byte, error) {
	m := manifest{Package: packageName, Version: version}
	for _, f := range files {
		sum := sha256.Sum256(f.Content)
		m.Files = append(m.Files, manifestFile{Name: f.Name, SizeBytes: len(f.Content), SHA256: hex.EncodeToString(sum[:])})
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest of agent %s: %w", version, err)
	}
	files = append(files, File{FileManifest, 0o644, append(text, '\n')})
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	tape := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Mode: f.Mode, Size: int64(len(f.Content)),
			ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if err := tape.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s of agent %s: %w", f.Name, version, err)
		}
		if _, err := tape.Write(f.Content); err != nil {
			return nil, fmt.Errorf("pack %s of agent %s: %w", f.Name, version, err)
		}
	}
	if err := errors.Join(tape.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("pack agent %s: %w", version, err)
	}
	return out.Bytes(), nil
}

// Contents is what an archive holds.
type Contents struct {
	Version  string
	Programs map[string]Program // by name
}

// Program is an executable of an archive.
type Program struct {
	Digest       string // SHA-256, in hexadecimal digits
	Architecture string // in Go's words; empty: none that we know
}

// ErrTruncated says that an archive ends too early.
var ErrTruncated = errors.New("the archive ends in the middle: it was cut short")

// Read looks at an archive, and refuses one that is not what Write makes.
func Read(archive io.Reader) (Contents, error) {
	zipped, err := gzip.NewReader(archive)
	if err != nil {
		return Contents{}, broken(err, "it is not compressed with gzip")
	}
	found, err := readFiles(tar.NewReader(zipped))
	if err != nil {
		return Contents{}, err
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(zipped, mostUnpacked)); err != nil { // up to the checksum of gzip
		return Contents{}, broken(err, "it cannot be read to its end")
	}
	return found.contents()
}

type readFile struct {
	size    int
	digest  string
	machine string
}

type readArchive struct {
	files    map[string]readFile
	manifest []byte
}

func readFiles(tape *tar.Reader) (readArchive, error) {
	out := readArchive{files: map[string]readFile{}}
	room := int64(mostUnpacked)
	for {
		h, err := tape.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, broken(err, "it cannot be read")
		}
		room -= h.Size
		_, twice := out.files[h.Name]
		switch {
		case h.Typeflag != tar.TypeReg || !plain(h.Name):
			return out, fmt.Errorf("it holds %.100q, which is not a plain file at its top", h.Name)
		case twice:
			return out, fmt.Errorf("it holds %s twice", h.Name)
		case len(out.files) == mostFiles || h.Size < 0 || room < 0:
			return out, fmt.Errorf("it holds more than %d files or %d bytes", mostFiles, mostUnpacked)
		}
		content, err := io.ReadAll(tape)
		if err != nil {
			return out, broken(err, "it cannot be read")
		}
		if h.Name == FileManifest {
			out.manifest = content
		}
		sum := sha256.Sum256(content)
		out.files[h.Name] = readFile{len(content), hex.EncodeToString(sum[:]), machineOf(content)}
	}
}

// plain reports whether a name is one of the top of a folder, and no more.
func plain(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return name != "" && name[0] != '.' && len(name) <= 100
}

func broken(err error, what string) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return ErrTruncated
	}
	return fmt.Errorf("%s: %w", what, err)
}

// contents compares the files with the manifest.
func (a readArchive) contents() (Contents, error) {
	var m manifest
	if err := json.Unmarshal(a.manifest, &m); err != nil || m.Package != packageName {
		return Contents{}, fmt.Errorf("it holds no %s of an agent", FileManifest)
	}
	if len(m.Files) != len(a.files)-1 {
		return Contents{}, fmt.Errorf("its %s lists %d files, but it holds %d", FileManifest, len(m.Files), len(a.files)-1)
	}
	for _, f := range m.Files {
		if got, ok := a.files[f.Name]; !ok || got.digest != f.SHA256 || got.size != f.SizeBytes {
			return Contents{}, fmt.Errorf("it holds another %.100s than its %s says", f.Name, FileManifest)
		}
	}
	out := Contents{Version: m.Version, Programs: map[string]Program{}}
	for _, name := range []string{ProgramAgent, ProgramGPU} {
		f, ok := a.files[name]
		if !ok {
			return Contents{}, fmt.Errorf("it does not hold %s", name)
		}
		out.Programs[name] = Program{Digest: f.digest, Architecture: f.machine}
	}
	return out, nil
}

// machineOf is the architecture of an executable of Linux with 64 bits.
func machineOf(program []byte) string {
	const header, class64, little, atMachine = 64, 2, 1, 18
	if len(program) < header || string(program[:4]) != "\x7fELF" || program[4] != class64 || program[5] != little {
		return ""
	}
	switch binary.LittleEndian.Uint16(program[atMachine:]) {
	case 62:
		return "amd64"
	case 183:
		return "arm64"
	}
	return ""
}
