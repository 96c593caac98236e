// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"windhover/appliance/web"
	"windhover/control"
	"windhover/kernels"
)

// ServeOptions are what the command line adds to the configuration.
type ServeOptions struct {
	Log    *slog.Logger
	Out    *LogOutput             // where Log goes; nil: its level and limits stay
	Self   []string               // how to run this program again, for jobs
	Reload <-chan os.Signal       // asks for the configuration to be read again
	Load   func() (Loaded, error) // reads it
	// Warnings are those of the configuration that the daemon starts with.
	Warnings []Problem
}

const (
	// drainOnStop is how long requests in work may go on after SIGTERM.
	drainOnStop = 10 * time.Second
	// scanOnStop is how long the look at the drop directory may go on after that. It
	// may be interrupted anywhere: every file that it makes gets its name when it is whole.
	scanOnStop = 5 * time.Second
	// stopLimit is how long a stop may take: TimeoutStopSec of the unit, after which it is
	// killed. Prefixes are saved until saveUntil after its begin, and saveGrace; the rest
	// is for HTTP and the embedded broker.
	stopLimit = 45 * time.Second
	saveUntil = 25 * time.Second
	// stuckAfter is how long a part may stand still before the watchdog is starved.
	stuckAfter = 20 * time.Second
)

// server is the running appliance: what Serve starts, in the order of its fields.
type server struct {
	cfg      Config
	opt      ServeOptions
	log      *slog.Logger
	notify   *notifier
	given    given // sockets of the service manager
	reg      *registry
	backend  *backend
	deployer *deployer
	updates  *updater // nil: what is remembered of them cannot be read
	control  *control.Server
	changed  chan struct{} // capacity 1: models changed
	reloads  chan chan reloaded
	recent   events
	audit    *auditor    // nil: no record is kept
	httpOpen atomic.Bool // HTTP is served beyond loopback
	stopping atomic.Bool

	mu   sync.Mutex // guards what follows
	mqtt string     // URL of the broker in use, "" while there is none
}

// Serve runs the appliance until ctx ends, then drains. Start order: state
// directory, installed models' book, control (without a broker yet),
// local socket and HTTP, drop directory, broker connections. READY is said
// when all but the broker works: a box without network serves what is dropped on it.
func Serve(ctx context.Context, cfg Config, opt ServeOptions) error {
	s := &server{cfg: cfg, opt: opt, log: opt.Log}
	defer opt.Out.Flush()
	var err error
	if s.given, err = takeSockets(activation.Files(true)); err != nil {
		return err
	}
	defer func() { _ = s.given.close() }() // those that serve are closed by then
	if s.notify, err = newNotifier(); err != nil {
		return err
	}
	if err := makeState(cfg.Paths); err != nil {
		return err
	}
	lock, err := lockState(cfg.Paths.State)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // nothing is written to it
	socket, err := s.listenLocal()
	if err != nil {
		return err
	}
	topo, err := kernels.DetectTopology()
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	defer func() { s.audit.close() }() // behind all that it records
	if err := s.build(topo); err != nil {
		return errors.Join(err, socket.Close())
	}
	s.doubt(opt.Warnings)
	s.lack(cfg)
	if cfg.Log.Prompts {
		s.log.Warn("prompts and answers are written to the log: whoever reads it reads them", "key", "log.prompts")
	}
	s.log.Info("windhover starts", "version", Version, "device", cfg.Device, "state", cfg.Paths.State, "board", board(),
		"big", fmt.Sprint(topo.Big), "little", fmt.Sprint(topo.Little), "topology", topo.Source, "kernels", kernelSummary())
	return s.run(ctx, socket)
}

