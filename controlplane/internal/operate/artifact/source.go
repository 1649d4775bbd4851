package artifact

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/operate/policy"
)

// SourceKind is how a place of artifacts lets somebody in.
type SourceKind string

// The kinds of sources.
const (
	SourceRegistry    SourceKind = "registry"    // login: a user; secret: its password or token
	SourceS3          SourceKind = "s3"          // login: the id of an access key; secret: its key
	SourceGCS         SourceKind = "gcs"         // the same, of an HMAC key
	SourceHuggingFace SourceKind = "huggingface" // secret: a token
)

var sourceKinds = []SourceKind{SourceRegistry, SourceS3, SourceGCS, SourceHuggingFace}

// Source is a place of artifacts that not everybody may read, or that sends elsewhere.
type Source struct {
	ID        id.ArtifactSource
	Org       id.Org
	Name      string
	Kind      SourceKind
	Reach     string // how repositories or addresses begin that the login is for
	Login     string
	Region    string
	Shared    bool // it also reads what levels below its owner registered
	HasSecret bool
	Version   int64
	CreatedAt time.Time
	CreatedBy string
	UpdatedAt time.Time
	UpdatedBy string
}

// SourceWish is a source to add.
type SourceWish struct {
	Name   string
	Kind   SourceKind
	Reach  string
	Login  string
	Secret redact.Secret
	Region string
	Shared bool
}

const (
	maxSources  = 64 // of the platform, or of a tenant
	maxPassword = 16 << 10
)

var (
	regionForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	loginForm  = regexp.MustCompile(`^[!-9;-~]{1,200}$`) // visible, and no colon: it would end there
)

// check refuses what makes no sense, and fills in what follows from the rest.
func (w *SourceWish) check() error {
	var wrong []fault.Field
	refuse := func(path, why string) { wrong = append(wrong, fault.Field{Path: "body." + path, Message: why}) }
	if n := strings.TrimSpace(w.Name); n == "" || n != w.Name || len(n) > 100 {
		refuse("name", "must have 1 to 100 characters, without blanks around it")
	}
	if w.Kind == SourceRegistry {
		if len(w.Reach) > 200 || !prefixForm.MatchString(w.Reach) {
			refuse("reach", "must be a host and a path of a registry, such as registry.example/team")
		}
	} else {
		checkReach(w.Reach, refuse)
	}
	if w.Kind == SourceGCS && w.Region == "" {
		w.Region = "auto"
	}
	w.checkLogin(refuse)
	if len(wrong) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "artifact_source_invalid", "the artifact source cannot be as asked for: %s %s",
		wrong[0].Path, wrong[0].Message).WithFields(wrong...).WithRemedy("correct what is named")
}

func checkReach(reach string, refuse func(string, string)) {
	u, err := url.Parse(reach)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || len(reach) > 1000:
		refuse("reach", "must be the beginning of addresses, such as https://models.s3.eu-central-1.amazonaws.com/llm")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.ContainsAny(reach, " \t%"):
		refuse("reach", "must have no user, query, fragment or escapes")
	}
}

func (w *SourceWish) checkLogin(refuse func(string, string)) {
	signs := w.Kind == SourceS3 || w.Kind == SourceGCS
	if signs != (w.Region != "") || signs && !regionForm.MatchString(w.Region) {
		refuse("region", "must be that of the store, such as eu-central-1, for s3, and is for nothing else")
	}
	switch {
	case w.Kind == SourceHuggingFace && w.Login != "":
		refuse("login", "must be left out: the hub knows whose the token is")
	case signs && (w.Login == "" || w.Secret.IsZero()):
		refuse("login", "must be the id of an access key, and secret its key")
	case w.Kind == SourceRegistry && (w.Login == "") != w.Secret.IsZero():
		refuse("login", "must be given together with secret, or both are left out for a registry that lets everybody in")
	case w.Login != "" && !loginForm.MatchString(w.Login):
		refuse("login", "must be visible ASCII without a colon, 200 characters at most")
	}
	if s := w.Secret.Reveal(); len(s) > maxPassword || strings.ContainsAny(s, "\r\n\x00") {
		refuse("secret", "must be one line of 16 KiB at most")
	}
}

// reads says whether the login is for a repository or an address.
func (s Source) reads(what string) bool {
	return policy.Within(what, strings.TrimSuffix(s.Reach, "/"))
}

func missingSource() error {
	return fault.New(fault.NotFound, "artifact_source_not_found", "there is no such artifact source here").
		WithRemedy("see which there are: gpuaas artifact source list")
}
