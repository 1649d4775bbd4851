package node

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
)

// Baseline is the inventory of an installation before any tenant used it, with
// the changes that tasks of the control plane made since.
type Baseline struct {
	TakenAt time.Time
	Digest  string
	Serial  string // serial of the certificate whose key signed it
	entries map[string][]string
	acls    map[string]map[string]int // the users and groups they name, with their rights, by path
	covers  []string                  // the places of agentwire.LaterPlaces that it looked at
}

func newBaseline(lists ...[]agentwire.Entry) Baseline {
	b := Baseline{entries: map[string][]string{}, acls: map[string]map[string]int{}}
	for _, list := range lists {
		for _, e := range list {
			b.entries[keyOf(e)] = append(b.entries[keyOf(e)], e.Value)
			if e.Kind == agentwire.EntryACL {
				b.acls[e.Name] = namedBy(e.Value)
			}
		}
	}
	return b
}

// KindBaseline is the kind of findings about the comparison itself.
const KindBaseline = "baseline"

// withheld is the subject of findings about an installation that has a baseline
// and cannot be compared with it.
const withheld = "installation"

// Withheld is the finding about an installation that has a baseline but whose
// agent does not let it be compared. Only root can cause that: by removing the
// files that the agent needs, or by changing the id of the installation.
func Withheld(why string) agentwire.CleanFinding {
	return agentwire.CleanFinding{Kind: KindBaseline, Subject: withheld, Detail: why}
}

// unlooked returns the places that the baseline covers and a later inventory does
// not, because an older agent made it.
func (b Baseline) unlooked(now agentwire.Inventory) []string {
	return slices.DeleteFunc(slices.Clone(b.covers), func(place string) bool { return slices.Contains(now.Covers, place) })
}

// Uncovered returns the places that the agent did not look at when it took the
// baseline. They cannot be compared until the next installation.
func (b Baseline) Uncovered() []string {
	return slices.DeleteFunc(slices.Clone(agentwire.LaterPlaces),
		func(place string) bool { return slices.Contains(b.covers, place) })
}

// covered says whether the baseline would list this entry if it had been there.
func (b Baseline) covered(e agentwire.Entry) bool {
	return e.Kind != agentwire.EntryUnit || !slices.ContainsFunc(b.Uncovered(), func(place string) bool {
		return e.Name == place || strings.HasPrefix(e.Name, place+"/")
	})
}

func keyOf(e agentwire.Entry) string { return e.Kind + " " + e.Name }

// Comparison holds what Compare needs besides the baseline.
type Comparison struct {
	// Allowed are accounts that are meant to be there.
	Allowed []string
	// Delivered returns the digests of the files of an agent's version by their
	// names, or nil if this control plane does not have the version.
	Delivered func(version string) map[string]string
}

// maxDifferences bounds how many differences are reported; the verdict does not
// need all of them.
const maxDifferences = 200

// Compare returns what an installation has and its baseline has not, or has
// differently. It does not report what is gone.
func (b Baseline) Compare(now agentwire.Inventory, c Comparison) []agentwire.CleanFinding {
	findings, others := []agentwire.CleanFinding{}, []agentwire.CleanFinding{}
	for _, e := range now.Entries {
		f := agentwire.CleanFinding{Kind: e.Kind, Subject: e.Name, Detail: b.differs(e, now, c)}
		switch {
		case f.Detail == "":
		case LeftByRoot(f): // first, so that nobody can hide it behind many others
			findings = append(findings, f)
		default:
			others = append(others, f)
		}
	}
	if places := b.unlooked(now); len(places) > 0 {
		findings = append(findings, agentwire.CleanFinding{
			Kind: KindBaseline, Subject: "places",
			Detail: "the agent is older than the one that took the baseline, and did not look at places that the baseline covers; update it, then validate again: " + strings.Join(places, ", "),
		})
	}
	findings = append(findings, others...)
	if more := len(findings) - maxDifferences; more > 0 {
		findings = findings[:maxDifferences]
		findings[maxDifferences-1] = agentwire.CleanFinding{
			Kind: KindBaseline, Subject: "more",
			Detail: fmt.Sprintf("%d more differences from the baseline", more+1),
		}
	}
	return findings
}

