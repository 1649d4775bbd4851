package agentwire

// Kinds of artifacts of steps.
const (
	ArtifactFile    = "file"
	ArtifactBackup  = "backup" // the copy of what a step replaced
	ArtifactPackage = "package"
)

// What a step has to do with an artifact.
const (
	ArtifactProduced = "produced" // it made or changed it
	ArtifactUsed     = "used"     // it was there as wanted
	ArtifactRemoved  = "removed"
)

// StepArtifact is something that a step left on its node, or found there.
type StepArtifact struct {
	Kind   string
	Role   string
	Name   string // path or name
	Digest string // of its content, as sha256:…
	Before string // digest or version that was there
	After  string // version that is there
	Bytes  int64
}

// Artifacts are what the output of a step says about artifacts; nil: nothing. It
// ignores an output that is not one of its kind.
func (k StepKind) Artifacts(output []byte) []StepArtifact {
	if len(output) == 0 {
		return nil
	}
	value, err := k.Output(output)
	if err != nil {
		return nil
	}
	if teller, ok := value.(interface{ Artifacts() []StepArtifact }); ok {
		return teller.Artifacts()
	}
	return nil
}

// Artifacts are the file, and the copy of what was there.
func (r FileRenderResult) Artifacts() []StepArtifact {
	file := StepArtifact{
		Kind: ArtifactFile, Role: ArtifactUsed, Name: r.Path, Digest: sha256Digest(r.SHA256), Bytes: r.Bytes,
	}
	switch {
	case r.Removed:
		file.Role, file.Before = ArtifactRemoved, sha256Digest(r.Before)
	case r.Changed:
		file.Role, file.Before = ArtifactProduced, sha256Digest(r.Before)
	default:
		return []StepArtifact{file}
	}
	out := []StepArtifact{file}
	if r.Before != "" {
		out = append(out, StepArtifact{
			Kind: ArtifactBackup, Role: ArtifactProduced, Name: r.Path, Digest: sha256Digest(r.Before),
		})
	}
	return out
}

// Artifacts are the packages, and those that came, changed or went because of them.
func (r PackageInstallResult) Artifacts() []StepArtifact {
	var out []StepArtifact
	for _, list := range [][]PackageChange{r.Packages, r.Also} {
		for _, p := range list {
			one := StepArtifact{Kind: ArtifactPackage, Role: ArtifactProduced, Name: p.Name, Before: p.Before, After: p.After}
			switch p.After {
			case p.Before:
				one.Role = ArtifactUsed
			case "":
				one.Role = ArtifactRemoved
			}
			out = append(out, one)
		}
	}
	return out
}

// sha256Digest writes a digest with its algorithm.
func sha256Digest(hex string) string {
	if hex == "" {
		return ""
	}
	return "sha256:" + hex
}
