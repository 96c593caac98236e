// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/nats-io/nats-server/v2/server"
)

const (
	// maxPayload closes the connection of a client that publishes more. It is above
	// the 128 KiB at which the device cuts, so that everything the device can refuse
	// by a message is refused by a message.
	maxPayload = 256 << 10

	maxStoreBytes  = 256 << 20 // retained documents and queued QoS 1 messages
	maxMemoryBytes = 32 << 20
	startTimeout   = 10 * time.Second

	// maxSubscriptions bounds those of QoS 1, all clients together; each costs memory and
	// some files. The server's own 1,000 are few for a hundred devices with sessions.
	maxSubscriptions = 4096

	// ackWait is after how long an unacknowledged QoS 1 message goes out again. The
	// server does not resend when a session comes back: what it wrote into a connection
	// that was dead already, it knows only by this. Its own 30 s are long for a prompt
	// or a command, and what comes twice is at least once, as docs/PROTOCOL.md has it.
	ackWait = 5 * time.Second
)

// ErrPortTaken is wrapped by the error of Start when something else listens there.
var ErrPortTaken = errors.New("broker: the port is taken")

// Options of a Broker.
type Options struct {
	Listen    string // host:port; port 0 picks a free one
	Dir       string // store; made when missing
	UsersFile string // see ReadUsers; "": anybody, on loopback alone

	// Device is the device's own user name. With users it needs a password, see
	// Credentials; "" makes one.
	Device   string
	Password string

	Leaf     Leaf  // to a NATS cluster
	MaxStore int64 // bytes the store may take; 0: 256 MiB

	// Log is told what the server says at warning level and above; nil: nobody is.
	Log func(level, text string)
}

// Broker is a running broker.
type Broker struct {
	srv      *server.Server
	addr     string
	user     string
	password string
	open     bool
	drained  bool // Close waited for the last requests; read after it
}

// Start starts a broker and returns once it answers an MQTT connection.
func Start(opt Options) (*Broker, error) {
	host, port, err := splitListen(opt.Listen)
	if err != nil {
		return nil, err
	}
	b := &Broker{open: opt.UsersFile == "", user: opt.Device}
	var users []*server.User
	if b.open {
		if !loopback(host) {
			return nil, fmt.Errorf("broker: mqtt.embedded.listen %q is reachable from outside: set mqtt.embedded.users_file, or listen on 127.0.0.1", opt.Listen)
		}
	} else {
		list, err := ReadUsers(opt.UsersFile)
		if err != nil {
			return nil, err
		}
		if b.password = opt.Password; b.password == "" {
			b.password = rand.Text()
		}
		if users, err = natsUsers(list, opt.Device, b.password); err != nil {
			return nil, err
		}
	}
	// A port of 0 is chosen here, and may be gone when the server takes it.
	for try := 0; ; try++ {
		err = b.start(opt, host, port, users)
		if err == nil || port != 0 || !errors.Is(err, ErrPortTaken) || try == 5 {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Broker) start(opt Options, host string, port int, users []*server.User) error {
	// The server calls a taken port fatal and tells nobody but its log, so look first.
	probe, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("%w: mqtt.embedded.listen %q: %w", ErrPortTaken, opt.Listen, err)
	}
	addr := probe.Addr().(*net.TCPAddr)
	if err := probe.Close(); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	log := &logger{tell: opt.Log}
	conf := &server.Options{
		ServerName: "windhover", DontListen: true, NoSigs: true, NoLog: false,
		JetStream: true, StoreDir: opt.Dir,
		JetStreamMaxMemory: maxMemoryBytes, JetStreamMaxStore: cmp.Or(opt.MaxStore, maxStoreBytes),
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: maxSubscriptions},
		MaxPayload:      maxPayload, Users: users,
		MQTT: server.MQTTOpts{Host: host, Port: addr.Port, AckWait: ackWait},
	}
	if err := opt.Leaf.join(conf, opt.Device); err != nil {
		return err
	}
	srv, err := server.NewServer(conf)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	log.closes = func() {
		if b.drained = drain(srv); !b.drained {
			log.Warnf("the clients' last requests do not get done: messages kept for absent clients may be lost")
		}
	}
	srv.SetLogger(log, false, false)
	srv.Start()
	b.srv, b.addr = srv, net.JoinHostPort(dialHost(host), strconv.Itoa(addr.Port))
	if err := b.ready(log); err != nil {
		b.Close()
		return err
	}
	return nil
}

// ready connects over MQTT until it is answered, and waits for the retained messages:
// the server's own readiness does not cover a server without a NATS port.
func (b *Broker) ready(log *logger) error {
	deadline := time.Now().Add(startTimeout)
	for answered := false; ; {
		if fatal := log.fatal(); fatal != "" {
			if strings.Contains(fatal, "address already in use") {
				return fmt.Errorf("%w: mqtt.embedded.listen: %s", ErrPortTaken, fatal)
			}
			return fmt.Errorf("broker: %s", fatal)
		}
		var err error
		if !answered {
			err = b.probe()
			answered = err == nil
		}
		if answered {
			if restored(b.srv) {
				return nil
			}
			err = errors.New("it is still reading the retained messages")
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("broker: no answer on %s within %v: %w", b.addr, startTimeout, err)
		}
		time.Sleep(10 * time.Millisecond) // there is no event to wait for
	}
}

// probe makes one MQTT connection.
func (b *Broker) probe() error {
	nc, err := net.DialTimeout("tcp", b.addr, time.Second)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	c := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	c.ProtocolName, c.ProtocolVersion = "MQTT", 4
	c.CleanSession, c.Keepalive = true, 10
	c.ClientIdentifier = "windhover-probe-" + rand.Text()[:8]
	if !b.open {
		c.UsernameFlag, c.Username = true, b.user
		c.PasswordFlag, c.Password = true, []byte(b.password)
	}
	if err := c.Write(nc); err != nil {
		return err
	}
	p, err := packets.ReadPacket(nc)
	if err != nil {
		return err
	}
	ack, ok := p.(*packets.ConnackPacket)
	if !ok || ack.ReturnCode != packets.Accepted {
		return errors.New("the connection is refused")
	}
	return packets.NewControlPacket(packets.Disconnect).Write(nc)
}

// Addr is where the broker can be reached from this machine, host:port.
func (b *Broker) Addr() string { return b.addr }

// URL is Addr for an MQTT client on this machine.
func (b *Broker) URL() string { return "mqtt://" + b.addr }

// Credentials are the device's own; both are "" while anybody may connect.
func (b *Broker) Credentials() (user, password string) {
	if b.open {
		return "", ""
	}
	return b.user, b.password
}

// Open says that the broker is on loopback and asks nobody who he is.
func (b *Broker) Open() bool { return b.open }

// Close disconnects everybody, waits until what they asked for is done and the store is
// closed. It may be called again.
func (b *Broker) Close() {
	b.srv.Shutdown()
	b.srv.WaitForShutdown()
}

func splitListen(s string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(s)
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("broker: mqtt.embedded.listen %q: write it as 127.0.0.1:1883", s)
	}
	return host, port, nil
}

// loopback says whether a listening host is this machine alone; "" is every address.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// dialHost is an address to reach a listener on host from here.
func dialHost(host string) string {
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		if err == nil && a.Is6() {
			return "::1"
		}
		return "127.0.0.1"
	}
	return host
}
