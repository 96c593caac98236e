// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/binary"
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
			c := &truncatingConn{Conn: readerConn{Reader: r}, limit: maxPacket}
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
	c := &truncatingConn{Conn: readerConn{Reader: bytes.NewReader(huge)}, limit: maxPacket}
	if _, err := packets.ReadPacket(c); !errors.Is(err, errPacketTooLarge) {
		t.Errorf("got %v, want %v", err, errPacketTooLarge)
	}
}

// cutStream is truncatingConn over a whole stream at once.
func cutStream(p []byte, limit int) []byte {
	var out []byte
	for len(p) > 1 {
		length, n := binary.Uvarint(p[1:min(len(p), 5)])
		if n <= 0 { // no length in four bytes: passed on as it is
			if len(p) < 5 {
				break
			}
			out, p = append(out, p[:5]...), p[5:]
			continue
		}
		kind, body := p[0], p[1+n:]
		pass := int(length)
		if pass > limit {
			if kind>>4 != packetPublish {
				break
			}
			pass = limit
			out = binary.AppendUvarint(append(out, kind), uint64(limit))
		} else {
			out = append(out, p[:1+n]...)
		}
		out = append(out, body[:min(pass, len(body))]...)
		p = body[min(int(length), len(body)):]
	}
	return out
}

// FuzzTruncate reads a stream in pieces of any size, with a small limit so that short
// inputs reach everything, and expects what cutStream gives.
func FuzzTruncate(f *testing.F) {
	for i, p := range [][]byte{
		publishPacket("a", 1, []byte("x")),
		append(publishPacket("a", 0, make([]byte, 200)), 0xd0, 0),
		{0x30, 0xff, 0xff, 0xff, 0xff, 0x01, 0xd0, 0},
		{0x30, 0x80, 0x80, 0x00, 0xd0, 0},
		{0xd0, 0x00, 0x20, 0x02, 0x00, 0x00},
		append([]byte{0x90, 0xff, 0x01}, make([]byte, 300)...),
	} {
		f.Add(p, uint64(i))
	}
	f.Fuzz(func(t *testing.T, p []byte, seed uint64) {
		if len(p) > 4096 {
			return
		}
		const limit = 50
		r := rand.New(rand.NewPCG(seed, 0))
		c := &truncatingConn{Conn: readerConn{Reader: bytes.NewReader(p)}, limit: limit}
		var got []byte
		for {
			buf := make([]byte, 1+r.IntN(100))
			n, err := c.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				break
			}
			if n == 0 {
				t.Fatal("nothing read, and no error")
			}
		}
		if want := cutStream(p, limit); !bytes.Equal(got, want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
	})
}
