package agentwire

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The steps that bring a file to the node and prove that it is the right one.
const (
	StepArtifactPullBlob = "artifact.pull_blob"
	StepArtifactVerify   = "artifact.verify"
)

var _ = declareStep[ArtifactPullBlobWith, ArtifactPullBlobResult](StepKind{
	Kind: StepArtifactPullBlob, Title: "fetch a file by its digest", Impact: ImpactMutate, Interruptible: true,
	chosen: fileChosen,
	Checks: "Size, digest, owner, group and mode; a file that is as wanted is not fetched. It is fetched in parts, and " +
		"whatever interrupts it costs only the parts on their way. Every byte is hashed while it comes, and the file " +
		"takes its place when all of them are right. No redirect is followed, and no link on the way to the file. Where a " +
		"source refuses, or sends elsewhere, the control plane is asked for an address that an artifact source of it signs.",
	Sound: []string{
		`{"url":"https://models.example/llm/weights.bin","sha256":"` + emptySum + `","bytes":5368709120,` +
			`"path":"/srv/models/weights.bin","folders":true}`,
		`{"url":"http://10.0.0.7:8000/weights.bin","mirrors":["https://models.example/weights.bin"],"sha256":"` + emptySum +
			`","bytes":1,"path":"/srv/w","owner":"root","group":"root","mode":"0640","parallel":8,` +
			`"mib_per_second":100,"keep_free_mib":1024}`,
		`{"url":"https://models.example/w","sha256":"` + emptySum + `","bytes":1,"path":"/srv/w",` +
			`"token":"${steps.token.values.token}"}`,
	},
	Answer: `{"path":"/srv/simulated","changed":true,"sha256":"` + emptySum + `","bytes":1}`,
})

var _ = declareStep[ArtifactVerifyWith, ArtifactVerifyResult](StepKind{
	Kind: StepArtifactVerify, Title: "compare a file with its digest", Impact: ImpactRead, Interruptible: true,
	Checks: "Size and SHA-256 of an ordinary file. It follows no link and changes nothing.",
	Sound:  []string{`{"path":"/srv/models/weights.bin","sha256":"` + emptySum + `","bytes":5368709120}`},
	Answer: `{"path":"/srv/simulated","sha256":"` + emptySum + `","bytes":1}`,
})

const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// MaxBlobBytes is the size of a file that a step fetches: 16 TiB.
const MaxBlobBytes = 16 << 40

// ArtifactPullBlobWith says which file is fetched, from where, and where it goes.
type ArtifactPullBlobWith struct {
	URL     string   `json:"url"`               // https, or http without a token
	Mirrors []string `json:"mirrors,omitempty"` // asked where the address before fails; eight at most
	SHA256  string   `json:"sha256"`            // of the whole file
	Bytes   int64    `json:"bytes"`             // its size
	Path    string   `json:"path"`              // below one of FileRoots
	Owner   string   `json:"owner,omitempty"`   // empty: root
	Group   string   `json:"group,omitempty"`   // empty: root
	Mode    string   `json:"mode,omitempty"`    // octal; empty: 0644
	// Folders says that missing folders are made, for root only to write to.
	Folders bool `json:"folders,omitempty"`
	// Token is the handle of a secret that is sent as a bearer token.
	Token       Secret `json:"token,omitempty"`
	Parallel    int    `json:"parallel,omitempty"`       // parts at a time, 1 to 16; empty: 4
	MiBASecond  int64  `json:"mib_per_second,omitempty"` // empty: no limit
	KeepFreeMiB int64  `json:"keep_free_mib,omitempty"`  // of the file system, left to others
}

// Fetch is something that a step brings from elsewhere.
type Fetch struct {
	Source string
	Digest string // sha256:…
	Bytes  int64
}

// Fetcher are the parameters of a step that fetches something. Policies are asked about
// it before the run begins, so nothing of it may depend on the node or on other steps.
type Fetcher interface {
	Fetches() []Fetch
}

// fetchFields are the fields of a Fetcher that say what it fetches, and from where.
var fetchFields = []string{"url", "reference", "plain_http", "mirrors", "sha256", "bytes"}

// Fetches implements Fetcher.
func (w ArtifactPullBlobWith) Fetches() []Fetch {
	all := []Fetch{{w.URL, "sha256:" + w.SHA256, w.Bytes}}
	for _, m := range w.Mirrors {
		all = append(all, Fetch{m, "sha256:" + w.SHA256, w.Bytes})
	}
	return all
}

