// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"windhover/kernels"
)

// A record of saved prefixes is a node of the tree, all numbers little-endian:
//
//	parent  int32          record that it stands on, -1 for none
//	n       uint32         positions, 1 to 256
//	realm   [32]byte       of one that stands on none: SHA-256 of the realm's name; else not there
//	labels  [n]int32       tokens
//	blocks                 for each layer and kv head keys, then values, as in a page, as far as n reaches
//	sum     [32]byte       SHA-256 of the above
//
// A parent comes before its children and is full.
const recordHead = 8

// recordBytes is the size of a node's record.
func (t *prefixTree) recordBytes(k *node) int64 {
	p, n := t.pool, len(k.labels)
	size := recordHead + 4*int64(n) + 2*int64(p.layers)*int64(p.kvHeads)*int64(p.used(n)) + sha256.Size
	if k.parent.parent == nil {
		size += int64(len(k.realm))
	}
	return size
}

// writeRecord writes a node, or the beginning of one when ctx ends.
func (t *prefixTree) writeRecord(ctx context.Context, w io.Writer, n *node, parent int) error {
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	head := binary.LittleEndian.AppendUint32(nil, uint32(int32(parent)))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(n.labels)))
	if parent < 0 {
		head = append(head, n.realm[:]...)
	}
	for _, l := range n.labels {
		head = binary.LittleEndian.AppendUint32(head, uint32(l))
	}
	if _, err := both.Write(head); err != nil {
		return err
	}
	err := t.pool.blocks(n.page, len(n.labels), func(b []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := both.Write(b)
		return err
	})
	if err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// blocks calls do for what the first n positions of a page take, in order.
func (p *pagePool) blocks(pg *page, n int, do func(b []byte) error) error {
	used := p.used(n)
	for l := range p.layers {
		for h := range p.kvHeads {
			k, v := p.block(pg, l, h)
			if err := do(k[:used]); err != nil {
				return err
			}
			if err := do(v[:used]); err != nil {
				return err
			}
		}
	}
	return nil
}

// readRecord reads the next record into a page and puts it into the tree; nil
// without an error when there is no page, io.EOF behind the last.
func (t *prefixTree) readRecord(r io.Reader, before []*node) (*node, error) {
	sum := sha256.New()
	both := io.TeeReader(r, sum)
	var head [recordHead]byte
	if _, err := io.ReadFull(both, head[:]); err != nil {
		return nil, cutShort(err)
	}
	n := binary.LittleEndian.Uint32(head[4:])
	at := int32(binary.LittleEndian.Uint32(head[:]))
	switch {
	case at < -1 || int(at) >= len(before):
		return nil, fmt.Errorf("stands on record %d", at)
	case n == 0 || n > kernels.AttnBlock:
		return nil, fmt.Errorf("%d positions", n)
	case at >= 0 && len(before[at].labels) < kernels.AttnBlock:
		return nil, fmt.Errorf("stands on record %d of %d positions", at, len(before[at].labels))
	}
	var in realm
	if at < 0 {
		if _, err := io.ReadFull(both, in[:]); err != nil {
			return nil, noEOF(err)
		}
	}
	labels := make([]int32, n)
	if err := binary.Read(both, binary.LittleEndian, labels); err != nil {
		return nil, noEOF(err)
	}
	pg := t.pool.take()
	if pg == nil {
		return nil, nil
	}
	defer t.pool.drop(pg)
	err := t.pool.blocks(pg, len(labels), func(b []byte) error {
		_, err := io.ReadFull(both, b)
		return noEOF(err)
	})
	if err == nil {
		err = checkSum(r, sum)
	}
	if err != nil {
		return nil, err
	}
	pg.fill = len(labels)
	if at >= 0 {
		return t.put(before[at], labels, pg), nil
	}
	return t.put(t.root(in), labels, pg), nil
}

// checkSum reads the sum of a record.
func checkSum(r io.Reader, sum hash.Hash) error {
	var want [sha256.Size]byte
	if _, err := io.ReadFull(r, want[:]); err != nil {
		return noEOF(err)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != want {
		return errors.New("the checksum differs")
	}
	return nil
}

// cutShort leaves the end between records what it is.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("cut short")
	}
	return err
}

// noEOF says of an end within a record that it is none.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("cut short")
	}
	return err
}
