// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTutorial runs docs/TUTORIAL.md: every line of a console block that begins
// with "$ ", with those after it that begin with "> ", is given to a shell of its own,
// in a directory beside the source, and has to print what stands below it. With
// -update the page gets what they print. Times and rates may differ.
func TestTutorial(t *testing.T) {
	for _, tool := range []string{"bash", "python3", "od", "dd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the tutorial uses %s, which is not here", tool)
		}
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "TUTORIAL.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tour := newTour(t, root)
	var out bytes.Buffer
	commands := 0
	lines := strings.SplitAfter(string(page), "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		out.WriteString(line)
		i++
		if strings.TrimSpace(line) != "```console" {
			continue
		}
		for i < len(lines) && !strings.HasPrefix(lines[i], "```") {
			command, ok := strings.CutPrefix(lines[i], "$ ")
			if !ok {
				t.Fatalf("docs/TUTORIAL.md:%d: a console block begins with a command", i+1)
			}
			at := i + 1
			out.WriteString(lines[i])
			for i++; i < len(lines) && strings.HasPrefix(lines[i], "> "); i++ { // goes on
				out.WriteString(lines[i])
				command += strings.TrimPrefix(lines[i], "> ")
			}
			var want strings.Builder
			for ; i < len(lines) && !strings.HasPrefix(lines[i], "$ ") && !strings.HasPrefix(lines[i], "```"); i++ {
				want.WriteString(lines[i])
			}
			got := tour.run(t, command)
			if strings.Contains(got, "bash: -c:") { // not even -update may write such a page
				t.Fatalf("docs/TUTORIAL.md:%d: no whole command, lines that go on begin with \"> \": %s", at, got)
			}
			commands++
			if *update && steady(got) != steady(want.String()) {
				out.WriteString(got)
				continue
			}
			out.WriteString(want.String())
			if g, w := steady(got), steady(want.String()); g != w {
				t.Errorf("docs/TUTORIAL.md:%d: %sgot:\n%swant:\n%s", at, command, g, w)
			}
		}
	}
	if commands == 0 {
		t.Error("docs/TUTORIAL.md has no commands")
	}
	if *update && !bytes.Equal(out.Bytes(), page) {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tour is the directory that the commands run in, as dist in the source tree is
// for a reader.
type tour struct {
	dir string
	env []string
}

func newTour(t *testing.T, root string) tour {
	t.Helper()
	top := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"engine": filepath.Join(root, "engine"), "scripts": filepath.Join(root, "scripts"),
		"bin/windhover": self, // TestMain runs the program when it is called by this name
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	dist := filepath.Join(top, "dist")
	if err := os.Mkdir(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	return tour{dist, append(os.Environ(), "PATH="+filepath.Join(top, "bin")+":"+os.Getenv("PATH"), "LC_ALL=C", "PYTHONDONTWRITEBYTECODE=1")}
}

// run gives a command to a shell and returns all that it prints. That it may fail
// is a part of the tour: the page shows the exit code where it matters.
func (tr tour) run(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir, cmd.Env = tr.dir, tr.env
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out)
}

var timing = regexp.MustCompile(`\d+\.\d+ (s|seconds)\b|\d+ MB/s|seconds +\d+\.\d+`)

// steady is text without what differs from run to run.
func steady(text string) string { return timing.ReplaceAllString(text, "N $1") }
