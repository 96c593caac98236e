// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/control/broker"
)

const (
	// brokerRetry is the pause between two tries to start the embedded broker.
	brokerRetry = 5 * time.Second
	// brokerSpace is the free space under which the broker's store is not put on
	// the disk, and twice that is where it returns to it.
	brokerSpace = 16 << 20
	// brokerMemory is the most its store may take in memory.
	brokerMemory = 32 << 20
)

// house runs the embedded broker. Its store is on the disk, so that sessions and
// retained messages outlive a restart; a broker whose store cannot be written
// answers nobody any more. On a full or broken disk it goes on with an empty store
// in memory, because requests matter more than what is stored, and returns to the
// disk when there is room.
type house struct {
	opt  broker.Options
	disk string // its directory on the disk
	log  *slog.Logger
	tmp  func() string // makes an empty directory in memory, "" where there is none
	free func() int64  // bytes of the disk

	b   *broker.Broker
	mem string        // directory in memory while that is in use
	ill chan struct{} // capacity 1: the broker cannot write
}

func newHouse(cfg Config, log *slog.Logger) *house {
	h := &house{disk: cfg.Paths.broker(), log: log, ill: make(chan struct{}, 1)}
	h.tmp = func() string { return memoryDir(cfg.Paths.State) }
	dropMemoryDirs(cfg.Paths.State)
	h.free = func() int64 {
		if n, ok := freeSpace(cfg.Paths.State); ok {
			return n
		}
		return brokerSpace
	}
	h.opt = broker.Options{Listen: cfg.MQTT.Embedded.Listen, UsersFile: cfg.MQTT.Embedded.UsersFile, Device: cfg.Device, Leaf: cfg.MQTT.leaf(), Log: h.hear}
	return h
}

// hear takes what the broker says, at warning level and above.
func (h *house) hear(level, text string) {
	for _, sign := range []string{"write error", "failed to store", "no space left", "read-only file system", "input/output error", "quota exceeded"} {
		if strings.Contains(text, sign) {
			select {
			case h.ill <- struct{}{}:
			default:
			}
		}
	}
	// Clients bring both about, so that neither needs somebody who looks.
	if level == "error" {
		h.log.Warn("the embedded broker reports an error", "text", text)
	} else {
		h.log.Warn("the embedded broker warns", "text", text)
	}
}

// open starts the broker, trying again while it cannot. It reports false when ctx
// ends first.
func (h *house) open(ctx context.Context) bool {
	for told := false; ctx.Err() == nil; told = true {
		err := h.start()
		if err == nil {
			h.log.Info("embedded broker listens", "url", h.url(), "store", h.where())
			return true
		}
		if !told {
			h.log.Error("no embedded broker yet: set mqtt.embedded.listen to a free address, or mqtt.url to another broker; trying again",
				"key", "mqtt.embedded.listen", "every", brokerRetry, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(brokerRetry):
		}
	}
	return false
}

// start starts the broker once, on the disk where that has room and works.
func (h *house) start() (err error) {
	select {
	case <-h.ill: // that was the last one
	default:
	}
	if h.free() >= brokerSpace && takesFiles(h.disk) {
		h.opt.Dir, h.opt.MaxStore = h.disk, 0
		if h.b, err = broker.Start(h.opt); err == nil {
			return nil
		}
		var path *os.PathError
		if errors.Is(err, broker.ErrPortTaken) || errors.As(err, &path) && path.Path == h.opt.UsersFile {
			return err // a store in memory would not help
		}
	}
	dir := h.tmp()
	if dir == "" {
		return errors.Join(errors.New("the disk is full, and there is no memory to go on with"), err)
	}
	h.opt.Dir, h.opt.MaxStore = dir, brokerMemory
	b, merr := broker.Start(h.opt)
	if merr != nil {
		return errors.Join(err, merr, os.RemoveAll(dir))
	}
	h.b, h.mem = b, dir
	if err == nil { // it was not tried
		err = errors.New("the disk has too little room, or takes no files")
	}
	h.log.Warn("the embedded broker goes on with a store in memory: what it kept on the disk comes back when there is room", "free", h.free(), "error", err)
	return nil
}

// keep restarts the broker when its store fails, and when a store in memory may
// return to the disk, until ctx ends.
func (h *house) keep(ctx context.Context) {
	look := time.NewTicker(30 * time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.ill:
			if ctx.Err() != nil {
				return // both are there, and the end comes first
			}
			h.log.Warn("the embedded broker cannot write its store: starting it afresh", "store", h.where(), "free", h.free())
			h.again(ctx)
		case <-look.C:
			switch free := h.free(); {
			case h.mem == "" && free < brokerSpace/4:
				h.log.Warn("the disk is nearly full: the embedded broker leaves it before it fails", "free", free)
				h.again(ctx)
			case h.mem != "" && free >= 2*brokerSpace && takesFiles(h.disk):
				h.log.Info("the disk has room again: the embedded broker returns to it", "free", free)
				h.again(ctx)
			}
		}
	}
}