// ofRoot lists the kinds of differences that only root can make. Keys count
// because they belong to accounts that existed before any tenant; sudo rules count
// as units.
var ofRoot = []string{
	agentwire.EntryAccount, agentwire.EntryPassword, agentwire.EntryGroup, agentwire.EntryMember, agentwire.EntryKey,
	agentwire.EntryUnit, agentwire.EntryPreload,
	agentwire.EntryModule, agentwire.EntryCapability, agentwire.EntryAgent,
}

// owned extracts the present owner of a file from a difference. The agent names
// no owner if it is root.
var owned = regexp.MustCompile(`^(?:not in|differs from) the baseline of the installation: (?:it is )?(?:mode [0-7]{4}|sha256:[0-9a-f]{64}) uid ([0-9]+) gid ([0-9]+)(?: |$)`)

// LeftByRoot says whether only somebody with root can have left what a validation
// found.
func LeftByRoot(f agentwire.CleanFinding) bool {
	uid, gid := 0, 0
	if m := owned.FindStringSubmatch(f.Detail); m != nil {
		uid, _ = strconv.Atoi(m[1]) // text that is no number counts as root
		gid, _ = strconv.Atoi(m[2])
	}
	switch f.Kind {
	case "users": // the agent itself says so of another account with uid 0
		return strings.HasSuffix(f.Detail, "with the rights of root")
	case KindBaseline:
		return f.Subject == withheld
	case agentwire.EntrySetID: // a user can make such a file only for their own id
		return uid < agentwire.MinUID || gid < agentwire.MinUID
	case agentwire.EntryCron:
		return uid == 0 || !strings.HasPrefix(f.Subject, "/var/spool/cron/")
	case agentwire.EntryAt:
		return uid == 0
	}
	return slices.Contains(ofRoot, f.Kind)
}

