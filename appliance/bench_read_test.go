// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"windhover/kernels"
)

// TestReadTask: the workers together read every word once.
func TestReadTask(t *testing.T) {
	data := make([]byte, 64*101)
	var want uint64
	for i := range len(data) / 8 {
		binary.LittleEndian.PutUint64(data[8*i:], uint64(i*i))
		want += uint64(i * i)
	}
	for _, workers := range []int{1, 3, 4} {
		task := newReadTask(data, workers, new(atomic.Bool))
		var got uint64
		for w := range workers {
			task.Run(w, workers)
			got += task.sums[8*w]
		}
		if got != want {
			t.Errorf("%d workers: sum %d, want %d", workers, got, want)
		}
	}
}

func TestSpeedOf(t *testing.T) {
	// Seconds of a product and of a read loop; the third round was disturbed.
	rounds := [][]float64{{0.5, 0.45}, {0.4, 0.38}, {0.8, 0.4}}
	if gbs, of := speedOf(rounds, 2e9, 2e9); gbs != 5 || round2(of) != 0.9 {
		t.Errorf("%v GB/s, %v of the read loop; want 5 and 0.9", gbs, of)
	}
	// The others do twice as much in their times.
	if _, of := speedOf(rounds, 2e9, 4e9); round2(of) != 0.45 {
		t.Errorf("%v of twice the work, want 0.45", of)
	}
}

// TestReadLoopAgainstC: bench reads memory as fast as the independent loop of
// scripts/read-bandwidth.c. They alternate, a pass of each, by pieces of the same
// size, and what one of ten passes exceeds is compared: both have the same
// neighbours, which only slow down. On a busy machine there are more rounds. There C
// may end up behind, whose threads wait for one that has lost its CPU while the
// workers of a pool do its share: that is no failure.
func TestReadLoopAgainstC(t *testing.T) {
	if os.Getenv("WINDHOVER_SPEED") == "" {
		t.Skip("compares speeds, which other tests beside it disturb: ./check speed sets WINDHOVER_SPEED")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	if size := memorySize(readBytes); size < readBytes {
		t.Skipf("too little memory is free: %d MiB for each loop", size>>20)
	}
	bin := filepath.Join(t.TempDir(), "read-bandwidth")
	if out, err := exec.Command(gcc, "-O2", "-Wall", "-Werror", "-pthread", "-o", bin, "../scripts/read-bandwidth.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := &bench{}
	if err := b.chooseThreads(); err != nil {
		t.Fatal(err)
	}
	mem, err := anonymous(readBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.free()
	if err := mem.touch(context.Background()); err != nil {
		t.Fatal(err)
	}
	const least, most, within = 40, 240, 0.05
	for _, n := range slices.Compact([]int{1, b.opt.Threads[len(b.opt.Threads)-1]}) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cPass := startCLoop(t, bin, n)
			var ours, theirs []float64
			ratio, agree := 0.0, false
			for len(ours) < least || len(ours) < most && !agree {
				theirs = append(theirs, cPass())
				// The workers of a round end before C's turn: they would poll beside it.
				err := b.withPool(n, func(pool *kernels.Pool) error {
					s, err := read(context.Background(), pool, mem.data, 0, &b.stop)
					ours = append(ours, s.GBs)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				ratio = goodSpeed(ours) / goodSpeed(theirs)
				agree = ratio > 1-within && ratio < 1+within
			}
			t.Logf("ours %.2f GB/s, C %.2f; ratio %.3f after %d rounds", goodSpeed(ours), goodSpeed(theirs), ratio, len(ours))
			if ratio <= 1-within {
				t.Errorf("bench reads %.3f times as fast as C (%d rounds), want no less than %v", ratio, len(ours), 1-within)
			}
		})
	}
}

// startCLoop starts the C loop with its own memory; each call of the result is
// one pass, in GB/s.
func startCLoop(t *testing.T, bin string, threads int) func() float64 {
	t.Helper()
	cmd := exec.Command(bin, "-i", fmt.Sprint(readBytes>>20), fmt.Sprint(threads))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var messages strings.Builder
	cmd.Stderr = &messages
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, messages.String())
		}
	})
	lines := bufio.NewReader(out)
	return func() float64 {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
