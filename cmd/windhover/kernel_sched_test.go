// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// python runs Python in the directory of the scripts.
func python(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = filepath.Join("..", "..", "scripts")
	return cmd.CombinedOutput()
}

// TestKernelSchedRefuses: what would be left out of account is refused, before
// anything is built.
func TestKernelSchedRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--check q4x4", "--check is of all loops: leave out q4x4"},
		{"--update q4x4 q8x8", "--update is of all loops: leave out q4x4 q8x8"},
		{"--timeline q4x4Gemv q8x8Gemv", "--timeline is of one loop: leave out q8x8Gemv"},
		{"--update --arch amd64 --mcpu znver5", "--update is of the models that are recorded: leave out --mcpu"},
		{"--check --arch amd64 --mcpu znver5", "--check is of the models that are recorded: leave out --mcpu"},
		{"--check --update", "--check and --update are two things to do: give one"},
		{"--update --timeline q4x4Gemv", "--update and --timeline are two things to do: give one"},
		{"--check --ghz 3", "--check knows no clock: leave out --ghz"},
		{"--mcpu znver5", "--mcpu needs --arch"},
	} {
		out, err := python(t, append([]string{"kernel-sched"}, strings.Fields(c.args)...)...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, want exit code 2 and %q:\n%s", c.args, err, c.want, out)
		}
	}
}

// TestKernelSchedCompares: of one architecture, what is lost is found too, and the
// other's loops and limits are left alone; a name that no loop has is refused.
func TestKernelSchedCompares(t *testing.T) {
	const program = `
import importlib.machinery, importlib.util
loader = importlib.machinery.SourceFileLoader("sched", "kernel-sched")
sched = importlib.util.module_from_spec(importlib.util.spec_from_loader("sched", loader))
import sys
sys.dont_write_bytecode = True
loader.exec_module(sched)
rows = [("amd64", "znver4", "same", ["a", "b"], "Total Cycles: 200"), ("amd64", "znver3", "slow", ["a"], "Total Cycles: 300"),
        ("amd64", "skylake", "new", ["a"], "Total Cycles: 200")]
old = {("znver4", "same"): (1.0, 2), ("znver3", "slow"): (1.0, 1), ("znver4", "lost"): (1.0, 1), ("neoverse-n1", "other"): (1.0, 1)}
bad, limits = sched.differences(rows, ["amd64"], old)
print("\n".join(bad), limits, sched.unmatched(rows, ["am", "none"]), sep="\n")
assert sched.differences([], ["arm64"], {})[1] == len(sched.BARS)
`
	out, err := python(t, "-c", program)
	const want = `znver3 slow: 1.50 cycles, 1.00 recorded
skylake new: new loop, 1.00 cycles, 1 instructions: not recorded
znver4 lost: recorded, but there is no such loop
0
['none']
`
	if err != nil || string(out) != want {
		t.Errorf("%v\ngot:\n%s\nwant:\n%s", err, out, want)
	}
}
