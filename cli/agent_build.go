package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/contract/agentpackage"
	"gpuaas/contract/agentwire"
	"gpuaas/contract/apiclient"
	agentfiles "gpuaas/deploy/agent"
)

func (a *app) agentReleaseKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "make-key FILE", Short: "Make a key that releases are signed with", Args: frame.Exactly("FILE"),
		Long: "FILE gets the private half and is not overwritten: keep it where releases are built, and nowhere else. What is\n" +
			"printed is the public half, for nodes.release_keys of the control plane.",
		RunE: func(_ *cobra.Command, args []string) error {
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return fmt.Errorf("make key: %w", err)
			}
			der, err := x509.MarshalPKCS8PrivateKey(private)
			if err != nil {
				return fmt.Errorf("encode key: %w", err)
			}
			f, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return fmt.Errorf("make key: %w", err)
			}
			err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("write key: %w", err)
			}
			return output.Write(a.Program.Out, base64.StdEncoding.EncodeToString(public)+"\n")
		},
	}
}

func (a *app) agentReleaseBuildCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "build PROGRAMS FOLDER", Short: "Pack and sign a release", Args: frame.Exactly("PROGRAMS", "FOLDER"),
		Long: "PROGRAMS is the folder with gpuaas-agent and gpuaas-gpu, as make agent leaves it. FOLDER gets the archive and the\n" +
			"signed statement about it. Nothing is sent anywhere.",
		Example: "  make agent VERSION=1.4.0\n" +
			"  gpuaas agent release build bin/agent/1.4.0 . --version 1.4.0 --commit $(git rev-parse HEAD) --key release.key",
	}
	f := cmd.Flags()
	version := f.String("version", "", "the version that the programs were built with, such as 1.4.0")
	commit := f.String("commit", "", "the commit that they were built from")
	key := f.String("key", "", "file with the private half of a release key")
	notes := f.String("notes", "", "what is new")
	minimum := f.String("needs-control-plane", "", "the oldest control plane that it works with (default any)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *version == "" || *commit == "" || *key == "" {
			return failure.Misuse(cmd, "give --version, --commit and --key")
		}
		private, err := releaseKey(*key)
		if err != nil {
			return err
		}
		archive, architecture, err := packAgent(args[0], *version)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(archive)
		statement := agentpackage.Statement{
			Version: *version, Commit: *commit, Architecture: architecture, Digest: hex.EncodeToString(sum[:]),
			Size: int64(len(archive)), Notes: *notes, MinimumControlPlane: *minimum,
			ProtocolMin: agentwire.Protocol, ProtocolMax: agentwire.Protocol,
		}
		if field, problem := statement.Check(); field != "" {
			return failure.Misuse(cmd, "%s %s", field, problem)
		}
		return a.keepRelease(args[1], archive, statement, private)
	}
	return cmd
}

func releaseKey(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read release key: %w", err)
	}
	unusable := failure.New(failure.Usage, "release_key_unusable", "make one: gpuaas agent release make-key FILE",
		"%s holds no private key of Ed25519", file)
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, unusable
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if private, ok := key.(ed25519.PrivateKey); err == nil && ok {
		return private, nil
	}
	return nil, unusable
}

// packAgent makes the archive of the programs in a folder.
func packAgent(folder, version string) (archive []byte, architecture string, err error) {
	var files []agentpackage.File
	for _, name := range []string{agentpackage.ProgramAgent, agentpackage.ProgramGPU} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, "", fmt.Errorf("read program: %w", err)
		}
		files = append(files, agentpackage.File{Name: name, Mode: 0o755, Content: content})
	}
	files = append(files, agentpackage.File{Name: agentfiles.UnitName, Mode: 0o644, Content: []byte(agentfiles.Unit)})
	if archive, err = agentpackage.Write(version, files); err != nil {
		return nil, "", err
	}
	contents, err := agentpackage.Read(strings.NewReader(string(archive)))
	if err != nil {
		return nil, "", fmt.Errorf("read back archive: %w", err)
	}
	agent, gpu := contents.Programs[agentpackage.ProgramAgent], contents.Programs[agentpackage.ProgramGPU]
	if agent.Architecture == "" || agent.Architecture != gpu.Architecture {
		return nil, "", failure.New(failure.Usage, "agent_programs_unfit",
			"build both for GOOS=linux and the same GOARCH, amd64 or arm64",
			"%s holds programs that no node could run together", folder)
	}
	return archive, agent.Architecture, nil
}