// differs says how an entry differs from the baseline. It returns "" if it does
// not.
func (b Baseline) differs(e agentwire.Entry, now agentwire.Inventory, c Comparison) string {
	if e.Kind == agentwire.EntryAgent {
		if why, known := c.delivered(e); known {
			return why
		}
	}
	before := b.entries[keyOf(e)]
	if slices.Contains(before, e.Value) || len(before) == 0 && !b.covered(e) || b.explained(e, now, c) {
		return ""
	}
	if len(before) > 0 {
		return fmt.Sprintf("differs from the baseline of the installation: it is %s and was %s", orNothing(e.Value),
			orNothing(before[len(before)-1]))
	}
	return strings.TrimSuffix("not in the baseline of the installation: "+e.Value, ": ")
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// snapMount matches the units that mount the images of snaps. They change by
// themselves and start nothing.
var snapMount = regexp.MustCompile(`^/etc/systemd/system/([a-z-]+\.target\.wants/)?snap-[^/]+\.mount$`)

// explained says whether something new has another origin than a tenant.
func (b Baseline) explained(e agentwire.Entry, now agentwire.Inventory, c Comparison) bool {
	switch e.Kind {
	case agentwire.EntryModuleIndex:
		return true // it only explains modules
	case agentwire.EntryModule:
		return e.Packaged || e.Value != "" && b.sameModules(now)
	case agentwire.EntryUnit:
		return e.Packaged && !b.newRight(e) || snapMount.MatchString(e.Name)
	case agentwire.EntrySetID:
		return e.Packaged && b.sameRights(e)
	case agentwire.EntryCron:
		return e.Packaged
	case agentwire.EntryAccount:
		return slices.Contains(c.Allowed, e.Name) && b.sameID(e) || b.closed(e)
	case agentwire.EntryMember:
		group, member, _ := strings.Cut(e.Name, ":")
		return slices.Contains(c.Allowed, member) && group == member
	case agentwire.EntryACL:
		return b.inherited(e)
	}
	return false
}

// rightsOf are folders whose files give rights just by being there. Packages
// seldom add one, and somebody with root can write whatever the package manager
// checks.
var rightsOf = []string{"/etc/systemd/", "/etc/sudoers.d/", "/etc/pam.d/", "/etc/ssh/"}

// newRight says whether a file gives rights that the baseline does not have.
func (b Baseline) newRight(e agentwire.Entry) bool {
	return len(b.entries[keyOf(e)]) == 0 && slices.ContainsFunc(rightsOf,
		func(folder string) bool { return strings.HasPrefix(e.Name, folder) })
}

// sameRights says whether a set-id file has the mode and owner of the baseline,
// and only its content changed. Package managers know contents but not modes,
// so a package does not explain a bit that somebody set.
func (b Baseline) sameRights(e agentwire.Entry) bool {
	rights := e.Value[:strings.LastIndex(e.Value, " ")+1] // the digest comes last
	return rights != "" && slices.ContainsFunc(b.entries[keyOf(e)], func(before string) bool {
		return strings.HasPrefix(before, rights) && !strings.Contains(before[len(rights):], " ")
	})
}

// sameModules says whether the kernel finds the same modules as when the
// baseline was taken. Which of them are loaded may change.
func (b Baseline) sameModules(now agentwire.Inventory) bool {
	return slices.ContainsFunc(now.Entries, func(e agentwire.Entry) bool {
		return e.Kind == agentwire.EntryModuleIndex && slices.Contains(b.entries[keyOf(e)], e.Value)
	})
}

// sameID says whether an account has the uid and gid of the baseline. An
// account of the same name with other ids, or with those of root, is another
// account.
func (b Baseline) sameID(e agentwire.Entry) bool {
	ids, _, _ := strings.Cut(e.Value, " home ")
	return !strings.HasPrefix(ids, "uid 0 ") &&
		slices.ContainsFunc(b.entries[keyOf(e)], func(before string) bool { return strings.HasPrefix(before, ids+" home ") })
}

// closed says whether the only change to an account is that nobody can log in to
// it any more.
func (b Baseline) closed(e agentwire.Entry) bool {
	account, shell, _ := strings.Cut(e.Value, " shell ")
	if base := path.Base(shell); base != "nologin" && base != "false" {
		return false
	}
	return slices.ContainsFunc(b.entries[keyOf(e)],
		func(before string) bool { return strings.HasPrefix(before, account+" shell ") })
}

// inherited says whether an ACL allows nobody more than the ACL of a folder
// above it did before, because files inherit from their folder.
func (b Baseline) inherited(e agentwire.Entry) bool {
	for folder := path.Dir(e.Name); folder != "/" && folder != "."; folder = path.Dir(folder) {
		if above, ok := b.acls[folder]; ok && within(namedBy(e.Value), above) {
			return true
		}
	}
	return false
}

func within(named, above map[string]int) bool {
	for who, rights := range named {
		if may, known := above[who]; !known || rights&^may != 0 {
			return false
		}
	}
	return true
}

// namedBy returns the users and groups that an ACL names, with their rights.
func namedBy(acl string) map[string]int {
	named := map[string]int{}
	for word := range strings.FieldsSeq(acl) {
		at := strings.LastIndex(word, ":")
		if at < 0 || !strings.HasPrefix(word, "user:") && !strings.HasPrefix(word, "group:") {
			continue
		}
		rights, err := strconv.Atoi(word[at+1:])
		if err != nil {
			rights = -1 // more than anybody may
		}
		named[word[:at]] |= rights
	}
	return named
}

// agentPrograms is the folder of the agent's programs.
const agentPrograms = "/opt/gpuaas/agent/"

// delivered compares a file of the agent with the one that the control plane
// delivered. known is false if this control plane does not know that file; then
// only the baseline can be compared.
func (c Comparison) delivered(e agentwire.Entry) (why string, known bool) {
	rest, ok := strings.CutPrefix(e.Name, agentPrograms)
	if !ok || c.Delivered == nil {
		return "", false
	}
	version, file, in := strings.Cut(rest, "/")
	if !in { // current and previous lead to versions, whose files are compared
		target, link := strings.CutPrefix(e.Value, "-> ")
		return "", link && !strings.Contains(target, "/")
	}
	want, ok := c.Delivered(version)[file]
	switch {
	case !ok:
		return "", false
	case e.Value == want:
		return "", true
	}
	return fmt.Sprintf("is not what the control plane delivered: it is %s, and %s of version %s is %s", e.Value, file,
		version, want), true
}
