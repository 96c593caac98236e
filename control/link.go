// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const (
	subscribeTimeout = 10 * time.Second
	ackTimeout       = 30 * time.Second // see link.ackWithin
	disconnectMS     = 500
	beatEvery        = 5 * time.Second
	steadyAfter      = 10 * time.Second // a connection this old resets the pause between tries
	pingTimeout      = 10 * time.Second
	restLook         = 250 * time.Millisecond // how soon a link that rests sees that it may go on
	renewFlush       = time.Second            // for what is on its way when credentials are replaced
	shareAgain       = 10 * time.Minute       // a link that lost its connection over link.share does without for so long
)

// link keeps one connection to a broker alive: connect, subscribe, resync, serve the
// outbox until the connection is lost, again. Each connection is a new client of the
// MQTT library, used once: its own reconnecting resends old messages beside new ones
// and has been seen to get stuck.
type link struct {
	name      string // "control", "data", for notices
	endpoint  Endpoint
	clientID  string
	clean     bool
	manualAck bool
	will      *message
	filters   []string // subscribed with QoS 1
	watch     []string // with QoS 0: what has passed meanwhile is worth nothing
	share     []string // with QoS 1, and the link does without those that the broker denies
	box       *outbox
	handle    func(mqtt.Message)        // runs in the MQTT callback: must not block
	onUp      func()                    // subscribed; the outbox is served after it returns
	onDown    func(err error)           // a connection that was up is gone
	onDenied  func(filter string)       // of share
	ackWithin time.Duration             // without an acknowledgement for so long the connection is stuck; 0: ackTimeout
	onTry     func(err error)           // a try to connect went wrong
	keepAlive time.Duration             // of the MQTT connection; 0: the constant
	ups       atomic.Uint64             // connections made
	beat      atomic.Pointer[time.Time] // when the supervisor last moved
	connected atomic.Bool
	abrupt    atomic.Bool               // run ends without a DISCONNECT: the broker publishes the will
	resting   atomic.Bool               // see rest
	alone     atomic.Pointer[time.Time] // until then share is not asked for; nil: it is
	current   atomic.Pointer[conn]      // that is served; nil: none

	wg sync.WaitGroup
}

// run supervises until ctx ends, then disconnects, in an orderly way unless abrupt
// says otherwise, and returns once every goroutine of the link has ended.
func (l *link) run(ctx context.Context) {
	defer l.wg.Wait()
	pause := l.pause(0)
	for ctx.Err() == nil {
		if l.resting.Load() {
			l.wait(ctx, restLook)
			continue
		}
		c, err := l.try(ctx)
		if err == nil {
			began := time.Now()
			l.ups.Add(1)
			l.connected.Store(true)
			err = l.serve(ctx, c)
			l.connected.Store(false)
			if ctx.Err() != nil {
				return
			}
			l.onDown(err)
			if time.Since(began) > steadyAfter {
				pause = l.pause(0)
			}
		} else if ctx.Err() == nil {
			l.onTry(err)
		}
		// Half of the pause is random, so that a fleet does not come back at once.
		l.wait(ctx, pause/2+rand.N(pause/2+1))
		pause = l.pause(pause)
	}
}

// try connects, showing meanwhile that the supervisor lives, but not for longer than
// a connection can honestly take.
func (l *link) try(ctx context.Context) (*conn, error) {
	type made struct {
		c   *conn
		err error
	}
	result := make(chan made, 1)
	go func() {
		c, err := l.connect(ctx)
		result <- made{c, err}
	}()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	began := time.Now()
	l.tick()
	for {
		select {
		case m := <-result:
			l.tick()
			return m.c, m.err
		case <-beat.C:
			if time.Since(began) < time.Minute {
				l.tick()
			}
		}
	}
}