// build makes the parts that run without a broker.
func (s *server) build(topo kernels.Topology) error {
	s.changed, s.reloads = make(chan struct{}, 1), make(chan chan reloaded)
	s.reg = newRegistry(s.modelsChanged)
	who := newAuthority(s.cfg, os.Getenv, s.log)
	s.backend = &backend{
		who: who, cfg: s.cfg, reg: s.reg, topo: topo, log: s.log, metrics: newMetrics(s.reg),
		self: s.opt.Self, started: time.Now(), wake: make(chan struct{}, 1), pulse: new(pulse),
		duties: s.duties(), built: make(chan struct{}),
	}
	s.backend.heat = newHeat(os.DirFS("/"), topo, s.cfg.Engine.Threads, s.reg, s.event, s.log)
	defer close(s.backend.built)
	if err := checkSchemas(s.cfg.Paths); err != nil {
		return err
	}
	b, err := openBook(filepath.Join(s.cfg.Paths.state(), "installed.json"))
	if errors.Is(err, control.Incompatible) {
		return err
	}
	if err != nil {
		s.log.Warn("the record of installed models cannot be read: every model is verified again", "error", err)
	}
	s.audit = openAudit(s.cfg, s.log)
	s.backend.audit = s.audit
	s.audit.register(s.backend.metrics.reg)
	s.deployer = newDeployer(s.cfg.Paths, b)
	s.openUpdates()
	cfg := control.Config{
		Device: s.cfg.Device, StateDir: s.cfg.Paths.state(), Policy: s.cfg.policy(), Notify: s.notice,
		Concurrency: s.cfg.Engine.sequences() + spareRequests, Limits: s.cfg.Engine.limits(),
		Desired: s.desired, Observe: s.observe,
		Groups: s.cfg.MQTT.Groups, Share: s.cfg.MQTT.Share, HomeAssistant: s.cfg.MQTT.HomeAssistant,
	}
	if s.audit != nil {
		cfg.Audit = s.audit.ended
	}
	if s.control, err = control.New(cfg, s.backend); err != nil {
		return err
	}
	s.backend.metrics.reg.MustRegister(boxCollector{s.control.Counters, s.backend.Stats, s.reg.pinned})
	who.changed = s.control.InfoChanged // it names the trusted keys
	s.backend.submit = s.control.SubmitJob
	loader := newLoader(s.cfg, s.backend.who.pass, len(topo.All), s.backend.pulse)
	loader.heat = s.backend.heat
	saves := s.cfg.Engine.PrefixCache == prefixCacheSave
	if saves {
		if loader.build, err = buildOf(thisProgram); err != nil {
			s.log.Warn("prefixes are not saved: this build cannot be told from others", "error", err)
		}
	}
	if n := len(topo.All); s.cfg.Engine.Threads > n {
		s.log.Warn("engine.threads is more than this process may use", "key", "engine.threads", "threads", s.cfg.Engine.Threads, "cpus", n)
	}
	d := s.deployer
	d.load, d.probe, d.memory = loader.load, probeModel, func() int64 { return loader.room(os.DirFS("/")) }
	d.saves, d.layouts = saves, loader.adopt
	d.recall()
	if err := tidyIncoming(s.cfg.Paths); err != nil {
		s.log.Error("what jobs of an earlier run left is not removed", "error", err)
	}
	return nil
}

// openUpdates makes the part that does what the fleet wants. Without it the box serves
// what is dropped on it, and the store keeps what it has.
func (s *server) openUpdates() {
	d := s.deployer
	d.check, d.who, d.reg, d.log = s.cfg.VQF.Check, s.backend.who, s.reg, s.log
	d.event, d.wake, d.pulse = s.event, s.backend.wakeDrop, s.backend.pulse
	d.grace, d.observing, d.tookBack = goneAfter, s.cfg.Drop.observing(), s.backend.metrics.backs.Inc
	d.loaded = s.backend.metrics.models.loaded
	s.backend.metrics.watchStore(d.store)
	u, err := openUpdates(s.cfg, d, s.log, s.backend.metrics, func(r control.Reported) {
		s.audit.reported(r)
		s.control.Report(r)
	})
	if err != nil {
		s.log.Error("no updates over the air: what is remembered of them cannot be used, and is left as it is", "error", err)
		d.keepAll = true
		return
	}
	u.install.heat = s.backend.heat
	s.updates, s.backend.updates = u, u
}

// desired hands on what a fleet wants.
func (s *server) desired(target string, document []byte) {
	if s.updates != nil {
		s.updates.Desired(target, document)
	}
}

// observe counts the end of a request, and on the version that it ran on.
func (s *server) observe(o control.Observation) {
	s.backend.metrics.observed(o)
	if s.deployer.tally.observe(o) {
		s.deployer.wake()
	}
}

