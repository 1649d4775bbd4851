package blob_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkFetch fetches a gibibyte over loopback into a file, and does the same with
// curl, tee and sha256sum in a pipe. The server is another process, so that its work is
// in neither.
func BenchmarkFetch(b *testing.B) {
	content := random(1 << 30)
	file := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		b.Fatal(err)
	}
	sum := sha256.Sum256(content)
	address := origins(b, file)
	w := wanted(content[:1])
	w.SHA256, w.Bytes, w.Sources = hex.EncodeToString(sum[:]), int64(len(content)), []string{address}
	content = nil
	b.Run("agent", func(b *testing.B) {
		b.SetBytes(w.Bytes)
		for b.Loop() {
			if err := fetch(b.Context(), newTarget(b), w); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("curl", func(b *testing.B) {
		b.SetBytes(w.Bytes)
		for b.Loop() {
			piped(b, address, filepath.Join(b.TempDir(), "copy"), w.SHA256)
		}
	})
}

// piped is: curl ADDRESS | tee FILE | sha256sum, with the file brought to the disk.
func piped(b *testing.B, address, file, sum string) {
	b.Helper()
	curl := exec.CommandContext(b.Context(), "curl", "-fsS", address)
	tee := exec.CommandContext(b.Context(), "tee", file)
	hash := exec.CommandContext(b.Context(), "sha256sum")
	var said bytes.Buffer
	hash.Stdout = &said
	var err error
	if tee.Stdin, err = curl.StdoutPipe(); err != nil {
		b.Fatal(err)
	}
	if hash.Stdin, err = tee.StdoutPipe(); err != nil {
		b.Fatal(err)
	}
	all := []*exec.Cmd{hash, tee, curl}
	for _, c := range all {
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []*exec.Cmd{curl, tee, hash} {
		if err := c.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	_ = f.Close()
	if !bytes.HasPrefix(said.Bytes(), []byte(sum)) {
		b.Fatalf("sha256sum says %s", said.String())
	}
}

// origins starts this test program as a server of one file and returns its address.
func origins(b *testing.B, file string) string {
	b.Helper()
	server := exec.CommandContext(b.Context(), os.Args[0])
	server.Env = append(os.Environ(), "GPUAAS_TEST_ORIGIN="+file)
	said, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	at, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return "http://" + strings.TrimSpace(at) + "/file"
}

// TestMain is the server of the benchmark where the environment says so.
func TestMain(m *testing.M) {
	file := os.Getenv("GPUAAS_TEST_ORIGIN")
	if file == "" {
		os.Exit(m.Run())
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(at.Addr())
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })}
	if err := server.Serve(at); err != nil {
		os.Exit(1)
	}
}