func (a *app) keepRelease(folder string, archive []byte, s agentpackage.Statement, key ed25519.PrivateKey) error {
	signed, err := agentpackage.Sign(s, key)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(signed, "", "  ")
	if err != nil {
		return fmt.Errorf("encode statement: %w", err)
	}
	name := filepath.Join(folder, "gpuaas-agent-"+s.Version+"-"+s.Architecture)
	if err := os.WriteFile(name+archiveEnd, archive, 0o644); err != nil { //nolint:gosec // a release is no secret
		return fmt.Errorf("write archive: %w", err)
	}
	if err := os.WriteFile(name+statementEnd, append(text, '\n'), 0o644); err != nil { //nolint:gosec // likewise
		return fmt.Errorf("write statement: %w", err)
	}
	return output.Write(a.Program.Out, name+statementEnd+"\n")
}

// Ends of the names of the two files of a release.
const (
	archiveEnd   = ".tar.gz"
	statementEnd = ".json"
)

func (a *app) agentReleaseUploadCommand() *cobra.Command {
	return a.verb(verb{
		use: "upload STATEMENT", short: "Upload a release", args: frame.Exactly("STATEMENT"),
		operations: []string{"begin-agent-release-upload", "send-agent-release-part", "complete-agent-release-upload"},
		long: "STATEMENT is the .json file that gpuaas agent release build wrote; the archive lies beside it. An upload that was\n" +
			"interrupted goes on where it stopped when the command is repeated. No node is given the release by this.",
		example: "  gpuaas agent release upload gpuaas-agent-1.4.0-amd64.json",
		run:     func(s *session, args []string) error { return a.uploadRelease(s, args[0]) },
	})
}

func (a *app) uploadRelease(s *session, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read statement: %w", err)
	}
	var body apiclient.AgentreleaseSignedBody
	if err := json.Unmarshal(text, &body); err != nil || !strings.HasSuffix(file, statementEnd) {
		return failure.New(failure.Usage, "agent_statement_unusable", "give the .json file of gpuaas agent release build",
			"%s is no statement about a release", file)
	}
	name := strings.TrimSuffix(file, statementEnd) + archiveEnd
	archive, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	sum := sha256.Sum256(archive)
	if hex.EncodeToString(sum[:]) != body.Statement.Digest {
		return failure.New(failure.Usage, "agent_archive_changed", "build and sign the release again",
			"%s is not the archive that was signed", name)
	}
	upload, err := frame.Fetch[apiclient.AgentreleaseUploadView](s.API.BeginAgentReleaseUploadWithResponse(s.Ctx,
		&apiclient.BeginAgentReleaseUploadParams{}, body))
	for err == nil && upload.Received < upload.Size {
		end := min(upload.Received+upload.MaxPart, int64(len(archive)))
		upload, err = frame.Fetch[apiclient.AgentreleaseUploadView](s.API.SendAgentReleasePartWithResponse(s.Ctx,
			upload.UploadId, &apiclient.SendAgentReleasePartParams{},
			apiclient.AgentreleasePartBody{
				Version: body.Statement.Version, Offset: upload.Received, Data: archive[upload.Received:end],
			}))
	}
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.agentReleaseColumns())(s.API.CompleteAgentReleaseUploadWithResponse(s.Ctx,
		upload.UploadId, &apiclient.CompleteAgentReleaseUploadParams{}, body))
}
