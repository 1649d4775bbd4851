package agentwire

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// StepFileRender writes a file from a template.
const StepFileRender = "file.render"

var _ = declareStep[FileRenderWith, FileRenderResult](StepKind{
	Kind: StepFileRender, Title: "write a file from a template", Impact: ImpactMutate, chosen: fileChosen,
	Checks: "Content, owner, group and mode; a file that is as wanted is left alone. No step follows a link or writes " +
		"where power over the machine is decided. What is replaced is copied first, and the plan shows the difference.",
	Sound: []string{
		`{"path":"/etc/demo/demo.conf","format":"ini","template":"port = {{port}}\n","values":{"port":8080}}`,
		`{"path":"/opt/app/config.json","format":"json","template":"{\"name\": {{name}}}","values":{"name":"a\"b"},` +
			`"owner":"root","group":"root","mode":"0640","folders":true}`,
		`{"path":"/etc/demo/token","format":"plain","template":"{{token}}\n","secrets":{"token":"${steps.token.values.token}"},` +
			`"mode":"0600"}`,
		`{"path":"/etc/demo/demo.conf","action":"revert"}`, `{"path":"/etc/demo/demo.conf","action":"remove"}`,
	},
	Answer: `{"path":"/etc/simulated","changed":true,"created":true,"sha256":"` +
		`e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","bytes":0}`,
})

// FileRenderWith says which file, and what is in it.
type FileRenderWith struct {
	Path string `json:"path"` // below one of FileRoots
	// Action is write, remove or revert, which brings back what was there before
	// the last change by a step. Empty: write.
	Action string `json:"action,omitempty"`
	// Format decides how values are escaped: plain, json, yaml, toml, ini, env or
	// systemd. In lines the whole content is one value, line breaks and all.
	Format string `json:"format,omitempty"`
	// Template is the content. Each {{name}} is replaced by the value of that
	// name; {{{{ means the two characters themselves.
	Template string `json:"template,omitempty"`
	// Values are texts, whole numbers or true and false.
	Values map[string]json.RawMessage `json:"values,omitempty"`
	// Secrets are handles. A file with secrets is readable to its owner and
	// group only, and its content is not shown.
	Secrets map[string]Secret `json:"secrets,omitempty"`
	Owner   string            `json:"owner,omitempty"` // empty: root
	Group   string            `json:"group,omitempty"` // empty: root
	Mode    string            `json:"mode,omitempty"`  // octal; empty: 0644, with secrets 0600
	// Folders says that missing folders are made, for root only to write to.
	Folders bool `json:"folders,omitempty"`
}

// Actions on a file.
const (
	FileWrite  = "write"
	FileRemove = "remove"
	FileRevert = "revert"
)

// FileFormats are the formats that values are escaped for.
var FileFormats = []string{"plain", "json", "yaml", "toml", "ini", "env", "systemd", FormatLines}

// FormatLines is the format of a content that is one value as a whole.
const FormatLines = "lines"

var oneValue = regexp.MustCompile(`^\{\{ *[a-z][a-z0-9_]* *\}\}$`)

// FileRoots are the only folders below which steps write files.
var FileRoots = []string{"/etc", "/opt", "/srv", "/usr/local/etc", "/usr/local/share", "/var/lib", "/var/cache", "/run"}

