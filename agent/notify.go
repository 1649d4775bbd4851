package agent

import (
	"net"
	"os"
	"strconv"
	"time"
)

// notifier tells systemd the state of the agent, if systemd started it.
type notifier struct{ socket string }

func systemd() notifier { return notifier{socket: os.Getenv("NOTIFY_SOCKET")} }

// send ignores failures: only systemd depends on it, and notices.
func (n notifier) send(state string) {
	if n.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	_, _ = c.Write([]byte(state))
	_ = c.Close()
}

// watchdog returns how often systemd wants to hear from this process. 0 means
// never.
func (n notifier) watchdog() time.Duration {
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err != nil || micros <= 0 || n.socket == "" || pid != "" &&
		pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(micros) * time.Microsecond / 3
}
