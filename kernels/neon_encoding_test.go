// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// gnuAs is the assembler that the hand-made words are compared with.
const gnuAs = "aarch64-linux-gnu-as"

// requireAs skips without the GNU assembler, unless KERNELS_REQUIRE_AS says
// that the check must not be left out.
func requireAs(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath(gnuAs); err != nil {
		if os.Getenv("KERNELS_REQUIRE_AS") != "" {
			t.Fatalf("%s not found, and KERNELS_REQUIRE_AS is set", gnuAs)
		}
		t.Skipf("%s not found (package binutils-aarch64-linux-gnu): instruction words are not checked", gnuAs)
	}
}

// assemble returns the instruction words of lines, one each.
func assemble(t *testing.T, lines []string) []uint32 {
	t.Helper()
	dir := t.TempDir()
	src, obj := filepath.Join(dir, "x.s"), filepath.Join(dir, "x.o")
	if err := os.WriteFile(src, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gnuAs, "-march=armv8.2-a+dotprod", "-o", obj, src).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", gnuAs, err, out)
	}
	f, err := elf.Open(obj)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) != 4*len(lines) {
		t.Fatalf("assembled %d bytes from %d instructions", len(text), len(lines))
	}
	words := make([]uint32, len(lines))
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(text[4*i:])
	}
	return words
}

// neonMacro is one line of neon_arm64.h.
type neonMacro struct {
	name, expr, syntax string
	params             []string
}

var (
	defineLine  = regexp.MustCompile(`^#define (\w+)\(([^)]*)\)\s+WORD \$\((.*)\) // (.*)$`)
	syntaxField = regexp.MustCompile(`\{(\w+)(?::(\d+)-(\d+))?\}`)
)

func readNeonMacros(t *testing.T) []neonMacro {
	t.Helper()
	f, err := os.Open("neon_arm64.h")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var macros []neonMacro
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if !strings.HasPrefix(line, "#define") {
			continue
		}
		m := defineLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("neon_arm64.h: line is not a WORD macro with its syntax: %s", line)
			continue
		}
		macros = append(macros, neonMacro{name: m[1], expr: m[3], syntax: m[4], params: strings.Split(strings.ReplaceAll(m[2], " ", ""), ",")})
	}
	if len(macros) == 0 {
		t.Fatal("neon_arm64.h holds no macro")
	}
	return macros
}

// word computes the macro's expression, which is also a Go constant
// expression, for the given parameter values.
func (m neonMacro) word(t *testing.T, args map[string]int) uint32 {
	t.Helper()
	expr := regexp.MustCompile(`\b[a-z]\b`).ReplaceAllStringFunc(m.expr, func(p string) string {
		v, ok := args[p]
		if !ok {
			t.Fatalf("%s: %q is not a parameter", m.name, p)
		}
		return strconv.Itoa(v)
	})
	tv, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expr)
	if err != nil {
		t.Fatalf("%s: %s: %v", m.name, expr, err)
	}
	v, ok := constant.Uint64Val(tv.Value)
	if !ok || v>>32 != 0 {
		t.Fatalf("%s: %s is no 32-bit word", m.name, expr)
	}
	return uint32(v)
}

// TestNeonMacros compares every macro of neon_arm64.h with the GNU assembler
// over random operands and the ends of each field.
func TestNeonMacros(t *testing.T) {
	requireAs(t)
	rng := rand.New(rand.NewPCG(20, 26))
	const rounds = 200
	var lines, labels []string
	var got []uint32
	for _, m := range readNeonMacros(t) {
		limits := map[string][2]int{}
		for _, p := range m.params {
			limits[p] = [2]int{0, 31}
			if p == "i" {
				limits[p] = [2]int{0, 3}
			}
		}
		for _, f := range syntaxField.FindAllStringSubmatch(m.syntax, -1) {
			if f[2] != "" {
				lo, _ := strconv.Atoi(f[2])
				hi, _ := strconv.Atoi(f[3])
				limits[f[1]] = [2]int{lo, hi}
			}
		}
		for r := range rounds {
			args := map[string]int{}
			for _, p := range m.params {
				lo, hi := limits[p][0], limits[p][1]
				switch r {
				case 0:
					args[p] = lo
				case 1:
					args[p] = hi
				default:
					args[p] = lo + rng.IntN(hi-lo+1)
				}
			}
			lines = append(lines, syntaxField.ReplaceAllStringFunc(m.syntax, func(f string) string {
				return strconv.Itoa(args[syntaxField.FindStringSubmatch(f)[1]])
			}))
			labels = append(labels, fmt.Sprintf("%s%v", m.name, args))
			got = append(got, m.word(t, args))
		}
	}
	for i, want := range assemble(t, lines) {
		if got[i] != want {
			t.Errorf("%s: word %#08x, %s gives %#08x for %q", labels[i], got[i], gnuAs, want, lines[i])
		}
	}
}

// arm64Sources returns the lines of every arm64 assembly file by name.
func arm64Sources(t *testing.T) map[string][]string {
	t.Helper()
	names, err := filepath.Glob("*_arm64.s")
	if err != nil || len(names) == 0 {
		t.Fatalf("no *_arm64.s found: %v", err)
	}
	src := map[string][]string{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		src[name] = strings.Split(string(b), "\n")
	}
	return src
}

// TestArm64Words holds that a WORD outside neon_arm64.h names its instruction
// in a comment and encodes just that.
func TestArm64Words(t *testing.T) {
	rawWord := regexp.MustCompile(`\bWORD\s+\$(0x[0-9a-fA-F]{8})\s*// (.+)$`)
	var lines, labels []string
	var got []uint32
	for name, src := range arm64Sources(t) {
		for i, line := range src {
			code, _, _ := strings.Cut(line, "//")
			if !strings.Contains(code, "WORD") {
				continue
			}
			m := rawWord.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("%s:%d: WORD without its mnemonic: %s", name, i+1, line)
				continue
			}
			w, err := strconv.ParseUint(m[1], 0, 32)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, m[2])
			labels = append(labels, fmt.Sprintf("%s:%d", name, i+1))
			got = append(got, uint32(w))
		}
	}
	if len(lines) == 0 {
		return // macros only: TestNeonMacros checks them
	}
	requireAs(t)
	for i, want := range assemble(t, lines) {
		if got[i] != want {
			t.Errorf("%s: word %#08x, %s gives %#08x for %q", labels[i], got[i], gnuAs, want, lines[i])
		}
	}
}

// TestArm64Hygiene holds what the Go runtime asks of a leaf: no frame, no
// stack check, and the registers R18 (platform), R27 (assembler), R28 (g) and
// R29 (frame pointer) untouched.
func TestArm64Hygiene(t *testing.T) {
	reserved := regexp.MustCompile(`\b(R18|R27|R28|R29|g|REGTMP)\b`)
	text := regexp.MustCompile(`^TEXT ·\w+\(SB\), NOSPLIT, \$0-\d+$`)
	call := regexp.MustCompile(`^\s*(BL|CALL)\b`)
	for name, src := range arm64Sources(t) {
		for i, line := range src {
			code, _, _ := strings.Cut(line, "//")
			if r := reserved.FindString(code); r != "" {
				t.Errorf("%s:%d: uses %s: %s", name, i+1, r, line)
			}
			if strings.HasPrefix(code, "TEXT") && !text.MatchString(strings.TrimSpace(code)) {
				t.Errorf("%s:%d: not a NOSPLIT leaf without frame: %s", name, i+1, line)
			}
			if call.MatchString(code) {
				t.Errorf("%s:%d: a leaf calls nothing: %s", name, i+1, line)
			}
		}
	}
}