// run starts what runs, says READY, waits for the end, and stops in reverse.
func (s *server) run(ctx context.Context, socket net.Listener) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	api := &api{b: s.backend, status: s.status, jobs: s.control.Jobs}
	local := api.local(web.New(webBox{s: s, trusted: true}, web.Options{Client: "socket", Refused: s.audit.ended}))
	wg.Go(func() { serveHTTP(inner, socket, local, s.log) })
	port, unable := s.listenHTTP()
	wg.Go(func() {
		if unable != nil {
			port = s.awaitHTTP(inner, unable)
		}
		if port == nil {
			return
		}
		handler := web.New(webBox{s: s}, web.Options{Client: "http", Refused: s.audit.ended})
		serveHTTP(inner, port, web.Guard(s.door, api.public(handler)), s.log)
	})
	watchCtx, stopWatch := context.WithCancel(inner)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		watchDrop(watchCtx, s.deployer.drop, s.log, s.backend.wake, s.deployer.scan)
	}()
	updating := make(chan struct{})
	go func() {
		defer close(updating)
		if s.updates != nil {
			s.updates.Run(watchCtx)
		}
	}()
	leaseSignals := make(chan os.Signal, 1)
	signal.Notify(leaseSignals, syscall.SIGIO)
	defer signal.Stop(leaseSignals)
	wg.Go(func() { s.deployer.leases.watch(inner, leaseSignals) })
	wg.Go(func() { s.tellModels(inner) })
	wg.Go(func() { s.connect(inner) })
	wg.Go(func() { s.notify.watch(inner, s.alive) })
	wg.Go(func() { s.tellLate(inner) })
	wg.Go(func() { s.backend.heat.watch(inner) })
	s.control.SetState(control.StateOnline, "")
	s.notify.ready()
	s.tellStatus()

	s.wait(ctx)

	s.log.Info("windhover stops: draining")
	save, cancelSave := context.WithTimeout(context.Background(), saveUntil)
	defer cancelSave()
	s.stopping.Store(true)
	s.notify.stopping()
	s.notify.extend(drainOnStop + 20*time.Second)
	stopWatch()
	drain, cancelDrain := context.WithTimeout(context.Background(), drainOnStop)
	defer cancelDrain()
	err := s.control.Shutdown(drain)
	ended, cancelEnded := context.WithTimeout(context.Background(), scanOnStop)
	defer cancelEnded()
	for _, part := range []chan struct{}{watching, updating} {
		select {
		case <-part:
		case <-ended.Done():
		}
	}
	if ended.Err() == nil {
		if s.updates != nil {
			s.updates.install.close()
		}
		s.deployer.close(save)
	} else {
		// It uses what close would free; the end of the process frees both.
		s.log.Error("the look at the drop directory does not end: stopping without it", "at", s.backend.pulse.doing())
	}
	cancel()
	wg.Wait()
	s.log.Info("windhover stopped")
	return err
}

// event tells of something that happened, over MQTT and on the page.
func (s *server) event(o control.Occurrence) {
	s.recent.add(o)
	s.audit.occurred(o, s.reg.refOf(o.Model), *s.backend.now())
	s.control.Event(o)
}

// tellLate tells of a look at the drop directory that does not move, until ctx ends.
func (s *server) tellLate(ctx context.Context) {
	t := time.NewTicker(tellAfter / 6)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			if what, quiet, tell := s.backend.pulse.late(now); tell {
				s.log.Warn("the look at the drop directory does not go on: what serves does, new models and keys are not seen", "at", what, "for", quiet.Round(time.Second))
			}
		}
	}
}

// alive reports whether every part that should move has moved of late. A stop has a
// limit of its own, and parts of it stand still.
func (s *server) alive() bool {
	return s.stopping.Load() || time.Since(s.control.LastMove()) < stuckAfter && s.backend.pulse.moving(time.Now())
}

// modelsChanged asks for the documents of models to be published.
func (s *server) modelsChanged() {
	select {
	case s.changed <- struct{}{}:
	default: // the next time will show this change too
	}
}

// tellModels publishes the documents of models whenever one has changed, until ctx
// ends. A run costs as much as there are models; pauses of the same length keep a
// drop directory full of them from taking a core.
func (s *server) tellModels(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
		start := time.Now()
		s.control.ModelsChanged()
		s.tellStatus()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Since(start)):
		}
	}
}

// policy says who may submit which job.
func (c Config) policy() control.Policy {
	p := control.Policy{EnforcesACL: c.MQTT.BrokerEnforcesACL, Anonymous: c.Anonymous.Allow}
	for _, r := range c.Policy {
		p.Rules = append(p.Rules, control.Rule{Client: r.Client, Allow: r.Allow})
	}
	if c.MQTT.URL == "" && c.MQTT.Embedded.UsersFile == "" && c.MQTT.Embedded.LeafURL == "" {
		// Loopback without users: whoever is on the machine may convert.
		p.Anonymous = append(append([]string{}, p.Anonymous...), "convert", "verify", anonymousDrop)
	}
	return p
}

// connect gives control its broker: the configured one, or the embedded one once
// its port is free, which it then keeps alive until ctx ends.
func (s *server) connect(ctx context.Context) {
	m := s.cfg.MQTT
	if m.URL != "" {
		s.setMQTT(control.Redact(m.URL))
		s.link(m.endpoints())
		return
	}
	house := newHouse(s.cfg, s.log)
	if !house.open(ctx) {
		return
	}
	defer house.close()
	s.setMQTT(house.url())
	s.link(house.endpoint(), house.endpoint())
	house.keep(ctx)
}

// link makes the connections. A stop that has begun meanwhile, as it may while the
// embedded broker starts, makes none, which is no fault.
func (s *server) link(ep, data control.Endpoint) {
	if err := s.control.Connect(ep, data); err != nil && !s.stopping.Load() {
		s.log.Error("no MQTT", "error", err)
	}
}
