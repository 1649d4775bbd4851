package hosttest

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gpuaas/agent/internal/hostexec"
)

// Main runs the tests. If the binary was started under the name of a program,
// it acts as that program. Call it from TestMain.
func Main(m *testing.M) {
	hostexec.Confine()
	name := filepath.Base(os.Args[0])
	if name == "gpuaas-agent" {
		leave(agent(filepath.Dir(os.Args[0]), os.Args[1:]))
	}
	if root := os.Getenv("GPUAAS_HOST_ROOT"); root != "" {
		leave(program{root: root, name: name, args: os.Args[1:]}.run())
	}
	os.Exit(m.Run())
}

// leave ends a program at once: os.Exit takes a second under the race detector.
func leave(status int) { syscall.Exit(status) }

// agent acts as a staged agent: it prints the version in the file beside it.
func agent(dir string, args []string) int {
	version, err := os.ReadFile(filepath.Join(dir, "version.txt")) //nolint:gosec // the folder of the test program itself
	if err != nil || !slices.Equal(args, []string{"version", "--json"}) {
		fmt.Fprintln(os.Stderr, "this agent is broken")
		return 1
	}
	fmt.Printf("{\"version\":%q,\"commit\":\"0123456\"}\n", strings.TrimSpace(string(version)))
	return 0
}

type program struct {
	root, name string
	args       []string
}

func (p program) run() int {
	p.log()
	if p.told("hang") {
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		<-end
		return 143
	}
	if raw, err := os.ReadFile(filepath.Join(p.root, "stub/say", p.name)); err == nil {
		_, _ = os.Stdout.Write(raw)
	}
	if p.told("fail") {
		fmt.Fprintf(os.Stderr, "%s: cannot do it\n", p.name)
		return 9
	}
	if err := p.real(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, err)
		return 1
	}
	if err := p.act(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, err)
		return 1
	}
	return 0
}

// real runs the real program on the files of the fake machine, if the test
// asked for it and that is possible.
func (p program) real() error {
	accounts := []string{"groupadd", "groupdel", "useradd", "userdel", "usermod"}
	if !p.asked("stub/real") {
		return nil
	}
	status := filepath.Join(p.root, "var/lib/dpkg/status")
	switch p.name {
	case "apt-get":
		return p.become("/usr/bin/apt-get", "-o", "Dir::State::Status="+status, "-o", "Dir::State="+p.root+"/var/lib/apt",
			"-o", "Dir::Log="+p.root+"/var/log/apt", "-o", "Dir::Etc::Trusted=/dev/null", "-o", "Dir::Etc::Parts=/dev/null",
			"-o", "DPkg::Options::=--root="+p.root, "-o", "DPkg::Options::=--force-script-chrootless")
	case "dpkg":
		return p.become("/usr/bin/dpkg", "--root="+p.root)
	case "dpkg-query":
		return p.become("/usr/bin/dpkg-query", "--admindir="+filepath.Dir(status))
	}
	if !slices.Contains(accounts, p.name) {
		return nil
	}
	path := "/usr/sbin/" + p.name
	return syscall.Exec(path, append([]string{path, "--prefix", p.root}, p.args...), os.Environ())
}

// become goes on as the real program.
func (p program) become(path string, first ...string) error {
	args := append(append([]string{path}, first...), p.args...)
	return syscall.Exec(path, args, os.Environ())
}

func (p program) told(kind string) bool { return p.asked(filepath.Join("stub", kind, p.name)) }

func (p program) asked(file string) bool {
	_, err := os.Stat(filepath.Join(p.root, file))
	return err == nil
}

func (p program) log() {
	if err := os.MkdirAll(filepath.Join(p.root, "stub"), 0o750); err != nil {
		panic(err)
	}
	f, err := os.OpenFile(filepath.Join(p.root, "stub/calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, strings.Join(append([]string{p.name}, p.args...), " "))
}

func (p program) option(name string) string {
	if i := slices.Index(p.args, name); i >= 0 && i+1 < len(p.args) {
		return p.args[i+1]
	}
	return ""
}

func (p program) act() error {
	last := ""
	if len(p.args) > 0 {
		last = p.args[len(p.args)-1]
	}
	switch p.name {
	case "groupadd":
		return p.add("etc/group", last, last+":x:"+p.option("--gid")+":\n")
	case "groupdel":
		return p.drop("etc/group", last)
	case "useradd":
		return p.useradd(last)
	case "userdel":
		return p.drop("etc/passwd", last)
	case "usermod":
		if err := p.known(last); err != nil {
			return err
		}
		return p.lock(last)
	case "weka":
		return p.weka(last)
	}
	return nil
}

// weka acts as the program of Weka: its containers are folders of their names in
// /stub/weka. One that is called stubborn cannot be removed.
func (p program) weka(last string) error {
	folder := filepath.Join(p.root, "stub/weka")
	entries, err := os.ReadDir(folder)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("list containers: %w", err)
	}
	switch strings.Join(p.args[:min(2, len(p.args))], " ") {
	case "local ps":
		var names []string
		for _, e := range entries {
			names = append(names, fmt.Sprintf(`{"name":%q,"type":"weka"}`, e.Name()))
		}
		fmt.Println("[" + strings.Join(names, ",") + "]")
	case "local rm":
		if strings.Contains(last, "stubborn") {
			return fmt.Errorf("container %s is busy", last)
		}
		return os.Remove(filepath.Join(folder, last))
	}
	return nil
}

// lock locks an account of a machine that has passwords.
func (p program) lock(name string) error {
	path := filepath.Join(p.root, "etc/shadow")
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) || !slices.Contains(p.args, "--lock") {
		return nil
	}
	if err != nil {
		return err
	}
	lines := strings.Split(string(raw), "\n")
	for i, line := range lines {
		if f := strings.Split(line, ":"); f[0] == name && len(f) > 8 {
			f[1], f[7] = "!"+f[1], "1"
			lines[i] = strings.Join(f, ":")
		}
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600) //nolint:gosec // a file of the test's own root
}

func (p program) useradd(name string) error {
	home := p.option("--home-dir")
	line := fmt.Sprintf("%s:x:%s:%s::%s:%s\n", name, p.option("--uid"), p.option("--gid"), home, p.option("--shell"))
	if err := p.add("etc/passwd", name, line); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(p.root, home), 0o750); err != nil {
		return err
	}
	uid, _ := strconv.Atoi(p.option("--uid"))
	gid, _ := strconv.Atoi(p.option("--gid"))
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(filepath.Join(p.root, home), uid, gid)
}

func (p program) known(name string) error {
	raw, err := os.ReadFile(filepath.Join(p.root, "etc/passwd"))
	if err != nil {
		return err
	}
	if !strings.Contains("\n"+string(raw), "\n"+name+":") {
		return fmt.Errorf("user '%s' does not exist", name)
	}
	return nil
}

func (p program) add(file, name, line string) error {
	path := filepath.Join(p.root, file)
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.Contains("\n"+string(raw), "\n"+name+":") {
		return fmt.Errorf("'%s' already exists", name)
	}
	return write(path, string(raw)+line)
}

func (p program) drop(file, name string) error {
	path := filepath.Join(p.root, file)
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(raw), "\n"),
		func(l string) bool { return strings.HasPrefix(l, name+":") })
	kept := strings.Join(lines, "")
	if len(kept) == len(raw) {
		return fmt.Errorf("'%s' does not exist", name)
	}
	return write(path, kept)
}

func write(path, content string) error {
	return os.WriteFile(path, []byte(content), 0o600) //nolint:gosec // a file of the fake machine
}
