// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const (
	inboxSize  = 64 // messages between the MQTT callback and the dispatcher
	sweepEvery = 5 * time.Second
)

// Config is what a Server needs to know.
type Config struct {
	Device      string // see ValidDevice
	StateDir    string // session number, job journal, list of retained topics; made when missing
	Policy      Policy
	Limits      Limits
	Concurrency int           // generations at a time, see Generator; 0: 1
	StatsEvery  time.Duration // 0: 30 s
	State       string        // at the start: StateStarting when "", until SetState

	// Groups are those that the device belongs to; see ValidGroup.
	Groups []string
	// Share takes part of the requests to Groups; the broker needs shared subscriptions.
	Share bool
	// HomeAssistant publishes discovery documents for it.
	HomeAssistant bool
	// Desired takes what a fleet wants of the device: target is "device/NAME" or
	// "group/NAME". The document, as it came, comes again with each connection; an empty
	// one takes the one before back. It is called by one goroutine and must be quick;
	// nil: nobody wants to know.
	Desired func(target string, document []byte)

	// Notify is told what an operator may want to log; nil: nobody is. It is called
	// from several goroutines, must be quick, and must not call the Server, except
	// Counters on a link_ notice.
	Notify func(Notice)
	// Observe is told the end of each request and each refusal, under the same rules.
	Observe func(Observation)
	// Audit is given the end of each request and each job, and each refusal, before its
	// client is; nil: nobody keeps a record. Where Waits is not set it must be quick.
	Audit func(Audited)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Server is the device side: it answers requests and commands that come in over MQTT
// and keeps the retained documents true. It works without a broker; Connect gives it
// one.
type Server struct {
	cfg     Config
	topics  Topics
	backend Backend
	session uint64
	boot    string   // names this start; see rival.go
	earlier []string // the names of those before
	since   time.Time
	retake  time.Duration
	lim     Limits

	desk    *desk
	jobs    *jobs
	docs    *retained
	control *outbox
	data    *outbox

	requests chan inbound
	commands chan inbound
	passed   map[string]*passed        // by link
	beat     atomic.Pointer[time.Time] // of tick
	handling sync.Map                  // dispatcher's channel -> since when it handles one message
	said     atomic.Bool               // a status of this start was read on its topic
	aside    atomic.Bool               // another box has the name
	found    atomic.Bool               // by Home Assistant

	stop      context.CancelFunc // ends the goroutines that answer
	answering context.Context    // theirs
	unlink    context.CancelFunc // ends the links
	linkCtx   context.Context
	wg        sync.WaitGroup // those that answer
	links     sync.WaitGroup

	models   sync.Mutex // one ModelsChanged at a time, so that the newest is last
	finding  sync.Mutex // one hass at a time, likewise
	mu       sync.Mutex // guards what follows
	state    string
	reason   string
	lastStat []byte
	rival    string                     // boot of the last one told of
	ghosts   map[string]map[uint64]bool // boot of an earlier start -> connections on which it was heard
	reported *Reported
	ctl, dat *link // nil until Connect
	closed   bool
}

// inbound is a message between the callback and the dispatcher.
type inbound struct {
	topic    string
	payload  []byte
	retained bool
	dup      bool
	ack      func()
}

// New opens the state directory, takes the next session number and starts to answer;
// nothing goes out before Connect.
func New(cfg Config, b Backend) (*Server, error) {
	if !ValidDevice(cfg.Device) {
		return nil, fmt.Errorf("control: device %q: use 1 to 63 of a-z 0-9 -, not beginning with -", cfg.Device)
	}
	if err := cfg.Policy.Check(); err != nil {
		return nil, err
	}
	for _, g := range cfg.Groups {
		if !ValidGroup(g) {
			return nil, fmt.Errorf("control: group %q: use 1 to 63 of a-z 0-9 -, not beginning with -", g)
		}
	}
	if err := checkSchema(cfg.StateDir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("control: state: %w", err)
	}
	if cfg.Notify == nil {
		cfg.Notify = func(Notice) {}
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Observation) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.StatsEvery <= 0 {
		cfg.StatsEvery = 30 * time.Second
	}
	if cfg.State == "" {
		cfg.State = StateStarting
	}
	cfg.Concurrency = max(cfg.Concurrency, 1)
	s := &Server{
		cfg: cfg, topics: Topics{cfg.Device}, backend: b, lim: cfg.Limits.withDefaults(),
		since: cfg.Now().UTC(), state: cfg.State, boot: newBoot(), retake: retakeAfter,
		control: newOutbox(cfg.Now), data: newOutbox(cfg.Now),
		requests: make(chan inbound, inboxSize), commands: make(chan inbound, inboxSize),
		passed: map[string]*passed{linkControl: {}, linkData: {}},
	}
	s.found.Store(cfg.HomeAssistant)
	s.open()
	return s, nil
}

// open reads the state directory and starts the goroutines. State that cannot be
// read, or written because the disk is full, is told and does without.
func (s *Server) open() {
	fail := func(err error) { s.cfg.Notify(Notice{Event: NoticeState, Err: err}) }
	var err error
	if s.session, s.earlier, err = nextSession(s.cfg.StateDir, s.since, s.boot); err != nil {
		fail(err)
	}
	s.docs = openRetained(s.cfg.StateDir, s.control, fail)
	journal, files, bad := openJournal(s.cfg.StateDir, s.lim.IDs)
	for _, err := range bad {
		fail(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.answering = stop, ctx
	s.linkCtx, s.unlink = context.WithCancel(context.Background())
	s.desk = &desk{
		topics: s.topics, lim: s.lim, now: s.cfg.Now, gen: s.backend, box: s.data,
		concurrency: s.cfg.Concurrency, observe: s.cfg.Observe, audit: s.cfg.Audit, notify: s.cfg.Notify,
		wake: make(chan struct{}, s.lim.Queue), small: make(chan *entry, s.lim.Queue), base: ctx,
		entries: map[key]*entry{}, anon: map[[32]byte]*entry{}, clients: map[string]int{}, works: map[string]int{},
	}
	s.jobs = &jobs{
		topics: s.topics, lim: s.lim, now: s.cfg.Now, runner: s.backend,
		docs: s.docs, journal: journal, audit: s.cfg.Audit, notify: s.cfg.Notify, wake: make(chan struct{}, 1),
		recs: map[key]*jobEntry{}, ended: map[JobEnd]uint64{},
	}
	s.jobs.policy.Store(&s.cfg.Policy)
	s.jobs.restore(files)
	for range s.lim.Queue { // who is urgent finds one of them, whatever is in work
		s.wg.Go(func() { s.desk.work(ctx) })
	}
	s.wg.Go(func() { s.desk.tokenize(ctx) })
	s.wg.Go(func() { s.jobs.work(ctx) })
	s.wg.Go(func() { s.dispatch(ctx, s.requests, s.request) })
	s.wg.Go(func() { s.dispatch(ctx, s.commands, s.command) })
	s.wg.Go(func() { s.tick(ctx) })
}

// Session is the number of this start.
func (s *Server) Session() uint64 { return s.session }

// Connect starts to serve over MQTT: control for state, commands and records, data
// for requests and replies; they may be the same broker. It returns at once and keeps
// trying for ever; an error is a wrong endpoint. It may be called once.
func (s *Server) Connect(control, data Endpoint) error {
	if err := control.Check(); err != nil {
		return err
	}
	if err := data.Check(); err != nil {
		return err
	}
	will, err := encode(Status{V: 1, State: StateOffline, Session: s.session, Boot: s.boot, Since: s.since, Reason: "lost"})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errShutdown
	}
	if s.ctl != nil {
		return errors.New("control: Connect was called before")
	}
	s.ctl = &link{
		name: linkControl, endpoint: control, clientID: "windhover-" + s.cfg.Device, clean: false, manualAck: true,
		will:    &message{topic: s.topics.Status(), payload: will, qos: 1, retain: true},
		filters: append([]string{s.topics.commands()}, s.wanted()...), box: s.control,
		watch:  []string{s.topics.Status()},
		handle: s.receiver(linkControl, s.commands, true), onUp: s.resync,
	}
	s.dat = &link{
		name: linkData, endpoint: data, clientID: "windhover-" + s.cfg.Device + "-data", clean: true,
		filters: []string{s.topics.requests()}, share: s.shared(), box: s.data,
		onDenied: func(f string) {
			s.cfg.Notify(Notice{Event: NoticeDenied, Link: linkData, Topic: f, Err: errors.New("control: the broker denies this subscription")})
		},
		handle: s.receiver(linkData, s.requests, false), onUp: func() {},
	}
	for _, l := range []*link{s.ctl, s.dat} {
		up := l.onUp
		l.onUp = func() {
			s.cfg.Notify(Notice{Event: NoticeUp, Link: l.name, Filters: slices.Concat(l.filters, l.watch, l.share)})
			up()
			s.publishStatus(false)
		}
		l.onDown = func(err error) {
			s.cfg.Notify(Notice{Event: NoticeDown, Link: l.name, Err: err})
			s.publishStatus(false)
		}
		l.onTry = func(err error) { s.cfg.Notify(Notice{Event: NoticeTry, Link: l.name, Err: err}) }
		l.tick()
		s.links.Go(func() { l.run(s.linkCtx) })
	}
	return nil
}

// receiver is the MQTT callback: it moves a message to the dispatcher or, when that
// is behind, drops it and says so. It never blocks.
func (s *Server) receiver(link string, to chan inbound, manualAck bool) func(mqtt.Message) {
	return func(m mqtt.Message) {
		in := inbound{topic: m.Topic(), payload: m.Payload(), retained: m.Retained(), dup: m.Duplicate(), ack: func() {}}
		if manualAck {
			in.ack = m.Ack
		}
		if in.retained && s.target(in.topic) == "" && in.topic != s.topics.Status() {
			in.payload = nil
		}
		if s.answering.Err() != nil { // nobody reads it any more
			s.turnAway(in, interrupted(errDrained))
			return
		}
		select {
		case to <- in:
		default:
			s.passed[link].behind.Add(1)
			s.cfg.Notify(Notice{Event: NoticeDropped, Link: link, Topic: in.topic})
			e := Errorf(QueueFull, "the device is busy")
			e.RetryAfter = time.Second
			s.turnAway(in, e)
		}
	}
}

// turnAway answers a request that no dispatcher gets. A command that is not acknowledged
// comes again.
func (s *Server) turnAway(in inbound, e *Error) {
	if r, ok := s.route(in.topic); ok && r.class == "req" && len(in.payload) > 0 {
		away := incoming{op: r.kind, client: r.client, payload: in.payload}
		s.desk.refuse(away, away.id(), e)
	}
}

func (s *Server) dispatch(ctx context.Context, from chan inbound, do func(inbound)) {
	for {
		select {
		case in := <-from:
			s.handling.Store(from, time.Now())
			do(in)
			s.handling.Delete(from)
		case <-ctx.Done():
			return
		}
	}
}

// request handles one message below req/.
func (s *Server) request(in inbound) {
	r, ok := s.accept(in, linkData, "req")
	if !ok {
		return
	}
	q := incoming{op: r.kind, client: r.client, payload: in.payload, dup: in.dup}
	if refusal := r.misdirected(); refusal != nil {
		s.desk.refuse(q, q.id(), refusal)
		return
	}
	s.desk.submit(q)
}

// command handles one message below cmd/. It is acknowledged once the journal has it.
func (s *Server) command(in inbound) {
	defer in.ack()
	if in.topic == s.topics.Status() {
		s.hearStatus(in.payload)
		return
	}
	if target := s.target(in.topic); target != "" {
		s.cfg.Desired(target, in.payload)
		return
	}
	r, ok := s.accept(in, linkControl, "cmd")
	if !ok {
		return
	}
	if r.id == noID {
		r.id = newID() // each one published is another job
	}
	if _, err := s.jobs.submit(r.client, r.kind, r.id, in.payload, false); err != nil {
		s.desk.refuse(incoming{op: r.kind, client: r.client}, r.id, err)
	}
}

// accept sorts out what is no request: replays, empty payloads, other topics.
func (s *Server) accept(in inbound, link, class string) (route, bool) {
	r, ok := s.route(in.topic)
	switch {
	case in.retained:
		s.passed[link].replays.Add(1)
		s.cfg.Notify(Notice{Event: NoticeReplay, Topic: in.topic})
		return r, false
	case !ok || r.class != class || len(in.payload) == 0:
		s.passed[link].ignored.Add(1)
		s.cfg.Notify(Notice{Event: NoticeIgnored, Link: link, Topic: in.topic})
		return r, false
	}
	return r, true
}

func (s *Server) move() {
	now := time.Now()
	s.beat.Store(&now)
}

// tick does what is due by the clock.
func (s *Server) tick(ctx context.Context) {
	stats := time.NewTicker(s.cfg.StatsEvery)
	defer stats.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	s.move()
	for {
		select {
		case <-stats.C:
			s.publishStats()
		case <-sweep.C:
			s.desk.sweep()
			s.jobs.sweep()
			s.hass()
		case <-ctx.Done():
			return
		}
		s.move()
	}
}

// Shutdown says stopping, refuses new requests, lets those in work end until ctx
// does, interrupts the rest, publishes offline and disconnects. A broker that does
// not acknowledge that within 2 s is left without a goodbye, so that it publishes the
// will. The server cannot be used afterwards.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.state, s.reason = StateStopping, ""
	s.mu.Unlock()
	s.publishStatus(false)
	s.jobs.stop()
	s.desk.drain(ctx)
	s.stop()
	if !waitFor(&s.wg, 5*time.Second) {
		s.cfg.Notify(Notice{Event: NoticeState, Err: errors.New("control: the backend does not return from a cancelled call")})
	}

	// What is left to say gets a moment of its own, also when ctx has ended.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	s.data.flush(last)
	s.mu.Lock()
	s.state, s.reason = StateOffline, "shutdown"
	s.mu.Unlock()
	s.publishStatus(false)
	if !s.control.flush(last) && s.ctl != nil {
		s.ctl.abrupt.Store(true)
	}
	s.unlink()
	ended := waitFor(&s.links, 15*time.Second) // longer than any write timeout
	s.docs.close()
	if !ended {
		return errors.New("control: a connection does not end")
	}
	return nil
}

// waitFor waits for a group with a limit.
func waitFor(wg *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}