// fileKept are places below the roots that decide who has power over the
// machine. No step writes there.
var fileKept = []string{
	"/etc/gpuaas", "/opt/gpuaas", "/var/lib/gpuaas", "/run/gpuaas", "/etc/passwd", "/etc/passwd-", "/etc/shadow",
	"/etc/shadow-", "/etc/group", "/etc/group-", "/etc/gshadow", "/etc/gshadow-", "/etc/subuid", "/etc/subgid",
	"/etc/sudoers", "/etc/sudoers.d", "/etc/sudo.conf", "/etc/doas.conf", "/etc/polkit-1", "/etc/pam.d",
	"/etc/pam.conf", "/etc/security", "/etc/nsswitch.conf", "/etc/login.defs", "/etc/shells", "/etc/ssh",
	"/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.cache", "/etc/cron.d",
	"/etc/cron.daily", "/etc/cron.hourly", "/etc/cron.weekly", "/etc/cron.monthly", "/etc/crontab",
	"/etc/anacrontab", "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/environment", "/etc/rc.local",
	"/etc/init.d", "/etc/inittab", "/etc/apt", "/etc/dpkg", "/etc/kernel", "/etc/initramfs-tools",
	"/etc/default/grub", "/etc/grub.d", "/etc/fstab", "/etc/ca-certificates", "/etc/ssl/certs",
	"/etc/update-motd.d", "/etc/logrotate.d", "/etc/network", "/etc/netplan", "/etc/cloud", "/etc/udev",
	"/etc/modprobe.d", "/etc/alternatives", "/etc/binfmt.d", "/etc/hosts.equiv", "/etc/sysctl.conf", "/etc/xdg",
	"/etc/skel", "/etc/dbus-1", "/etc/NetworkManager", "/etc/networkd-dispatcher", "/var/lib/dpkg", "/var/lib/apt",
	"/var/lib/cloud", "/var/lib/systemd", "/var/lib/polkit-1", "/var/lib/AccountsService", "/var/lib/private",
	"/run/systemd", "/run/user", "/run/udev", "/run/dbus", "/run/sudo", "/etc/default", "/etc/sysctl.d",
	"/etc/tmpfiles.d", "/etc/sysusers.d", "/etc/environment.d", "/etc/modules", "/etc/modules-load.d", "/etc/dhcp",
	"/etc/dhcpcd.conf", "/etc/dhcpcd.enter-hook", "/etc/dhcpcd.exit-hook", "/etc/ppp", "/etc/resolvconf",
	"/etc/ssl/openssl.cnf", "/etc/zsh", "/etc/perl", "/etc/python3", "/etc/bash_completion.d", "/etc/X11",
	"/etc/gss", "/etc/krb5.conf", "/etc/krb5.keytab", "/etc/needrestart", "/etc/dracut.conf", "/etc/dracut.conf.d",
	"/usr/local/share/ca-certificates", "/run/tmpfiles.d", "/run/sysctl.d", "/run/sysusers.d",
	"/run/environment.d", "/run/modules-load.d", "/run/modprobe.d", "/run/binfmt.d", "/run/NetworkManager",
	"/run/network", "/run/resolvconf", "/run/initramfs", "/var/lib/docker", "/var/lib/containerd", "/var/lib/lxd",
	"/var/lib/snapd", "/var/lib/initramfs-tools",
}

// fileNamed are places that say which programs run as root. The definition of an
// operation may write there, but not where whoever runs it says.
var fileNamed = []string{
	fileUnits, "/etc/docker", "/etc/containerd", "/etc/containers", "/etc/crio", "/etc/kubernetes", "/etc/cni",
	"/etc/cdi", "/etc/nvidia-container-runtime", "/etc/lxc", "/etc/libvirt", "/etc/rsyslog.d", "/etc/rsyslog.conf",
	"/etc/exports", "/etc/exports.d", "/etc/samba", "/etc/snmp",
}

func amid(places []string, name string) bool {
	return slices.ContainsFunc(places, func(k string) bool { return name == k || strings.HasPrefix(name, k+"/") })
}

// fileChosen says what is wrong with a value that an input or an earlier step
// gave.
func fileChosen(at string, value json.RawMessage) string {
	var name string
	if at != "path" || json.Unmarshal(value, &name) != nil || !amid(fileNamed, name) {
		return ""
	}
	return "says which programs run as root: only the definition itself may name such a file, not its inputs"
}

// fileUnits is where units of systemd are. A step may write units there, which
// is what installing a service means, but nothing that changes systemd itself.
const fileUnits = "/etc/systemd"

var (
	fileMode     = regexp.MustCompile(`^0[0-7]{3}$`)
	templateName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	unitFile     = regexp.MustCompile(`^/etc/systemd/system/[A-Za-z0-9_][A-Za-z0-9:_.@-]{0,200}\.(service|socket|timer|target|path)` +
		`(\.d/[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}\.conf)?$`)
)

// MaxFileBytes is the size of a file that a step writes.
const MaxFileBytes = 256 << 10

