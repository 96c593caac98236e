// SPDX-License-Identifier: Apache-2.0

package jinja_test

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/engine/jinja"
)

// cpuTime returns the processor time of this process, which, unlike the
// clock, does not depend on what else the machine does.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestHostileTemplates renders templates that want all the time or memory
// there is. Each must end as an error, soon and in little memory.
func TestHostileTemplates(t *testing.T) {
	long := strings.Repeat
	vars := variables(t, `{"messages":[]}`)
	for _, c := range []struct{ name, src string }{
		{"nested ranges", "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"},
		{"huge range", "{% for a in range(10**15) %}{% endfor %}"},
		{"range in filter", "{% for i in range(99999) %}{{ range(99999) | list | length }}{% endfor %}"},
		{"repeated text", "{{ 'a' * 10**12 }}"},
		{"repeated list", "{{ [1] * 10**12 }}"},
		{"repeat overflow", "{{ ('a' * 3) * 9223372036854775807 }}"},
		{"doubling", "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}"},
		{"doubling by +", "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"},
		{"doubling lists", "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"},
		{"doubling structure", "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"},
		{"doubling structure as JSON", "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}"},
		{"comparing structure", "{% set ns = namespace(x=[1],y=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}"},
		{"ordering structure", "{% set ns = namespace(x=[1],y=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x < ns.y }}"},
		{"nested structure", "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}"},
		{"nested dict as JSON", "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x | tojson }}"},
		{"macro recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"},
		{"macro recursion by two", "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}"},
		{"macro bomb", "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"},
		{"default recursion", "{% macro f(a=f()) %}{% endmacro %}{{ f() }}"},
		{"replace", "{% set x = 'a' * 100000 %}{{ x.replace('a', x) }}"},
		{"replace nothing", "{% set x = 'a' * 1000000 %}{{ x.replace('', x) }}"},
		{"join", "{% set x = 'a' * 1000000 %}{{ x | join(x) }}"},
		{"string join", "{% set x = 'a' * 1000000 %}{{ x.join(x) }}"},
		{"indent", "{% set x = '\\n' * 1000000 %}{{ x | indent(1000, true, true) }}"},
		{"indent by text", "{% set x = '\\n' * 1000000 %}{{ x | indent(x, true, true) }}"},
		{"JSON indent", "{{ range(99999) | list | tojson(indent='x' * 1000000) }}"},
		{"JSON separators", "{{ ([1] * 100000) | tojson(separators=('x' * 1000000, ':')) }}"},
		{"batch", "{{ [1] | batch(10**9, 1) | list }}"},
		{"searching", "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% if 'b' in x %}{% endif %}{% endfor %}"},
		{"comparing texts", "{% set x = 'a' * 1000000 %}{% set y = 'a' * 1000000 %}{% for i in range(99999) %}{% if x == y %}{% endif %}{% endfor %}"},
		{"ordering texts", "{% set x = 'a' * 1000000 %}{% set y = 'a' * 1000000 %}{% for i in range(99999) %}{% if x < y %}{% endif %}{% endfor %}"},
		{"counting", "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% if x | length %}{% endif %}{% endfor %}"},
		{"indexing", "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% if x[999999] %}{% endif %}{% endfor %}"},
		{"stripping", "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% if x.strip('a') %}{% endif %}{% endfor %}"},
		{"splitting", "{% set x = 'a ' * 1000000 %}{% for i in range(99999) %}{% if x.split() %}{% endif %}{% endfor %}"},
		{"splitting texts", "{% set x = 'aab' * 300000 %}{% for i in range(99999) %}{% if x.split('aac') %}{% endif %}{% endfor %}"},
		{"finding", "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% if x.find('b') %}{% endif %}{% endfor %}"},
		{"prefixes", "{% set x = 'a' * 1000000 %}{% set y = x + 'b' %}{% set t = (y,) * 10000 %}{% for i in range(99999) %}{% if (x ~ 'a').startswith(t) %}{% endif %}{% endfor %}"},
		{"titles", "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% if x.title() %}{% endif %}{% endfor %}"},
		{"alphabets", "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% if x.isalpha() %}{% endif %}{% endfor %}"},
		{"sorting", "{% set x = range(99999) | list %}{% for i in range(99999) %}{{ x | sort | first }}{% endfor %}"},
		{"sorting texts", "{% set x = ['a' * 1000000 ~ 'b', 'a' * 1000000] * 20 %}{% for i in range(99999) %}{{ x | sort | length }}{% endfor %}"},
		{"summing", "{{ range(99999) | map('string') | list | sum(start='') | length }}{% for i in range(99999) %}{{ ([1] * 90000) | sum }}{% endfor %}"},
		{"maps in maps", "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | map('map', 'map', 'map', 'map', 'map', 'string') | list }}"},
		{"dictionary keys", "{% set x = 'a' * 1000000 %}{% set d = {x: 1} %}{% for i in range(99999) %}{% if d[x] %}{% endif %}{% endfor %}"},
		{"dictionary get", "{% set x = 'a' * 1000000 %}{% set d = {x: 1} %}{% for i in range(99999) %}{% if d.get(x) %}{% endif %}{% endfor %}"},
		{"lists in lists", "{% set x = range(99999) | list %}{% for i in range(99999) %}{% if -1 in x %}{% endif %}{% endfor %}"},
		{"unique texts", "{% set x = 'a' * 1000000 %}{% set y = [x] * 1000 %}{% for i in range(99999) %}{{ y | unique | list | length }}{% endfor %}"},
		{"long chain", "{{ 1" + long("+1", 100_000) + " }}"},
		{"long postfix", "{{ messages" + long("[0]", 80_000) + " }}"},
		{"long filters", "{{ 'a'" + long("|upper", 40_000) + " }}"},
		{"deep parentheses", "{{ " + long("(", 100_000) + "1" + long(")", 100_000) + " }}"},
		{"deep lists", "{{ " + long("[", 100_000) + long("]", 100_000) + " }}"},
		{"deep nots", "{{ " + long("not ", 60_000) + "1 }}"},
		{"deep signs", "{{ " + long("- ", 100_000) + "1 }}"},
		{"deep ifs", long("{% if 1 %}", 20_000) + long("{% endif %}", 1000)},
		{"deep targets", "{% for " + long("(", 100_000) + "a in b %}{% endfor %}"},
		{"deep conditions", "{{ " + long("1 if 1 else ", 20_000) + "1 }}"},
		{"long power", "{{ 7 ** 9223372036854775807 }}"},
		{"huge number", "{{ " + long("9", 200_000) + " }}"},
		{"too long", long("a", 300_000)},
		{"format", "{{ '%1000000000d' % 1 }}"},
		{"strftime", "{{ strftime_now('%c' * 1000000) }}"},
		{"include", "{% include '/etc/passwd' %}"},
		{"import", "{% import '/etc/passwd' as x %}"},
		{"extends", "{% extends '/etc/passwd' %}"},
		{"escape from the sandbox", "{{ ''.__class__.__mro__ }}"},
		{"cycles", "{% for i in range(99999) %}{% for j in range(99999) %}{{ loop.cycle(1, 2) }}{% endfor %}{% endfor %}"},
		{"captures", "{% for i in range(99999) %}{% set x %}{{ 'a' * 1000000 }}{% endset %}{% endfor %}"},
		{"spaces in a tag", "{% for i in range(99999) %}{% for j in range(99999) %}{{ ('a' ~ i).strip() }}{% endfor %}{% endfor %}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpuTime(t)
			out, err := render(c.src, vars)
			took := cpuTime(t) - start
			runtime.ReadMemStats(&after)
			var je *jinja.Error
			if !errors.As(err, &je) {
				t.Errorf("gives %.40q (%v), want an error", out, err)
			}
			// The slowest take a quarter of a second; this leaves room for the
			// race detector and a small machine.
			if took > 5*time.Second {
				t.Errorf("took %v of processor time", took)
			}
			if made := after.TotalAlloc - before.TotalAlloc; made > 1<<30 {
				t.Errorf("allocated %d MiB", made>>20)
			}
		})
	}
}
