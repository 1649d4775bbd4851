package firstboot

import (
	"crypto/sha256"
	_ "embed" // the runner
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

var (
	//go:embed scripts/run.sh
	runScript string
	//go:embed scripts/user.sh
	userScript string
)

// Bundle is a first boot that is ready to be handed to a machine.
type Bundle struct {
	UserData redact.Secret // the document for cloud-init
	Digest   string        // of the document
	Layers   []LayerRef    // in their order
}

// LayerRef names a layer of a bundle. Records on the machine use the same
// names.
type LayerRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// maxLayers is the most that two digits can number.
const maxLayers = 99

// staged is a layer in the form that the machine gets.
type staged struct {
	ref   LayerRef
	files []storedFile
}

type storedFile struct {
	path    string
	content string
}

// Compose makes one document from layers. They run in this order.
func Compose(layers ...Layer) (Bundle, error) {
	if len(layers) == 0 || len(layers) > maxLayers {
		return Bundle{}, fault.New(fault.Invalid, "first_boot_invalid", "a first boot has 1 to %d layers, not %d", maxLayers,
			len(layers))
	}
	names, paths := map[string]bool{}, map[string]string{}
	bundle := Bundle{}
	var list strings.Builder
	var files []storedFile
	var host HostKey
	for i, l := range layers {
		if err := l.check(); err != nil {
			return Bundle{}, err
		}
		if names[l.Name] {
			return Bundle{}, invalid(l.Name, "there are two of that name")
		}
		names[l.Name] = true
		if !l.HostKey.IsZero() {
			if !host.IsZero() {
				return Bundle{}, invalid(l.Name, "the machine has a host key already")
			}
			host = l.HostKey
		}
		for _, f := range l.Files {
			if other, taken := paths[f.Path]; taken {
				return Bundle{}, invalid(l.Name, "layer %s writes %s already", other, f.Path)
			}
			paths[f.Path] = l.Name
		}
		s := stage(fmt.Sprintf("%02d-%s", i+1, l.Name), l)
		files = append(files, s.files...)
		bundle.Layers = append(bundle.Layers, s.ref)
		fmt.Fprintf(&list, "%02d-%s %s %s %s\n", i+1, l.Name, l.Name, l.Version, s.ref.Digest)
	}
	files = append(files, storedFile{Folder + "/layers.list", list.String()}, storedFile{Folder + "/run", runScript})
	text, err := document(files, host)
	if err != nil {
		return Bundle{}, err
	}
	bundle.UserData = redact.New(text)
	bundle.Digest = Digest(bundle.UserData)
	return bundle, nil
}

// stage turns a layer into a script of its steps and the files that they use.
// The script gets its own folder as argument.
func stage(place string, l Layer) staged {
	var steps strings.Builder
	var contents []string
	keep := func(content string) string {
		contents = append(contents, content)
		return fmt.Sprintf(`"$1/file-%d"`, len(contents))
	}
	step := func(said, line string) {
		// Record the step first, so that a failure can name it.
		fmt.Fprintf(&steps, "printf '%%s\\n' %s | tee \"$1/at\"\n%s\n", quote(said), line)
	}
	for _, f := range l.Files {
		step("install "+f.Path, fmt.Sprintf("install -D -m %04o -o root -g root %s %s", uint32(f.Mode),
			keep(f.Content.Reveal()), quote(f.Path)))
	}
	for _, u := range l.Users {
		step("make user "+u.Name, fmt.Sprintf("sh %s %s %s", keep(userScript), quote(u.Name),
			keep(strings.Join(u.Keys, "\n")+"\n")))
	}
	for _, argv := range l.Commands {
		words := make([]string, len(argv))
		for i, a := range argv {
			words[i] = quote(a)
		}
		step("run "+strings.Join(argv, " "), strings.Join(words, " "))
	}
	folder := Folder + "/layers/" + place
	s := staged{files: []storedFile{{folder + "/steps", steps.String()}}}
	if l.Rescue {
		s.files = append(s.files, storedFile{folder + "/rescue", "carried out after a failure, too\n"})
	}
	for i, c := range contents {
		s.files = append(s.files, storedFile{fmt.Sprintf("%s/file-%d", folder, i+1), c})
	}
	of := append([]string{l.Name, l.Version, steps.String()}, contents...)
	if !l.HostKey.IsZero() {
		of = append(of, l.HostKey.Public)
	}
	s.ref = LayerRef{Name: l.Name, Version: l.Version, Digest: digest(of...)}
	return s
}

// quote makes one word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Digest returns the digest of a document that Compose made.
func Digest(userData redact.Secret) string { return digest(userData.Reveal()) }

// digest tells texts apart, also by where one ends and the next begins.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// sshKeys gives cloud-init the host keys. cloud-init installs them before the
// SSH server starts, deletes those of the image, and makes no others.
type sshKeys struct {
	Private scalar `yaml:"ed25519_private"`
	Public  scalar `yaml:"ed25519_public"`
}

// document returns the text for cloud-init. Only root may read the files.
func document(files []storedFile, host HostKey) (string, error) {
	type file struct {
		Path        scalar `yaml:"path"`
		Owner       scalar `yaml:"owner"`
		Permissions scalar `yaml:"permissions"`
		Encoding    scalar `yaml:"encoding,omitempty"`
		Content     scalar `yaml:"content"`
	}
	var doc struct {
		DeleteKeys bool       `yaml:"ssh_deletekeys,omitempty"`
		SSHKeys    *sshKeys   `yaml:"ssh_keys,omitempty"`
		WriteFiles []file     `yaml:"write_files"`
		RunCmd     [][]scalar `yaml:"runcmd"`
	}
	if !host.IsZero() {
		doc.DeleteKeys, doc.SSHKeys = true, &sshKeys{scalar(host.Private.Reveal()), scalar(host.Public + "\n")}
	}
	for _, f := range files {
		out := file{Path: scalar(f.path), Owner: "root:root", Permissions: "0600", Content: scalar(f.content)}
		if !printable(f.content) {
			out.Encoding, out.Content = "b64", scalar(base64.StdEncoding.EncodeToString([]byte(f.content)))
		}
		doc.WriteFiles = append(doc.WriteFiles, out)
	}
	doc.RunCmd = [][]scalar{{"sh", Folder + "/run"}}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return "", fmt.Errorf("render first boot: %w", err)
	}
	return "#cloud-config\n" + string(text), nil
}

// scalar is a string that every YAML reader takes for a string: cloud-init
// reads YAML 1.1, in which more words have a meaning than the encoder knows.
// Lines that need no escapes stay readable for people.
type scalar string

// MarshalYAML implements yaml.Marshaler.
func (s scalar) MarshalYAML() (any, error) {
	style := yaml.DoubleQuotedStyle
	if blockSafe(string(s)) {
		style = yaml.LiteralStyle
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(s), Style: style}, nil
}

// printable says whether a text needs only escapes that all readers share.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && (r < ' ' || r > '~') })
}

// blockSafe says whether a text consists of whole lines that a YAML block does
// not change.
func blockSafe(s string) bool {
	return printable(s) && strings.HasSuffix(s, "\n") && !strings.HasSuffix(s, "\n\n") &&
		!strings.ContainsAny(s[:1], " \n\t") &&
		!strings.Contains(s, " \n") && !strings.Contains(s, "\t\n")
}
