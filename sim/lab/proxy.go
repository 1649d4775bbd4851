package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The parts of SOCKS 5 (RFC 1928) that are needed to reach machines.
const (
	socksVersion   = 5
	noCredentials  = 0
	nothingOffered = 0xff
	connectCommand = 1

	addressIPv4 = 1
	addressName = 3
	addressIPv6 = 4

	replyDone        = 0
	replyNotAllowed  = 2
	replyUnreachable = 4
	replyRefused     = 5
	replyNoCommand   = 7
	replyNoAddress   = 8
)

// Why the proxy does not connect.
var (
	errNotAllowed  = errors.New("the proxy leads to port 22 of machines of the lab and nowhere else")
	errUnreachable = errors.New("no machine of the lab has this address")
	errRefused     = errors.New("the machine is off")
)

// connector takes over a connection to an address. It calls answer once, with
// what to tell the client, before anything else is sent.
type connector func(ctx context.Context, conn net.Conn, to netip.AddrPort, answer func(error) error)

// proxy listens on the loopback interface. Its connections end with it.
type proxy struct {
	listener net.Listener
	connect  connector
	log      *slog.Logger
	life     context.Context //nolint:containedctx // connections outlive the call that starts the proxy
	end      context.CancelFunc
	working  sync.WaitGroup
}

// handshakePatience is for clients that connect and say nothing.
const handshakePatience = 30 * time.Second

func startProxy(ctx context.Context, address string, connect connector, log *slog.Logger) (*proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the proxy: %w", err)
	}
	p := &proxy{listener: l, connect: connect, log: log}
	p.life, p.end = context.WithCancel(ctx)
	p.working.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	p.end()
	_ = p.listener.Close() // nobody is left to be told
	p.working.Wait()
}

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.log.Error("accept connection to a machine", "error", err)
			continue
		}
		p.working.Go(func() { p.serve(conn) })
	}
}

func (p *proxy) serve(conn net.Conn) {
	stop := context.AfterFunc(p.life, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	if conn.SetDeadline(time.Now().Add(handshakePatience)) != nil {
		return
	}
	to, reply, err := greet(conn)
	if err != nil {
		if reply != replyDone {
			_ = respond(conn, reply) // the connection is closed anyway
		}
		p.log.Debug("proxy", "error", err)
		return
	}
	p.connect(p.life, conn, to, func(problem error) error {
		err := respond(conn, replyTo(problem))
		if err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		return err
	})
}

func replyTo(problem error) byte {
	switch {
	case problem == nil:
		return replyDone
	case errors.Is(problem, errNotAllowed):
		return replyNotAllowed
	case errors.Is(problem, errUnreachable):
		return replyUnreachable
	}
	return replyRefused
}

// greet reads the target of the connection. reply is the answer to a client
// that is not understood.
func greet(conn net.Conn) (to netip.AddrPort, reply byte, err error) {
	head, err := take(conn, 2)
	if err != nil {
		return to, replyDone, err
	}
	methods, err := take(conn, int(head[1]))
	if err != nil {
		return to, replyDone, err
	}
	if head[0] != socksVersion {
		return to, replyDone, fmt.Errorf("version %d of SOCKS is not known", head[0])
	}
	if !slices.Contains(methods, noCredentials) {
		_, err = conn.Write([]byte{socksVersion, nothingOffered})
		return to, replyDone, errors.Join(err, errors.New("the client offers no method without credentials"))
	}
	if _, err := conn.Write([]byte{socksVersion, noCredentials}); err != nil {
		return to, replyDone, fmt.Errorf("choose method: %w", err)
	}
	request, err := take(conn, 4)
	if err != nil {
		return to, replyDone, err
	}
	if request[1] != connectCommand {
		return to, replyNoCommand, fmt.Errorf("command %d is not known", request[1])
	}
	ip, reply, err := readAddress(conn, request[3])
	if err != nil {
		return to, reply, err
	}
	port, err := take(conn, 2)
	if err != nil {
		return to, replyDone, err
	}
	return netip.AddrPortFrom(ip, uint16(port[0])<<8|uint16(port[1])), replyDone, nil
}

func take(conn net.Conn, size int) ([]byte, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(conn, b); err != nil {
		return nil, fmt.Errorf("read from client of the proxy: %w", err)
	}
	return b, nil
}

func readAddress(conn net.Conn, kind byte) (ip netip.Addr, reply byte, err error) {
	size := map[byte]int{addressIPv4: 4, addressIPv6: 16}[kind]
	if kind == addressName {
		length, err := take(conn, 1)
		if err != nil {
			return ip, replyDone, err
		}
		size = int(length[0])
	}
	content, err := take(conn, size)
	if err != nil {
		return ip, replyDone, err
	}
	if kind == addressName { // some clients write addresses as names
		if ip, err = netip.ParseAddr(string(content)); err == nil {
			return ip.Unmap(), replyDone, nil
		}
	} else if ip, ok := netip.AddrFromSlice(content); ok {
		return ip.Unmap(), replyDone, nil
	}
	return ip, replyNoAddress, errors.New("read address: kind " + strconv.Itoa(int(kind)) + " is no address")
}

func respond(conn net.Conn, reply byte) error {
	// Nobody needs the address from which the proxy speaks.
	if _, err := conn.Write([]byte{socksVersion, reply, 0, addressIPv4, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("answer client of the proxy: %w", err)
	}
	return nil
}

// connect connects to the machine that has an address now.
func (l *Lab) connect(ctx context.Context, conn net.Conn, to netip.AddrPort, answer func(error) error) {
	if to.Port() != 22 {
		_ = answer(fmt.Errorf("connect to %s: %w", to, errNotAllowed)) // the connection is closed anyway
		return
	}
	b, found := l.AtAddress(to.Addr().String())
	if !found {
		_ = answer(fmt.Errorf("connect to %s: %w", to, errUnreachable))
		return
	}
	h := l.metal.host(b.SystemID)
	if h == nil {
		_ = answer(fmt.Errorf("connect to %s: %w", to, errRefused))
		return
	}
	if h.sshd == nil {
		if answer(nil) == nil {
			l.serveSSH(ctx, conn, h)
		}
		return
	}
	dialing, done := context.WithTimeout(ctx, handshakePatience/2)
	defer done()
	there, err := h.sshd(dialing)
	if err != nil {
		_ = answer(fmt.Errorf("connect to %s: %w", to, errRefused))
		l.log.Debug("connect to machine", "machine", b.SystemID, "error", err)
		return
	}
	defer func() { _ = there.Close() }()
	if answer(nil) == nil {
		join(ctx, conn, there)
	}
}

// join carries bytes both ways until both sides are finished.
func join(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { _, _ = a.Close(), b.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // a broken connection has ended too
			if half, ok := pair[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
