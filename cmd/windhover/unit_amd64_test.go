// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// The setting that keeps huge pages from the heap is the Go runtime's, which says that it
// may go with a version to come: memory would grow again, and nothing else would tell.
func TestUnitKeepsHugePagesFromTheHeap(t *testing.T) {
	const child = "WINDHOVER_HEAP_FLAGS"
	if os.Getenv(child) != "" {
		buf := make([]byte, 8<<20)
		fmt.Printf("heap flags: %s\n", flagsAt(t, uintptr(unsafe.Pointer(unsafe.SliceData(buf)))))
		return
	}
	unit, err := os.ReadFile("../../systemd/windhover.service")
	if err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`(?m)^Environment=(GODEBUG=\S+)$`).FindSubmatch(unit)
	if set == nil {
		t.Fatal("the unit sets no GODEBUG")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", string(set[1]))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, flags, _ := strings.Cut(string(out), "heap flags: ")
	flags, _, _ = strings.Cut(flags, "\n")
	switch {
	case flags == "":
		t.Skip("this kernel does not tell the flags of mappings")
	case !slices.Contains(strings.Fields(flags), "nh"):
		t.Errorf("%s: the heap has the flags %q, want nh among them", set[1], flags)
	}
}

// flagsAt are the VmFlags of the mapping that holds an address; "" where none are told.
func flagsAt(t *testing.T, at uintptr) string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was read
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uintptr
		if n, err := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); err == nil && n == 2 {
			inside = from <= at && at < to
		} else if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && inside {
			return strings.TrimSpace(flags)
		}
	}
	return ""
}