// Validate implements StepParams.
func (w ArtifactPullBlobWith) Validate() StepProblems {
	var p StepProblems
	source("url", w.URL, w.Token != "", &p)
	if len(w.Mirrors) > 8 {
		p.add("mirrors", "must have eight entries at most")
	}
	for i, m := range w.Mirrors {
		source(below("mirrors", strconv.Itoa(i)), m, w.Token != "", &p)
	}
	digested(w.SHA256, &p)
	sized(w.Bytes, 1, &p)
	filePath(w.Path, &p)
	fileOwner(w.Owner, w.Group, w.Mode, &p)
	if w.Parallel < 0 || w.Parallel > 16 {
		p.add("parallel", "must be between 1 and 16")
	}
	paced(w.MiBASecond, w.KeepFreeMiB, &p)
	return p
}

func paced(mibASecond, keepFreeMiB int64, p *StepProblems) {
	if mibASecond < 0 || mibASecond > 1<<20 {
		p.add("mib_per_second", "must be between 1 and %d", 1<<20)
	}
	if keepFreeMiB < 0 || keepFreeMiB > 1<<30 {
		p.add("keep_free_mib", "must be between 1 and %d", 1<<30)
	}
}

var (
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// sourcePath has nothing in it that servers and policies could read differently.
	sourcePath = regexp.MustCompile(`^(/[A-Za-z0-9._~@:+=,-]+)+$`)
	sourceHost = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(:[0-9]{1,5})?$`)
)

// source checks an address that something is fetched from.
func source(at, text string, token bool, p *StepProblems) {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > 1000 || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Host == "":
		p.add(at, "must be an address such as https://models.example/llm/weights.bin")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#"):
		p.add(at, "must end with its path: what follows a question mark may be a secret, and nothing here is")
	case !sourceHost.MatchString(u.Host):
		p.add(at, "must name its host in lower case, as a name or an address")
	case !sourcePath.MatchString(u.EscapedPath()) || u.Scheme+"://"+u.Host+u.Path != text || dotted(u.Path):
		p.add(at, "must have a path of plain names, without %% and without . or .. as a name")
	case token && u.Scheme != "https":
		p.add(at, "must begin with https where a token is sent")
	}
}

func dotted(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return name == "." || name == ".." })
}

func digested(sum string, p *StepProblems) {
	if !sha256Form.MatchString(sum) {
		p.add("sha256", "must be the SHA-256 of the file: 64 hexadecimal digits in lower case")
	}
}

func sized(n, least int64, p *StepProblems) {
	if n < least || n > MaxBlobBytes {
		p.add("bytes", "must be the size of the file in bytes, %d to %d", least, int64(MaxBlobBytes))
	}
}

// ArtifactPullBlobResult says what became of the file.
type ArtifactPullBlobResult struct {
	Path    string `json:"path"`
	Changed bool   `json:"changed"`
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
	// Resumed is how many bytes were on the node already when the step began, from an
	// attempt before.
	Resumed int64 `json:"resumed,omitempty"`
}

// ArtifactVerifyWith says which file must be what.
type ArtifactVerifyWith struct {
	Path   string `json:"path"` // below one of FileRoots
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes,omitempty"` // empty: any size
}

// Validate implements StepParams.
func (w ArtifactVerifyWith) Validate() StepProblems {
	var p StepProblems
	filePath(w.Path, &p)
	digested(w.SHA256, &p)
	sized(w.Bytes, 0, &p)
	return p
}

// ArtifactVerifyResult says what the file is.
type ArtifactVerifyResult struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Fetched lists what a step fetches; nothing if it is no step of that sort. References
// that were not filled in are refused.
func (k StepKind) Fetched(with json.RawMessage) ([]Fetch, error) {
	if !k.MayFetch() {
		return nil, nil
	}
	p, placed, err := k.Decode(with)
	if err != nil {
		return nil, err
	}
	for _, r := range placed {
		if DecidesFetch(r.Path) {
			return nil, StepProblems{{Path: r.Path, Message: r.String() + " is not known before the run"}}
		}
	}
	return p.(Fetcher).Fetches(), nil //nolint:forcetypeassert // MayFetch has looked
}

// MayFetch says whether steps of the kind bring something from elsewhere.
func (k StepKind) MayFetch() bool {
	if k.params == nil {
		return false // no kind at all
	}
	_, is := k.params().(Fetcher)
	return is
}

// DecidesFetch says whether a field of a Fetcher decides what is fetched.
func DecidesFetch(path string) bool {
	return slices.ContainsFunc(fetchFields, func(name string) bool { return related(path, name) })
}
