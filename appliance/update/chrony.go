// SPDX-License-Identifier: Apache-2.0

package update

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// The daemon's unit lets nobody in it ask the kernel about clocks, chronyd leaves nothing
// behind that others may read, and so it is asked itself: by the datagram that chronyc
// sends for "tracking", which everybody on the machine may. Numbers are big-endian.
//
//	request  0 version, 1 type, 4 command (2 bytes), 8 sequence (4), as long as the reply
//	reply    0 version, 1 type, 4 command, 6 kind (2), 8 status (2), 16 sequence (4), 54 leap (2)
const (
	chronyAddr     = "127.0.0.1:323" // a port that takes a right to listen on
	chronyVersion  = 6
	chronyRequest  = 1
	chronyReply    = 2
	chronyTracking = 33  // the command
	chronyTracked  = 5   // kind of its reply
	chronySize     = 104 // of both, bytes
	chronyUnset    = 3   // the value of leap that says that nothing was followed yet
)

// chronyPatience is how long chronyd may take. Where there is none the kernel says so at
// once.
const chronyPatience = 250 * time.Millisecond

// chrony asks the chronyd of this machine whether it has set the clock. What it has set
// once stays set.
type chrony struct {
	addr string
	set  atomic.Bool
	asks atomic.Uint32
}

func (c *chrony) hasSet() bool {
	if !c.set.Load() && c.ask() {
		c.set.Store(true)
	}
	return c.set.Load()
}

func (c *chrony) ask() bool {
	conn, err := net.Dial("udp", c.addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // there is nothing more to say
	var req [chronySize]byte
	req[0], req[1] = chronyVersion, chronyRequest
	binary.BigEndian.PutUint16(req[4:], chronyTracking)
	binary.BigEndian.PutUint32(req[8:], c.asks.Add(1))
	if err := conn.SetDeadline(time.Now().Add(chronyPatience)); err != nil {
		return false
	}
	if _, err := conn.Write(req[:]); err != nil {
		return false
	}
	var rep [2 * chronySize]byte
	n, err := conn.Read(rep[:])
	return err == nil && followsSource(rep[:n], req[8:12])
}

// followsSource says whether a datagram is the reply to the request of that sequence, and
// that chronyd follows something.
func followsSource(rep, sequence []byte) bool {
	if len(rep) < 56 || rep[0] != chronyVersion || rep[1] != chronyReply || string(rep[16:20]) != string(sequence) {
		return false
	}
	number := func(at int) uint16 { return binary.BigEndian.Uint16(rep[at:]) }
	return number(4) == chronyTracking && number(6) == chronyTracked && number(8) == 0 && number(54) < chronyUnset
}
