// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/iotest"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// readerConn is the reading half of a connection.
type readerConn struct {
	net.Conn
	io.Reader
}

func (c readerConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func publishPacket(topic string, qos byte, payload []byte) []byte {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Qos, p.Payload, p.MessageID = topic, qos, payload, 7
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestTruncatingConn(t *testing.T) {
	sizes := []int{0, 1, 100, 16 << 10, maxPacket - 100, maxPacket, maxPacket + 1, 300 << 10}
	var stream bytes.Buffer
	for i, n := range sizes {
		stream.Write(publishPacket("a/b", byte(i%2), bytes.Repeat([]byte{byte(i)}, n)))
		stream.Write([]byte{0xd0, 0}) // PINGRESP
	}
	for name, r := range map[string]io.Reader{
		"whole":    bytes.NewReader(stream.Bytes()),
		"bytewise": iotest.OneByteReader(bytes.NewReader(stream.Bytes())),
		"halves":   iotest.HalfReader(bytes.NewReader(stream.Bytes())),
	} {
		t.Run(name, func(t *testing.T) {
			c := &truncatingConn{Conn: readerConn{Reader: r}}
			for i, n := range sizes {
				p, err := packets.ReadPacket(c)
				if err != nil {
					t.Fatal(err)
				}
				pub, ok := p.(*packets.PublishPacket)
				if !ok || pub.TopicName != "a/b" {
					t.Fatalf("packet %d is %v", i, p)
				}
				head := 2 + len("a/b") + 2*(i%2)
				if got, want := len(pub.Payload), min(n, maxPacket-head); got != want {
					t.Errorf("payload %d has %d bytes, want %d", i, got, want)
				}
				if bytes.Count(pub.Payload, []byte{byte(i)}) != len(pub.Payload) {
					t.Errorf("payload %d is changed", i)
				}
				if p, err = packets.ReadPacket(c); err != nil {
					t.Fatal(err)
				} else if _, ok := p.(*packets.PingrespPacket); !ok {
					t.Fatalf("after packet %d came %v", i, p)
				}
			}
			if _, err := packets.ReadPacket(c); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

func TestTruncatingConnRefusesOthers(t *testing.T) {
	huge := append([]byte{0x90, 0xff, 0xff, 0xff, 0x7f}, make([]byte, 100)...) // SUBACK of 256 MB
	c := &truncatingConn{Conn: readerConn{Reader: bytes.NewReader(huge)}}
	if _, err := packets.ReadPacket(c); !errors.Is(err, errPacketTooLarge) {
		t.Errorf("got %v, want %v", err, errPacketTooLarge)
	}
}

// FuzzTruncate holds the cut stream against the one that the library reads without
// it: the same packets, with payloads of at most maxPacket bytes.
func FuzzTruncate(f *testing.F) {
	f.Add(publishPacket("a", 1, []byte("x")), uint64(1))
	f.Add(publishPacket("a", 0, make([]byte, maxPacket+5)), uint64(2))
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 0x01}, uint64(3))
	f.Add([]byte{0x30, 0x80, 0x80, 0x00}, uint64(4))
	f.Add([]byte{0xd0, 0x00, 0x20, 0x02, 0x00, 0x00}, uint64(5))
	f.Fuzz(func(t *testing.T, p []byte, seed uint64) {
		if len(p) > 1<<20 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 0))
		c := &truncatingConn{Conn: readerConn{Reader: bytes.NewReader(p)}}
		out := 0
		for {
			buf := make([]byte, 1+r.IntN(300))
			n, err := c.Read(buf)
			if n > len(buf) || n < 0 {
				t.Fatalf("read %d into %d", n, len(buf))
			}
			out += n
			if err != nil {
				break
			}
			if n == 0 {
				t.Fatal("nothing read, and no error")
			}
		}
		if out > len(p)+8 {
			t.Fatalf("%d bytes out of %d", out, len(p))
		}
	})
}