// pause returns the pause that follows prev, doubling between the bounds.
func (l *link) pause(prev time.Duration) time.Duration {
	least, most := l.endpoint.RetryMin, l.endpoint.RetryMax
	if least <= 0 {
		least = 500 * time.Millisecond
	}
	if most <= 0 {
		most = 30 * time.Second
	}
	return min(max(2*prev, least), most)
}

// rest ends the connection, in an orderly way so that no will is published, and makes
// no other until wake. It may take the time of a goodbye.
func (l *link) rest(reason error) {
	l.resting.Store(true)
	if c := l.current.Load(); c != nil {
		c.leave(reason)
	}
}

// wake ends a rest.
func (l *link) wake() { l.resting.Store(false) }

func (l *link) tick() {
	now := time.Now()
	l.beat.Store(&now)
}

// wait passes the time, showing that the supervisor lives.
func (l *link) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-t.C:
			return
		case <-ctx.Done():
			return
		case <-beat.C:
			l.tick()
		}
	}
}

var (
	errStuck    = errors.New("control: the broker does not acknowledge")
	errShutdown = errors.New("control: shutting down")
	errRenewed  = errors.New("control: credentials or certificates were replaced: connecting with the new ones")
)

// connect makes a connection and subscribes.
func (l *link) connect(ctx context.Context) (*conn, error) {
	u, err := l.endpoint.parse()
	if err != nil {
		return nil, err
	}
	files := l.endpoint.files() // before they are read: what changes in between is seen as a change
	user, password, err := l.endpoint.credentials()
	if err != nil {
		return nil, err
	}
	c := &conn{files: files, acks: make(chan flying, flightWindow), lost: make(chan struct{})}
	c.client = mqtt.NewClient(l.options(ctx, c, u, user, password))

	stop := context.AfterFunc(ctx, func() { c.fail(errShutdown) })
	defer stop()
	if err := finish(c.client.Connect(), 2*connectTimeout); err != nil {
		c.fail(err)
		return nil, fmt.Errorf("control: %s: %w", u.Host, err)
	}
	if err := l.subscribe(c); err != nil {
		c.fail(err)
		c.client.Disconnect(0)
		return nil, fmt.Errorf("control: %s: %w", u.Host, err)
	}
	return c, nil
}

func (l *link) options(ctx context.Context, c *conn, u *url.URL, user, password string) *mqtt.ClientOptions {
	o := mqtt.NewClientOptions()
	o.AddBroker(u.String())
	o.SetClientID(l.clientID).SetCleanSession(l.clean).SetProtocolVersion(4)
	o.SetUsername(user).SetPassword(password)
	o.SetAutoReconnect(false).SetConnectRetry(false).SetConnectTimeout(connectTimeout)
	alive, ping := keepAlive, pingTimeout
	if l.keepAlive > 0 {
		alive, ping = l.keepAlive, l.keepAlive
	}
	o.SetKeepAlive(alive).SetPingTimeout(ping)
	o.SetOrderMatters(true).SetResumeSubs(false).SetStore(noStore{})
	o.SetAutoAckDisabled(l.manualAck)
	timeout := l.endpoint.WriteTimeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	o.SetWriteTimeout(timeout)
	if l.will != nil {
		o.SetBinaryWill(l.will.topic, l.will.payload, l.will.qos, l.will.retain)
	}
	// One handler for everything: with a persistent session messages arrive before
	// the SUBACK, and a message without a handler would never be acknowledged.
	o.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { l.handle(m) })
	o.SetConnectionLostHandler(func(_ mqtt.Client, err error) { c.fail(err) })
	o.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
		nc, err := l.endpoint.open(ctx)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err != nil {
			_ = nc.Close() // given up meanwhile
			return nil, c.err
		}
		c.nc = nc
		return nc, nil
	})
	return o
}

