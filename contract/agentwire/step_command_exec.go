package agentwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// StepCommandExec runs a program of a command profile.
const StepCommandExec = "command.exec_allowlisted"

var _ = declareStep[CommandExecWith, CommandResult](StepKind{
	Kind: StepCommandExec, Title: "run a program of a command profile", Impact: ImpactDisrupt,
	Checks: "What a program did leaves no trace: a run that was interrupted is ambiguous, unless its profile says " +
		"safe_to_repeat. It has succeeded if its exit code is an expected one within its time.",
	Sound: []string{
		`{"profile":{"id":"sync_time","command":"/usr/bin/chronyc","base_args":["makestep"],"timeout_seconds":30}}`,
		`{"profile":{"id":"resize","command":"/usr/sbin/resize2fs","arguments":[{"name":"device","type":"string",` +
			`"pattern":"/dev/[a-z0-9]+"}],"timeout_seconds":60,"safe_to_repeat":true},"arguments":{"device":"/dev/sdb"}}`,
		`{"profile":{"id":"login","command":"/usr/bin/app","env":["APP_TOKEN"],"user":"app","timeout_seconds":60},` +
			`"secrets":{"APP_TOKEN":"${steps.token.values.token}"}}`,
	},
	Answer: `{"profile":"simulated","exit_code":0,"stdout":"","stderr":""}`,
})

// CommandExecWith is a profile with the values of its arguments.
type CommandExecWith struct {
	// In a definition it is the id of one of its commands; the node gets all of it.
	Profile CommandProfile `json:"profile"`
	// Arguments are the values of the profile's arguments, by name.
	Arguments map[string]json.RawMessage `json:"arguments,omitempty"`
	// Env and Secrets are values of the profile's environment, by name.
	Env     map[string]string `json:"env,omitempty"`
	Secrets map[string]Secret `json:"secrets,omitempty"`
}

// CommandProfile is one program with everything about it that is fixed. Only
// platform admins write profiles.
type CommandProfile struct {
	ID      string `json:"id"`
	Command string `json:"command"` // the path of the program
	// BaseArgs always come first.
	BaseArgs []string `json:"base_args,omitempty"`
	// Arguments come after them, in this order.
	Arguments []CommandArgument `json:"arguments,omitempty"`
	// Env names the variables that may be set. The program gets no others.
	Env []string `json:"env,omitempty"`
	// User is the account that runs the program. Empty: root.
	User string `json:"user,omitempty"`
	// Group is the account's group. Empty: root for root, otherwise the user's name.
	Group          string `json:"group,omitempty"`
	TimeoutSeconds int    `json:"timeout_seconds"`
	// ExpectedExitCodes mean success. None: only 0.
	ExpectedExitCodes []int `json:"expected_exit_codes,omitempty"`
	// SafeToRepeat says that running it twice does no harm. Otherwise an
	// interrupted run is ambiguous and is not repeated.
	SafeToRepeat bool `json:"safe_to_repeat,omitempty"`
	// DropStdout and DropStderr keep a stream out of result and log.
	DropStdout bool          `json:"drop_stdout,omitempty"`
	DropStderr bool          `json:"drop_stderr,omitempty"`
	Limits     CommandLimits `json:"limits,omitzero"`
}

// CommandLimits limit one program. Zero means the default.
type CommandLimits struct {
	OutputBytes int64 `json:"output_bytes,omitempty"` // default 1 MiB; more ends the program
	MemoryMiB   int64 `json:"memory_mib,omitempty"`   // address space; default: none
	Processes   int64 `json:"processes,omitempty"`    // of the user; default: none
	FileMiB     int64 `json:"file_mib,omitempty"`     // of one file it writes; default 1024
	OpenFiles   int64 `json:"open_files,omitempty"`   // default 1024
	CPUSeconds  int64 `json:"cpu_seconds,omitempty"`  // default: none
}