// takesFiles says whether a directory takes some files and bytes more: that there are
// bytes does not say it, where inodes are missing or the file system is read-only. A
// broker that tries it would end all connections for nothing, again and again.
func takesFiles(dir string) (ok bool) {
	if os.MkdirAll(dir, 0o700) != nil {
		return false
	}
	probe, err := os.MkdirTemp(dir, temporaryBegin+"*"+temporaryEnd)
	if err != nil {
		return false
	}
	defer func() { ok = os.RemoveAll(probe) == nil && ok }()
	for i := range 2 * 16 { // streams have some files each
		if os.WriteFile(filepath.Join(probe, strconv.Itoa(i)), make([]byte, 4<<10), 0o600) != nil {
			return false
		}
	}
	return true
}

func (h *house) again(ctx context.Context) {
	if host, port, err := net.SplitHostPort(h.opt.Listen); err == nil && port == "0" {
		_, port, _ = net.SplitHostPort(h.b.Addr()) // it is one
		h.opt.Listen = net.JoinHostPort(host, port)
	}
	_, h.opt.Password = h.b.Credentials()
	h.close()
	h.open(ctx)
}

func (h *house) close() {
	if h.b != nil {
		h.b.Close()
		h.b = nil
	}
	if h.mem != "" {
		_ = os.RemoveAll(h.mem) // memory, gone with the machine at the latest
		h.mem = ""
	}
}

func (h *house) where() string {
	if h.mem != "" {
		return "memory"
	}
	return h.disk
}

func (h *house) url() string { return h.b.URL() }

// endpoint is how the device itself connects.
func (h *house) endpoint() control.Endpoint {
	user, password := h.b.Credentials()
	return control.Endpoint{URL: h.b.URL(), Username: user, Password: password, AllowPlaintext: true}
}

// memoryDirs are the directories in memory for the store of the appliance with this
// state directory, best first.
func memoryDirs(state string) []string {
	sum := sha256.Sum256([]byte(state))
	var list []string
	for _, base := range []string{os.Getenv("RUNTIME_DIRECTORY"), "/dev/shm", os.TempDir()} {
		var st unix.Statfs_t
		if base != "" && unix.Statfs(base, &st) == nil && st.Type == unix.TMPFS_MAGIC && int64(st.Bavail)*st.Bsize >= brokerMemory {
			list = append(list, filepath.Join(base, "windhover-broker-"+hex.EncodeToString(sum[:8])))
		}
	}
	return list
}

// memoryDir makes one of them, "" where none can be made.
func memoryDir(state string) string {
	for _, dir := range memoryDirs(state) {
		// Mkdir takes nothing that somebody else put there.
		if os.RemoveAll(dir) == nil && os.Mkdir(dir, 0o700) == nil {
			return dir
		}
	}
	return ""
}

// dropMemoryDirs removes what a run that was killed left. The state directory is
// locked, so that nobody uses it.
func dropMemoryDirs(state string) {
	for _, dir := range memoryDirs(state) {
		_ = os.RemoveAll(dir) // a directory of somebody else's is none of ours
	}
}