// subscribe asks for every filter, once a connection: first for those that the link
// cannot do without.
func (l *link) subscribe(c *conn) error {
	want := make(map[string]byte, len(l.filters)+len(l.watch))
	for _, f := range l.watch {
		want[f] = 0
	}
	for _, f := range l.filters {
		want[f] = 1
	}
	denied, err := ask(c, want)
	if err != nil {
		return err
	}
	if len(denied) > 0 {
		return fmt.Errorf("subscribe: the broker denies %q", denied[0])
	}
	if t := l.alone.Load(); len(l.share) == 0 || t != nil && time.Until(*t) > 0 {
		return nil
	}
	clear(want)
	for _, f := range l.share {
		want[f] = 1
	}
	denied, err = ask(c, want)
	if err != nil {
		// Some brokers end the connection of whoever asks for what he may not have:
		// the next ones are made without, so that the device's own requests are heard.
		until := time.Now().Add(shareAgain)
		l.alone.Store(&until)
		return fmt.Errorf("%w; the next connections do without %q", err, l.share)
	}
	for _, f := range denied {
		l.onDenied(f)
	}
	return nil
}

// serve publishes from the outbox until the connection is lost or ctx ends.
func (l *link) serve(ctx context.Context, c *conn) error {
	l.current.Store(c)
	defer l.current.Store(nil)
	if l.resting.Load() {
		c.leave(errShutdown) // told to rest while it connected
		return c.reason()
	}
	l.onUp()
	gen := l.box.attach()
	l.wg.Add(2)
	go func() { defer l.wg.Done(); l.publish(c, gen) }()
	go func() { defer l.wg.Done(); l.collect(c, gen) }()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			l.tick()
			if l.endpoint.renewed(c.files) {
				l.renew(ctx, c)
			}
			continue
		case <-c.lost:
		case <-ctx.Done():
			if !l.abrupt.Load() {
				c.client.Disconnect(disconnectMS) // sends DISCONNECT: the will is not published
			}
			c.fail(errShutdown)
		}
		break
	}
	c.settle()
	l.box.detach(gen)
	if ctx.Err() == nil || l.abrupt.Load() {
		c.client.Disconnect(0) // ends what the library still runs
	}
	return c.reason()
}

// renew leaves a connection whose credentials were replaced: a broker that takes the
// old ones back, or a certificate that runs out, must not be what ends it.
func (l *link) renew(ctx context.Context, c *conn) {
	ctx, cancel := context.WithTimeout(ctx, renewFlush)
	defer cancel()
	l.box.flush(ctx)
	c.leave(errRenewed)
}

// publish hands messages to the library. It may be blocked in a dead connection for
// the write timeout; a new connection has its own goroutine and does not wait.
func (l *link) publish(c *conn, gen uint64) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-c.lost:
			l.box.signal() // a wake-up taken by mistake belongs to the next connection
			return
		default:
		}
		m, wait := l.box.take(gen)
		if m == nil {
			if wait <= 0 {
				wait = time.Hour
			}
			timer.Reset(wait)
			select {
			case <-l.box.wake:
			case <-timer.C:
			case <-c.lost:
			}
			continue
		}
		token := c.client.Publish(m.topic, m.qos, m.retain, m.payload)
		if m.qos == 0 {
			continue
		}
		select {
		case c.acks <- flying{m, token}:
		case <-c.lost:
		}
	}
}

// collect waits for acknowledgements, which come in the order of the publishes.
func (l *link) collect(c *conn, gen uint64) {
	limit := l.ackWithin
	if limit <= 0 {
		limit = ackTimeout
	}
	for {
		select {
		case <-c.lost:
			return
		case f := <-c.acks:
			timer := time.NewTimer(limit)
			select {
			case <-c.lost:
			case <-timer.C:
				c.fail(errStuck)
			case <-f.token.Done():
				// An error is a lost or stuck connection: the message stays in
				// flight and goes out again on the next one.
				if err := f.token.Error(); err != nil {
					c.fail(err)
				} else {
					l.box.ack(gen, f.m)
				}
			}
			timer.Stop()
		}
	}
}
