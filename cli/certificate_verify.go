package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/certificate"
)

// verdict is what became of one file.
type verdict struct {
	File        string     `json:"file"`
	Valid       bool       `json:"valid"`
	Kind        string     `json:"kind,omitempty"`
	ID          string     `json:"id,omitempty"`
	NodeID      string     `json:"node_id,omitempty"`
	Hostname    string     `json:"hostname,omitempty"`
	Seq         int        `json:"seq,omitempty"`
	Issuer      string     `json:"issuer,omitempty"`
	IssuedAt    *time.Time `json:"issued_at,omitempty"`
	Digest      string     `json:"digest,omitempty"`
	KeyID       string     `json:"key_id,omitempty"`
	Fingerprint string     `json:"key_fingerprint,omitempty"`
}

func (a *app) verdictColumns() []table.Column[verdict] {
	return []table.Column[verdict]{
		{Title: "FILE", Long: true, Text: func(v verdict) string { return v.File }},
		{Title: "RESULT", Text: func(v verdict) string {
			if v.Valid {
				return "valid"
			}
			return "NOT VALID"
		}},
		{Title: "KIND", Text: func(v verdict) string { return v.Kind }},
		{Title: "HOSTNAME", Text: func(v verdict) string { return v.Hostname }},
		{Title: "NUMBER", Text: func(v verdict) string {
			if v.Seq == 0 {
				return ""
			}
			return strconv.Itoa(v.Seq)
		}},
		{Title: "ISSUER", Long: true, Text: func(v verdict) string { return v.Issuer }},
		ago(a, "ISSUED", func(v verdict) *time.Time { return v.IssuedAt }),
		{Title: "KEY", Wide: true, Text: func(v verdict) string { return v.KeyID }},
	}
}

// certificateVerifyCommand needs no control plane, so it is not a verb.
func (a *app) certificateVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify FILE... --keys KEYS", Short: "Verify certificates and handover receipts without a control plane",
		Long: "Says of each file whether it is what was signed, down to the last byte; if not, which field was changed, " +
			"added\n" +
			"or removed. Of several files of one node it says whether one is missing between them or was exchanged.\n" +
			"It reads nothing but the files and contacts nobody. KEYS is the answer of gpuaas certificate keys -o json.\n" +
			"- stands for standard input. The exit code is 8 when something is not valid.",
		Example: "  gpuaas certificate verify certificate.json --keys keys.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("missing FILE")
			}
			return nil
		},
	}
	keysFile := cmd.Flags().String("keys", "", "file with the public keys to verify with")
	_ = cmd.MarkFlagFilename("keys") // it was defined above
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		if *keysFile == "" {
			return failure.Misuse(cmd, "--keys is required: a file that came with its own key would prove nothing")
		}
		if _, err := a.Format(); err != nil {
			return err
		}
		keys, err := a.readKeys(*keysFile)
		if err != nil {
			return err
		}
		return a.verifyFiles(files, keys)
	}
	return cmd
}

func (a *app) readKeys(path string) ([]certificate.Key, error) {
	raw, err := a.readWhole(path)
	if err != nil {
		return nil, err
	}
	keys, err := certificate.ParseKeys(raw)
	if err != nil {
		return nil, failure.New(failure.Usage, "keys_unreadable", "get them with: gpuaas certificate keys -o json", "%s: %v",
			path, err)
	}
	return keys, nil
}

// readWhole reads a file that somebody named.
func (a *app) readWhole(path string) ([]byte, error) {
	in := a.Program.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, failure.New(failure.Usage, "file_unreadable", "", "%v", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, certificate.MaxBytes+1))
	if err != nil {
		return nil, failure.New(failure.Usage, "file_unreadable", "", "read %s: %v", path, err)
	}
	return raw, nil
}

func (a *app) verifyFiles(files []string, keys []certificate.Key) error {
	var wrong []string
	var fields []apiclient.FieldError
	var valid []*certificate.Signed
	raws := make([]json.RawMessage, 0, len(files))
	for _, path := range files {
		raw, err := a.readWhole(path)
		if err != nil {
			return err
		}
		v := verdict{File: path}
		signed, err := certificate.Verify(raw, keys)
		if err != nil {
			wrong = append(wrong, path)
			fields = append(fields, problemsOf(path, err)...)
		} else {
			valid = append(valid, signed)
			v.fill(signed, keys)
		}
		row, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode verdict: %w", err)
		}
		raws = append(raws, row)
	}
	if err := frame.PrintList(a.App, a.verdictColumns(), raws); err != nil {
		return err
	}
	if len(wrong) > 0 {
		f := failure.New(failure.Unsuccessful, "certificate_invalid", "do not rely on it; ask its issuer for the file",
			"not what was signed: %s", strings.Join(wrong, ", "))
		f.Fields = fields
		return f
	}
	return a.verifyChains(valid)
}

// problemsOf names the fields of a file that are not as they were signed.
func problemsOf(path string, err error) []apiclient.FieldError {
	var bad certificate.FieldErrors
	if !errors.As(err, &bad) {
		return []apiclient.FieldError{{Field: path, Message: err.Error()}}
	}
	out := make([]apiclient.FieldError, len(bad))
	for i, b := range bad {
		out[i] = apiclient.FieldError{Field: strings.TrimSuffix(path+"#"+b.Path, "#"), Message: b.Problem}
	}
	return out
}

func (v *verdict) fill(s *certificate.Signed, keys []certificate.Key) {
	d := s.Document
	v.Valid, v.Kind, v.ID, v.NodeID, v.Hostname, v.Seq = true, string(d.Kind), d.ID, d.Node.ID, d.Node.Hostname, d.Seq
	v.Issuer, v.IssuedAt, v.Digest, v.KeyID = d.Issuer, &d.IssuedAt, s.Digest(), s.Signature.KeyID
	for _, k := range keys {
		if k.KeyID == v.KeyID {
			v.Fingerprint = k.Fingerprint()
		}
	}
}

func (a *app) verifyChains(files []*certificate.Signed) error {
	chains, err := certificate.Chains(files)
	if err != nil {
		return failure.New(failure.Unsuccessful, "certificate_chain_broken",
			"get all of them: gpuaas certificate list --node NODE", "%v", err)
	}
	for _, c := range chains {
		first, last := c.Files[0].Document.Seq, c.Files[len(c.Files)-1].Document.Seq
		switch {
		case !c.Complete():
			a.Note("of node %s numbers %d to %d were given; earlier ones were not", c.Files[0].Document.Node.Hostname, first,
				last)
		case len(c.Files) > 1:
			a.Note("of node %s numbers 1 to %d were given, without a gap", c.Files[0].Document.Node.Hostname, last)
		}
	}
	return nil
}