// CommandArgument is one argument that is not fixed.
type CommandArgument struct {
	Name string `json:"name"`
	// Flag stands before the value, as in --port=8080 if it ends with =, or as an
	// argument of its own. Empty: only the value.
	Flag string `json:"flag,omitempty"`
	Type string `json:"type"` // string, integer or boolean; a boolean needs a flag, which is there or not
	// Pattern is what the whole of a string must match, a regular expression.
	Pattern string `json:"pattern,omitempty"`
	// Values are the only strings that are accepted.
	Values   []string `json:"values,omitempty"`
	Minimum  *int64   `json:"minimum,omitempty"`
	Maximum  *int64   `json:"maximum,omitempty"`
	Optional bool     `json:"optional,omitempty"`
}

var (
	profileID  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	envName    = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	flagForm   = regexp.MustCompile(`^--?[A-Za-z0-9][A-Za-z0-9_-]{0,63}=?$`)
	commandDir = []string{
		"/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt", "/usr/lib",
	}
)

// interpreters run whatever they are given, so no profile names one.
var interpreters = regexp.MustCompile(`^(` +
	`sh|bash|dash|ash|zsh|ksh.*|csh|tcsh|fish|busybox|toybox|env|sudo|su|doas|runuser|setpriv|chroot|` +
	`nsenter|unshare|xargs|find|awk|gawk|mawk|nawk|sed|ed|ex|vi|vim|vim\..*|view|nano|emacs.*|perl.*|python.*|` +
	`pypy.*|ruby.*|node|nodejs|deno|bun|php.*|lua.*|luajit.*|tclsh.*|wish.*|expect|gdb|strace|ltrace|script|` +
	`screen|tmux|ssh|scp|sftp|socat|nc|nc\..*|ncat|netcat|telnet|curl|wget|systemd-run|systemd-nspawn|` +
	`machinectl|at|batch|crontab|make|gmake|cmake|gcc.*|cc|go|java|jshell|docker|podman|nerdctl|ctr|crictl|` +
	`kubectl|lxc|lxc-.*|virsh|qemu-.*|git|tar|rsync|dd|tee|cp|mv|ln|install|chmod|chown|mount|umount|insmod|` +
	`modprobe|kexec|ld\.so.*|ld-linux.*|capsh|start-stop-daemon|nohup|setsid|timeout|time|nice|ionice|taskset|` +
	`watch|parallel|apt|apt-get|dpkg|dnf|yum|rpm|snap|pip.*|npm|npx|flock|run-parts|dbus-send|busctl|gdbus|` +
	`pkexec|mawk|m4|bc|dc|less|more|man|` +
	// what starts the program that it is given
	`sg|newgrp|sudoedit|stdbuf|unbuffer|prlimit|setarch|linux32|linux64|i386|x86_64|uname26|chrt|choom|uclampset|` +
	`numactl|cpulimit|cgexec|runcon|ssh-agent|ssh-keysign|sshpass|mosh|ip|systemd-(inhibit|cat|socket-activate|` +
	`mount|umount|dissect|tmpfiles|sysusers|sysext|confext|firstboot)|dumb-init|tini|catatonit|daemonize|chpst|softlimit|` +
	`envdir|setuidgid|fakeroot|faketime|eatmydata|logsave|valgrind|perf|bpftrace|trace-cmd|rlwrap|entr|split|` +
	`pivot_root|switch_root|runc|crun|nvidia-container-runtime.*|apptainer|singularity|enroot|buildah|` +
	`psql|mysql|mariadb|sqlite3|ftp|lftp|cpio|ar|rmmod|kmod|depmod|` +
	// what makes accounts, packages and units, for which there are other ways
	`useradd|usermod|userdel|groupadd|groupmod|groupdel|adduser|addgroup|deluser|delgroup|gpasswd|passwd|chpasswd|` +
	`newusers|chage|chsh|chfn|vipw|vigr|visudo|setcap|apt-.*|aptitude|dpkg-.*|update-alternatives|update-initramfs|` +
	`systemctl|service|initctl|shutdown|reboot|halt|poweroff|init|telinit)$`)

// badEnv are variables that change which code a program runs.
var badEnv = regexp.MustCompile(`^(` +
	`LD_.*|PATH|IFS|ENV|BASH.*|SHELL|SHELLOPTS|PS4|PYTHON.*|PERL.*|RUBY.*|NODE_.*|GLIBC_.*|GCONV_PATH|` +
	`LOCPATH|NLSPATH|MALLOC_.*|TMPDIR|HOME|USER|LOGNAME|EDITOR|VISUAL|PAGER|JAVA_TOOL_OPTIONS|GIT_.*|` +
	`GPUAAS_.*)$`)