// Validate implements StepParams.
func (w FileRenderWith) Validate() StepProblems {
	var p StepProblems
	filePath(w.Path, &p)
	switch w.Action {
	case "", FileWrite:
		w.validateContent(&p)
	case FileRemove, FileRevert:
		if w.Template != "" || len(w.Values)+len(w.Secrets) > 0 || w.Format != "" || w.Mode != "" || w.Owner+w.Group != "" ||
			w.Folders {
			p.add("action", "%s takes a path only", w.Action)
		}
	default:
		p.add("action", "must be write, remove or revert")
	}
	return p
}

// filePath checks that a step may write the file.
func filePath(name string, p *StepProblems) {
	const at = "path"
	before := len(*p)
	absolute(at, name, p)
	if len(*p) > before {
		return
	}
	if !slices.ContainsFunc(FileRoots, func(root string) bool { return strings.HasPrefix(name, root+"/") }) {
		p.add(at, "must be below one of %s", strings.Join(FileRoots, ", "))
		return
	}
	kept := amid(fileKept, name) || strings.Contains(name, "/.gpuaas-") || strings.HasPrefix(name, "/etc/ld.so.")
	if rest, is := strings.CutPrefix(name, fileUnits+"/system/"); is && !kept {
		unit, _, _ := strings.Cut(rest, "/")
		kept = keptUnit(strings.TrimSuffix(unit, ".d")) // its settings are as good as the unit
	}
	if unit := strings.HasPrefix(name, fileUnits+"/"); kept || unit && !unitFile.MatchString(name) {
		p.add(at, "decides who has power over the machine, so no step writes it")
	}
}

func (w FileRenderWith) validateContent(p *StepProblems) {
	if !slices.Contains(FileFormats, w.Format) {
		p.add("format", "must be one of %s", strings.Join(FileFormats, ", "))
	}
	if w.Format == FormatLines && !oneValue.MatchString(w.Template) {
		p.add("template", "of the format lines is one value and nothing else, such as {{content}}")
	}
	if len(w.Template) > MaxFileBytes {
		p.add("template", "must not have more than %d bytes", MaxFileBytes)
	}
	fileOwner(w.Owner, w.Group, w.Mode, p)
	if len(w.Secrets) > 0 && w.Mode != "" && w.Mode[len(w.Mode)-1] != '0' {
		p.add("mode", "a file with secrets must not be readable to others")
	}
	w.validateNames(p)
}

// fileOwner checks whose a file becomes.
func fileOwner(owner, group, mode string, p *StepProblems) {
	for at, name := range map[string]string{"owner": owner, "group": group} {
		if name != "" && !userName.MatchString(name) {
			p.add(at, "must be the name of an account")
		}
	}
	if mode != "" && (!fileMode.MatchString(mode) || mode[3]&2 != 0 || mode[2]&2 != 0) {
		p.add("mode", "must be octal such as 0644, without rights to write for group and others")
	}
}

func (w FileRenderWith) validateNames(p *StepProblems) {
	used, err := TemplateNames(w.Template)
	if err != nil {
		p.add("template", "%v", err)
		return
	}
	for _, name := range used {
		_, value := w.Values[name]
		_, secret := w.Secrets[name]
		if value == secret {
			p.add("template", "{{%s}} must be one of the values or one of the secrets", name)
		}
	}
	names := append(sorted(w.Values), sorted(w.Secrets)...)
	for _, name := range names {
		at := "values." + name
		if _, value := w.Values[name]; !value {
			at = "secrets." + name
		}
		if !templateName.MatchString(name) {
			p.add(at, "a name is a lower-case letter, then lower-case letters, digits and _")
		} else if !slices.Contains(used, name) {
			p.add(at, "the template does not use it")
		}
	}
	for _, name := range sorted(w.Values) {
		if raw := w.Values[name]; len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n' {
			p.add("values."+name, "must be a text, a whole number, true or false")
		}
	}
}

// FileRenderResult says what became of the file.
type FileRenderResult struct {
	Path    string `json:"path"`
	Changed bool   `json:"changed"`
	Created bool   `json:"created,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	SHA256  string `json:"sha256,omitempty"` // of the content; with secrets empty
	Bytes   int64  `json:"bytes"`
	// Diff is what changed, line by line. With secrets it is empty.
	Diff string `json:"diff,omitempty"`
	// Before is the SHA-256 of what was there; its copy is kept.
	Before string `json:"before,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Group  string `json:"group,omitempty"`
	Mode   string `json:"mode,omitempty"`
}
