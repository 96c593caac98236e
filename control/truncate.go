// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/binary"
	"errors"
	"net"
)

// maxPacket is how much of an incoming MQTT packet is let through, topic included.
const maxPacket = 128 << 10

const packetPublish = 3

var errPacketTooLarge = errors.New("control: the broker sent an oversized packet that is no publish")

// truncatingConn cuts the payload of incoming PUBLISH packets behind limit bytes.
// The MQTT library allocates what the length field says, up to 256 MB and twice;
// here a huge message arrives short instead, costs a fixed amount of memory, is
// refused by its size, and the connection stays. Other packets of that size are
// nothing a broker sends; they end the connection.
//
// Read is called by one goroutine, as the MQTT library does.
type truncatingConn struct {
	net.Conn
	limit int    // body bytes let through
	head  []byte // rewritten fixed header not yet handed out
	raw   []byte // bytes of the fixed header read so far
	left  int    // body bytes to hand out
	skip  int    // body bytes to throw away after those
	scrap []byte // for what is thrown away
}

// Read hands out the stream with long publishes cut.
func (c *truncatingConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch {
		case len(c.head) > 0:
			n := copy(p, c.head)
			c.head = c.head[n:]
			return n, nil
		case c.left > 0:
			n, err := c.Conn.Read(p[:min(len(p), c.left)])
			c.left -= n
			return n, err
		case c.skip > 0:
			if err := c.discard(); err != nil {
				return 0, err
			}
		default:
			if err := c.header(); err != nil {
				return 0, err
			}
		}
	}
}

// discard throws away the rest of a cut packet, as much as is there.
func (c *truncatingConn) discard() error {
	if c.scrap == nil {
		c.scrap = make([]byte, 16<<10)
	}
	n, err := c.Conn.Read(c.scrap[:min(len(c.scrap), c.skip)])
	c.skip -= n
	return err
}

// header reads the fixed header of the next packet: one byte of type and flags and
// the remaining length in one to four bytes of seven bits.
func (c *truncatingConn) header() error {
	b := make([]byte, 1)
	for {
		n, err := c.Conn.Read(b)
		if n == 0 {
			if err != nil {
				return err
			}
			continue
		}
		c.raw = append(c.raw, b[0])
		if len(c.raw) > 1 && (b[0] < 0x80 || len(c.raw) == 5) {
			break
		}
	}
	length, n := binary.Uvarint(c.raw[1:])
	if n != len(c.raw)-1 { // a fifth byte would be needed: let the library refuse it
		c.head, c.raw = c.raw, nil
		return nil
	}
	c.left = int(length)
	if c.left > c.limit {
		if c.raw[0]>>4 != packetPublish {
			c.left = 0
			return errPacketTooLarge
		}
		c.skip = c.left - c.limit
		c.left = c.limit
		c.head = binary.AppendUvarint(c.raw[:1], uint64(c.limit))
	} else {
		c.head = c.raw
	}
	c.raw = nil
	return nil
}