// Validate implements StepParams.
func (w CommandExecWith) Validate() StepProblems {
	var p StepProblems
	w.Profile.Validate("profile", &p)
	known := map[string]CommandArgument{}
	for _, a := range w.Profile.Arguments {
		known[a.Name] = a
		if _, given := w.Arguments[a.Name]; !given && !a.Optional {
			p.add("arguments."+a.Name, "has no value")
		}
	}
	for _, name := range sorted(w.Arguments) {
		a, is := known[name]
		if !is {
			p.add("arguments."+name, "is not an argument of the profile")
			continue
		}
		if _, err := a.Value(w.Arguments[name]); err != nil {
			p.add("arguments."+name, "%v", err)
		}
	}
	for at, names := range map[string][]string{"env.": sorted(w.Env), "secrets.": sorted(w.Secrets)} {
		for _, name := range names {
			if !slices.Contains(w.Profile.Env, name) {
				p.add(at+name, "is not in the environment of the profile")
			}
			if v := w.Env[name]; at == "env." && (len(v) > 4096 || !printable(v)) {
				p.add(at+name, "must be a printable text of at most 4096 bytes")
			}
		}
	}
	return p
}

// Validate names what is wrong with a profile that stands at a path.
func (c CommandProfile) Validate(at string, p *StepProblems) {
	if !profileID.MatchString(c.ID) {
		p.add(at+".id", "must be a lower-case letter, then lower-case letters, digits and _")
	}
	absolute(at+".command", c.Command, p)
	inside := slices.ContainsFunc(commandDir, func(d string) bool { return strings.HasPrefix(c.Command, d+"/") })
	switch {
	case !inside:
		p.add(at+".command", "must be below one of %s", strings.Join(commandDir, ", "))
	case interpreters.MatchString(path.Base(c.Command)):
		p.add(at+".command", "%s runs or changes whatever it is told: name the program itself, or use a step "+
			"that is made for it", path.Base(c.Command))
	}
	for i, arg := range c.BaseArgs {
		if len(arg) > 1024 || !printable(arg) {
			p.add(fmt.Sprintf("%s.base_args.%d", at, i), "must be a printable text of at most 1024 bytes")
		}
	}
	if len(c.BaseArgs) > 64 || len(c.Arguments) > 32 || len(c.Env) > 32 {
		p.add(at, "there are at most 64 base_args, 32 arguments and 32 variables")
	}
	for i, e := range c.Env {
		if !envName.MatchString(e) || badEnv.MatchString(e) {
			p.add(fmt.Sprintf("%s.env.%d", at, i),
				"%q cannot be set: it has another form, or decides which code runs", clip(e))
		}
	}
	for name, who := range map[string]string{"user": c.User, "group": c.Group} {
		if who != "" && !userName.MatchString(who) {
			p.add(at+"."+name, "must be the name of an account")
		}
	}
	if c.TimeoutSeconds < 1 || c.TimeoutSeconds > MaxStepTimeout {
		p.add(at+".timeout_seconds", "must be between 1 and %d", MaxStepTimeout)
	}
	for i, code := range c.ExpectedExitCodes {
		if code < 0 || code > 255 || i > 31 {
			p.add(at+".expected_exit_codes", "must be at most 32 numbers between 0 and 255")
			break
		}
	}
	seen := map[string]bool{}
	for i, a := range c.Arguments {
		where := fmt.Sprintf("%s.arguments.%d", at, i)
		if seen[a.Name] {
			p.add(where+".name", "occurs twice")
		}
		seen[a.Name] = true
		a.validate(where, p)
	}
	c.Limits.validate(at+".limits", p)
}

func (l CommandLimits) validate(at string, p *StepProblems) {
	for name, v := range map[string][2]int64{
		"output_bytes": {l.OutputBytes, 64 << 20}, "memory_mib": {l.MemoryMiB, 1 << 22},
		"processes": {l.Processes, 1 << 16},
		"file_mib":  {l.FileMiB, 1 << 22}, "open_files": {l.OpenFiles, 1 << 20}, "cpu_seconds": {l.CPUSeconds, 1 << 20},
	} {
		if v[0] < 0 || v[0] > v[1] {
			p.add(at+"."+name, "must be between 0 and %d", v[1])
		}
	}
}

func (a CommandArgument) validate(at string, p *StepProblems) {
	if !templateName.MatchString(a.Name) {
		p.add(at+".name", "must be a lower-case letter, then lower-case letters, digits and _")
	}
	if a.Flag != "" && !flagForm.MatchString(a.Flag) {
		p.add(at+".flag", "must be an option such as --port, or --port= if the value follows in the same argument")
	}
	switch a.Type {
	case "string":
		if a.Pattern == "" && len(a.Values) == 0 {
			p.add(at, "a string needs a pattern or values")
		}
		if _, err := regexp.Compile(a.Pattern); err != nil || len(a.Pattern) > 500 {
			p.add(at+".pattern", "must be a regular expression of at most 500 bytes")
		}
	case "integer":
		if a.Minimum == nil || a.Maximum == nil {
			p.add(at, "an integer needs a minimum and a maximum")
		}
	case "boolean":
		if a.Flag == "" || strings.HasSuffix(a.Flag, "=") {
			p.add(at+".flag", "a boolean is an option that is there or not")
		}
	default:
		p.add(at+".type", "must be string, integer or boolean")
	}
}

// Value turns the value of an argument into what stands on the command line. It
// is empty for a boolean that is false.
func (a CommandArgument) Value(raw json.RawMessage) ([]string, error) {
	var text string
	switch a.Type {
	case "boolean":
		var on bool
		if err := json.Unmarshal(raw, &on); err != nil {
			return nil, errors.New("must be true or false")
		}
		if !on {
			return nil, nil
		}
		return []string{a.Flag}, nil
	case "integer":
		var n int64
		err := json.Unmarshal(raw, &n)
		if err != nil || a.Minimum == nil || a.Maximum == nil || n < *a.Minimum || n > *a.Maximum {
			return nil, errors.New("must be a whole number within the limits of the profile")
		}
		text = strconv.FormatInt(n, 10)
	default:
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, errors.New("must be a text")
		}
		if err := a.text(text); err != nil {
			return nil, err
		}
	}
	switch {
	case strings.HasSuffix(a.Flag, "="):
		return []string{a.Flag + text}, nil
	case a.Flag != "":
		return []string{a.Flag, text}, nil
	default:
		return []string{text}, nil
	}
}

func (a CommandArgument) text(s string) error {
	if len(s) > 4096 || !printable(s) {
		return errors.New("must be a printable text of at most 4096 bytes")
	}
	if strings.HasPrefix(s, "-") && !strings.HasSuffix(a.Flag, "=") {
		return errors.New("must not begin with -, because the program would take it for an option")
	}
	if len(a.Values) > 0 && !slices.Contains(a.Values, s) {
		return fmt.Errorf("must be one of %s", strings.Join(a.Values, ", "))
	}
	if a.Pattern == "" {
		return nil
	}
	form, err := regexp.Compile(`^(?:` + a.Pattern + `)$`)
	if err != nil || !form.MatchString(s) {
		return errors.New("does not match the pattern of the profile")
	}
	return nil
}

// Line is the command line without the program.
func (w CommandExecWith) Line() ([]string, error) {
	line := slices.Clone(w.Profile.BaseArgs)
	for _, a := range w.Profile.Arguments {
		raw, given := w.Arguments[a.Name]
		if !given {
			continue
		}
		words, err := a.Value(raw)
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", a.Name, err)
		}
		line = append(line, words...)
	}
	return line, nil
}

// CommandResult is how a program ended.
type CommandResult struct {
	Profile  string   `json:"profile"`
	ExitCode int      `json:"exit_code"` // -1 if a signal ended it
	Stdout   string   `json:"stdout"`    // its beginning
	Stderr   string   `json:"stderr"`    // its end
	Argv     []string `json:"argv,omitempty"`
	// DurationMs is how long it ran.
	DurationMs int64 `json:"duration_ms,omitempty"`
}
