#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes cases.json: small templates and what Jinja makes of them, set up as
transformers sets it up. Needs `pip install jinja2` (made with 3.1.6).
Run in this directory."""
import json
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise RuntimeError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception

VARS = {
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hé 😀 <b>&'\"", "n": 3},
                 {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1.5, "a": [1, None, True]}}}]}],
    "n": 7, "neg": -7, "f": 2.5, "big": 123456789012345678901234567890, "s": "  a,b ,c  ", "e": "", "none_": None, "yes": True,
    "l": [3, 1, 2], "names": ["bob", "Al", "cy", "al"], "d": {"z": 1, "a": "x", "items": 5, "n": {"k": [1, {"q": 2}]}},
    "exp": 1e22, "tiny": 1e-7, "third": 1 / 3, "whole": 3.0, "multi": "l1\nl2\r\nl3\n", "ctl": "\x00\x1f\x7f\u2028\\",
}

T = []
def t(*srcs): T.extend(srcs)

# white space
t("a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\n  {% if yes %}\n  b\n  {% endif %}\n  c", "a\n  {%+ if yes %}\n b {%- endif -%} \n c", "a {{ n }}\n b\n\n",
  "a  {{- n -}}  b", "a\n{# c #}\nb", "a\n  {# c #}  \nb", "a {#- c -#} b", "x{% if yes +%}\ny{% endif %}", "{% raw %}{{ n }}{% x %}{% endraw %}", "a {%- raw -%} \n {{ \n {%- endraw -%} b",
  "{% raw %}\nx\n{% endraw %}\ny", "a\r\n{% if yes %}\r\nb\rc{% endif %}", "  {% if yes %} x {% endif %}  \n", "\n\n{% if yes %}a{% endif %}\n\n", "a{% set x = 1 %}\n\nb", "{{ n }}\n",
  "a\t {% if yes %}b{% endif %}", "{{ '}}' }} {{ {'a': {'b': 1}} }}", "{{n}}{{-n}}", "{{ n -}}  x", "{#a#}{#- b -#}", "{%- for x in l %}\n{{ x }}\n{%- endfor %}", "a {#+ b #} c", "x\n   {{ n }}", "{{+n}}",
  "{% raw -%}  a {%- endraw %}", "{%raw%}a{%endraw%}b", "{%- raw %} a {% endraw +%}\nb", "a\n {% raw %}b{% endraw %}\nc", "{# unclosed", "{% raw %} x", "{{ n", "{% if yes", "x {# a # b #} y", "{#}", "{##}x", "a{#-#}b")
# printing
t("{{ none_ }} {{ yes }} {{ n }} {{ f }} {{ whole }} {{ exp }} {{ tiny }} {{ third }} {{ big }}", "{{ l }} {{ d }} {{ (1,) }} {{ (1, 2) }} {{ () }} {{ [] }} {{ {} }}",
  "{{ ['a\\'b', 'a\"b', 'a\\'b\"c', 'é', '\\n\\t\\x00', '\\u2028', 'a\\\\b'] }}", "{{ missing }}|{{ d.missing }}|{{ l[9] }}|{{ [missing] }}", "{{ 1e16 }} {{ 1e15 }} {{ 123456789.125 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 }} {{ -0.0 }} {{ 1e400 if false else 2 }}",
  "{{ 'a' 'b' }} {{ \"q\\\"\" }} {{ 'x\\x41\\u00e9\\101\\q' }}", "{{ 1_000 }} {{ 1.5e3 }} {{ 2e2 }}", "{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}", "{{ ctl }}|{{ [ctl] }}", "{{ d.items() | list }} {{ d.keys() | list }}", "{{ l | map('string') | list }}")
# operators
t("{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 0 ** 0 }} {{ (-1) ** 3 }}",
  "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 2.5 }} {{ 3 - 1 * 2 }} {{ (3 - 1) * 2 }} {{ 1 + True }} {{ -f }} {{ +f }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 1 // 0 }}", "{{ 1.0 / 0 }}",
  "{{ 'a' + 'b' }} {{ 'a' * 3 }} {{ 3 * 'a' }} {{ 'a' * -1 }}| {{ [1] + [2] }} {{ (1,) + (2,) }} {{ [1] * 2 }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ 'a' + none_ }}", "{{ 'a' + missing }}", "{{ missing + 'a' }}", "{{ [1] + (2,) }}",
  "{{ 'a' ~ 1 ~ none_ ~ missing ~ 2.0 ~ [1] }}", "{{ 1 + 1 ~ 2 * 3 }}", "{{ 1 ~ 2 + 3 }}", "{{ not yes }} {{ not e }} {{ not missing }} {{ not not n }}", "{{ n and e }}|{{ e or n }}|{{ none_ or 'x' }}|{{ e and missing.x }}",
  "{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 == True }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ none_ == none }} {{ 1 != '1' }}", "{{ 1 < 'a' }}", "{{ none_ < 1 }}", "{{ missing == missing2 }} {{ missing == none_ }} {{ missing == '' }}",
  "{{ 'a' in 'abc' }} {{ 'd' not in 'abc' }} {{ 1 in l }} {{ 'z' in d }} {{ 'q' in d }} {{ 'x' in missing }} {{ 1 in (1, 2) }}", "{{ 1 in 'abc' }}", "{{ 'a' in none_ }}", "{{ 1 in 5 }}", "{{ 'x' if yes else 'y' }} {{ 'x' if e }}| {{ 'x' if e else 'y' if e else 'z' }}",
  "{{ (1 if e) is defined }}", "{{ -n }} {{ - -n }} {{ -missing }}", "{{ -'a' }}", "{{ 9223372036854775807 }} {{ 9223372036854775807 == big }} {{ big == big }}", "{{ yes + yes }} {{ [yes, n] }}", "{{ 1 in {1: 2} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }}",
  "{{ 3 > 2 and 2 > 1 or false }}", "{{ not 1 == 2 }}", "{{ 'a' == 'a' and 'b' }}", "{{ 5 - 3 - 1 }} {{ 2 * 3 % 4 }}", "{{ [1,2] == [1,2] }} {{ (1,2) == [1,2] }} {{ {'a':1} == {'a':1.0} }} {{ d == d }}", "{{ '%s' % 1 if false else 'k' }}")
# items, attributes, slices
t("{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[-1].role }} {{ messages.0.role }} {{ l.1 }}", "{{ messages[0].x.y }}", "{{ missing.x }}", "{{ missing['x'] }}", "{{ none_.x }}|{{ n.x }}|{{ none_[0] }}|{{ n[0] }}|{{ e[0] }}|{{ 'abc'[1] }}{{ 'hé😀x'[2] }}{{ 'abc'[-1] }}",
  "{{ l[::-1] }} {{ l[1:] }} {{ l[:1] }} {{ l[-2:] }} {{ l[:-1] }} {{ l[5:] }} {{ l[::2] }} {{ l[-9:2] }} {{ l[2:0:-1] }} {{ l[:0:-1] }} {{ l[9::-2] }}", "{{ 'hé😀x'[1:3] }} {{ 'abc'[::-1] }} {{ 'abcdef'[4:1:-2] }} {{ (1,2,3)[1:] }} {{ 'abc'[none:2] }}", "{{ l[::0] }}", "{{ l['a'] }}|{{ l[1.5] }}|{{ d[1] }}", "{{ d.items }}" if False else "{{ d['items'] }}", "{{ d.n.k[1].q }} {{ d['n']['k'][0] }}",
  "{{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.keys() | list }} {{ d.values() | list | length }}", "{{ l[true] }}", "{{ messages[1].content[3] }}", "{{ 'abc'.x }}|{{ l.x }}", "{{ d.__class__ }}|{{ ''.__class__ }}", "{{ {'a': 1}.a }} {{ [1, 2][0] }} {{ (1, 2)[1] }} {{ 'abc'|upper }}", "{{ missing[0:1] }}", "{{ none_[0:1] }}|", "{{ d.n.k.0 }}")
# string methods
t("{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ s.split(',') }}|{{ s.split() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy'.lstrip('yx') }}", "{{ ' 1  2   3  '.split(none, 1) }} {{ ' 1  2   3  '.rsplit(none, 1) }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a b'.split(maxsplit=0) }} {{ ' a '.rsplit() }} {{ ',a,'.rsplit(',') }}",
  "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith('') }} {{ 'abc'.startswith(1) }}", "{{ 'abcabc'.replace('b', 'X') }} {{ 'abcabc'.replace('b', 'X', 1) }} {{ 'abc'.replace('', '-') }} {{ 'aé'.upper() }} {{ 'ABC'.lower() }} {{ 'hello world-x'.title() }} {{ 'hELLO'.capitalize() }}",
  "{{ 'abcabc'.find('c') }} {{ 'éc'.find('c') }} {{ 'abc'.find('x') }} {{ 'abcabc'.rfind('c') }} {{ 'abcabc'.count('b') }} {{ 'abc'.index('b') }}", "{{ 'abc'.index('x') }}", "{{ ', '.join(names) }} {{ ''.join('abc') }}", "{{ ','.join(l) }}", "{{ multi.splitlines() }} {{ multi.splitlines(true) }}",
  "{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ 'abc'.rpartition('=') }}", "{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'aB'.islower() }}", "{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }}", "{{ 'a'.nope() }}", "{{ 'a'.split('') }}", "{{ l.append(4) }}", "{{ d.update({'a': 1}) }}", "{{ l.index(2) }} {{ l.count(3) }}", "{{ 'abc'.strip }}" if False else "x", "{{ none_.strip() }}", "{{ n() }}", "{{ missing() }}",
  "{{ '\u00a0x\u3000'.strip() }}|{{ 'a\x1cb'.split() }}", "{{ 'aXbX'.split('X')[-1] == '' }}", "{{ 'a\n\n b'.split('\n')[0].rstrip('\n').split('<t>')[-1] }}")
# filters
t("{{ messages | length }} {{ 'hé😀' | length }} {{ d | length }} {{ missing | length }} {{ l | count }}", "{{ none_ | length }}", "{{ n | length }}", "{{ missing | default('x') }} {{ e | default('x') }}| {{ e | default('x', true) }} {{ none_ | default('x') }} {{ none_ | d('x', boolean=true) }} {{ missing | default }}|",
  "{{ ' a ' | trim }}| {{ 'xax' | trim('x') }} {{ 'aB' | upper }} {{ 'aB' | lower }} {{ 'aB c' | title }} {{ 'aB' | capitalize }} {{ n | string + 'x' }} {{ 5 | upper }}", "{{ names | join(', ') }} {{ l | join }} {{ messages | join('|', attribute='role') }} {{ [none_, missing, 1] | join('-') }}", "{{ l | first }} {{ l | last }} {{ [] | first }}| {{ 'abc' | first }} {{ 'abc' | last }}",
  "{{ 'abc' | list }} {{ d | list }} {{ l | reverse | list }} {{ 'abc' | reverse }} {{ missing | list }}", "{{ none_ | list }}", "{{ '42' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ '3.9' | int }} {{ 'ff' | int(0, 16) }} {{ none_ | int }} {{ ' 7 ' | int }}", "{{ '1.5' | float }} {{ 'x' | float }} {{ 2 | float }} {{ none_ | float(1.5) }}", "{{ missing | int }}",
  "{{ l | sort }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ messages | sort(attribute='role') | map(attribute='role') | list }}", "{{ [1, 'a'] | sort }}", "{{ names | unique | list }} {{ [1, 1.0, true, 2] | unique | list }}", "{{ names | map('upper') | list }} {{ messages | map(attribute='role') | join(',') }} {{ messages | map(attribute='n', default=0) | list }} {{ messages | map(attribute='tool_calls.0.function.name', default='-') | list }}",
  "{{ l | select('gt', 1) | list }} {{ l | reject('odd') | list }} {{ l | select | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('n') | list | length }} {{ messages | selectattr('tool_calls') | map(attribute='role') | first }} {{ messages | selectattr('role', 'in', ['user']) | list | length }}",
  "{{ l | min }} {{ l | max }} {{ names | max }} {{ [] | max }}| {{ messages | max(attribute='role') is mapping }}", "{{ l | sum }} {{ [1.5, 2] | sum }} {{ messages | map(attribute='n', default=1) | sum }} {{ l | sum(start=10) }}", "{{ -3 | abs }} {{ -3.5 | abs }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(method='ceil') }} {{ 2.9 | round(0, 'floor') }} {{ 5 | round }}",
  "{{ multi | indent }}|{{ 'a\nb\n\nc' | indent(2) }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(width='>', blank=true) }}", "{{ 'aXbX' | replace('X', '-') }} {{ 'aXbX' | replace('X', '-', 1) }} {{ 12 | replace('1', 'x') }}", "{{ d | items | list }} {{ missing | items | list }} {{ d | dictsort }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}" if False else "{{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }} {{ {'b': 1} | items | list }} {{ missing | items | list }}",
  "{{ l | batch(2) | list }} {{ l | batch(2, 0) | list }}", "{{ 'a' | nofilter }}", "{{ 'a<b' | safe }}", "{% if l | select('gt', 9) %}true{% endif %}", "{{ (l | select('gt', 9)) | length }}", "{{ -1 | abs }} {{ (-1) | abs }} {{ 1 + -1 | abs }}", "{{ [[1, 2], [3]] | map('join', '+') | list }}", "{{ [[1,[2]],[3]] | map('map', 'string') | map('list') | list }}", "{{ ['a', 'b'] | map('replace', 'a', 'c') | list }}")
# tojson
t("{{ messages | tojson }}", "{{ d | tojson }}", "{{ [1, 1.0, 1e22, 1e-7, big, none_, yes, 'é😀', '<&>\\'\"', ctl, third] | tojson }}", "{{ d | tojson(indent=2) }}", "{{ [] | tojson(indent=2) }} {{ {} | tojson(indent=2) }} {{ [[]] | tojson(indent=1) }}", "{{ d | tojson(sort_keys=true) }}", "{{ d | tojson(separators=(',', ':')) }}", "{{ 'é😀\x7f' | tojson(ensure_ascii=true) }}", "{{ (1, 2) | tojson }} {{ 'x' | tojson }} {{ none_ | tojson }}", "{{ missing | tojson }}", "{{ [missing] | tojson }}", "{{ {1: 'a', none: 'b', true: 'c', 2.5: 'd'} | tojson }}", "{{ l | map('string') | tojson }}", "{{ d.keys() | tojson }}", "{{ d | tojson(indent='\t') }}", "{{ l | tojson(indent=0) }}", "{{ d | tojson(2) }}", "{{ d | tojson(false, 4) }}")
# tests
t("{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ d.q is defined }} {{ none_ is none }} {{ none_ is not none }} {{ missing is none }}", "{{ 's' is string }} {{ n is string }} {{ n is number }} {{ f is number }} {{ yes is number }} {{ n is integer }} {{ yes is integer }} {{ f is float }} {{ yes is boolean }} {{ big is integer }}", "{{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ 's' is iterable }} {{ n is iterable }} {{ l is sequence }} {{ d is sequence }} {{ 's' is sequence }} {{ missing is iterable }} {{ missing is sequence }} {{ n is sequence }}",
  "{{ yes is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }}", "{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }}", "{{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is gt 5 }} {{ n is lessthan 5 }} {{ n is in [7] }} {{ n is sameas n }} {{ none_ is sameas none }}", "{{ 'ab' is lower }} {{ 'AB' is upper }} {{ range is callable }} {{ n is callable }}", "{{ n is nosuch }}", "{{ 'x' is string and n is number }} {{ n is defined and not missing is defined }}", "{{ n is not defined or e is string }}", "{{ 'a' is not string == false }}", "{{ n is odd is true }}", "{{ d.a is defined and d.a is string }}", "{{ not n is none }}", "{{ n is number if yes else 'q' }}" if False else "x")
# statements
t("{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if none_ %}a{% elif e %}b{% else %}c{% endif %}", "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}no{% endfor %}", "{% for x in l if x > 9 %}a{% else %}no{% endfor %}",
  "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'hé' %}{{ c }}.{% endfor %}", "{% for x in missing %}a{% else %}b{% endfor %}", "{% for x in none_ %}a{% endfor %}", "{% for x in n %}a{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
  "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% for y in l %}{{ loop.depth }}{{ loop.index }}{% if y == 1 %}{% break %}{% endif %}{% endfor %}|{% endfor %}", "{% break %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}", "{% for m in messages %}{% if not loop.first and messages[loop.index0 - 1].role == 'user' %}{{ m.role }}{% endif %}{% endfor %}",
  "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(c=0) %}{% for i in l %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }} {{ ns.q }}|", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}", "{% set d.a = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}|{{ x is string }}", "{% set x | upper | trim %} a{{ n }}b {% endset %}{{ x }}|", "{% if yes %}{% set x = 5 %}{% endif %}{{ x }}", "{% if e %}{% set x = 5 %}{% endif %}{{ x }}|",
  "{% for i in l %}{% set q = i %}{% endfor %}{{ q }}|", "{% for i in l %}{{ q }}{% set q = i %}{% endfor %}", "{% set q = 9 %}{% for i in l %}{{ q }}{% set q = i %}{{ q }} {% endfor %}{{ q }}", "{{ loop }}|{% for i in [] %}{% endfor %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}|", "{% filter upper %}a{{ 'b' }}{% endfilter %}", "{% filter replace('a', 'x') | upper %}abc{% endfilter %}", "{% generation %}a{{ n }}{% endgeneration %}b",
  "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m() %}{{ n }}{{ w }}{% endmacro %}{% set w = 3 %}{{ m() }}", "{% set w = 1 %}{% macro m() %}{{ w }}{% set w = 2 %}{{ w }}{% endmacro %}{{ m() }}{{ w }}", "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(4) }}", "{% macro m(x) %} a {% endmacro %}{{ m(1).strip() + 'b' }}|{{ m(1) | trim }}|{{ m(1) is string }}",
  "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(1) }}", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }} {{ range(3)[1] }} {{ range(3) | length }} {{ 2 in range(3) }}", "{{ range(1, 2, 0) }}", "{{ range('a') }}", "{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }}", "{{ raise_exception('no ' + 'way') }}", "{% if n == 8 %}{{ raise_exception('x') }}{% endif %}ok", "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% nosuch %}", "{% if %}{% endif %}", "{% if yes %}", "{% endif %}", "{% for x in l %}{% endif %}", "{{ }}", "{{ n n }}", "{{ (1 }}", "{{ [1, 2 }}", "{{ 'a }}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% for x of l %}{% endfor %}", "{{ n | }}", "{{ n is }}", "{{ a.b.c }}", "{{ n. }}", "{{ d.1a }}", "{{ $ }}", "{% set x = %}", "{{ [1,,2] }}", "{{ {1 2} }}", "{{ m(a=1, 2) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% raw %}{% endraw %}{% endraw %}",
  "{% for x in l -%}\n  {{ x }}\n{%- endfor %}", "{% if yes %}{% for x in l %}{{ x }}{% endfor %}{% else %}{% endif %}", "{{ [1, 2,] }} {{ (1, 2,) }} {{ {'a': 1,} }} {{ (1) }} {{ ((1, 2), 3) }}", "{{ 1, 2 }}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% set x = [1, 2][0] if yes else 3 %}{{ x }}", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first | length }}", "{{ 'a' if 'x' is string else 'b' }}", "{% set loop_messages = messages[1:] %}{% for m in loop_messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('order') }}{% endif %}{{ m['role'] }}{% endfor %}",
  "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] | trim %}{%- set rest = messages[1:] %}{%- else %}{%- set system = '' %}{%- endif %}{{- '<|sys|>\\n' + system + '\\n' }}{%- for m in rest %}{{- '<|' + m.role + '|>\\n' }}{%- if 'tool_calls' in m %}{%- if not m.tool_calls | length == 1 %}{{- raise_exception('one') }}{%- endif %}{%- set tc = m.tool_calls[0].function %}{{- tc.name + '(' }}{%- for k, v in tc.arguments | items %}{{- k + '=' + (v | tojson) }}{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}{{- ')' }}{%- endif %}{%- endfor %}")

# turns of phrase from templates in the field
t("{%- macro a(p) -%}{%- for k, v in p | dictsort -%}{{ k }}:{{ b(v) }}{{- ',' if not loop.last -}}{%- endfor -%}{%- endmacro -%}{%- macro b(v) -%}{%- if v is string -%}{{- '\"' + v + '\"' -}}{%- elif v is mapping -%}{{- '{' -}}{{ a(v) }}{{- '}' -}}{%- elif v is sequence -%}[{%- for i in v -%}{{ b(i) }}{%- if not loop.last %},{% endif -%}{%- endfor -%}]{%- else -%}{{- v -}}{%- endif -%}{%- endmacro -%}{{ a({'z': [1, 'x', {'q': none}], 'b': true}) }}",
  "{%- if not tools is defined %}{%- set tools = none %}{%- endif %}{{ tools is none }}", "{%- if not enable_thinking | default(false) -%}off{%- endif -%}", "{{ d['name'] | default('unknown') + '{' }}", "{{ v | tojson | string if v is not string else v }}", "{% set v = 'x' %}{{ v | tojson | string if v is not string else v }}|{{ 1 if v is string else 2 }}",
  "{%- set f = [] %}{%- for m in messages %}{%- set f = f + [m] %}{%- endfor %}{{ f | length }}", "{%- for m in messages %}{%- if m['role'] not in ['user', 'tool'] and not m.get('tool_calls') %}{{ m.role }}{%- endif %}{%- endfor %}", "{% set out = messages[2].tool_calls[0].function | tojson %}{{ out[:-1] + ', \"id\": 1}' }}", "{%- for key, val in d.items() if key != 'z' %}{{ key }}{% if not loop.last %}, {% endif %}{%- endfor %}", "{{ 'line one\\\nline two' }}",
  "{%- macro m(c) -%}{%- if q is not defined -%}{%- set q = 'dflt' -%}{%- endif -%}{{- q }}{{ c }}{%- endmacro -%}{{ m(1) }}{{ q }}|", "{% set ns = namespace(a=none, b=-1) %}{% if ns.a is none and ns.b == -1 %}{% set ns.b = loop.index0 if loop is defined else 4 %}{% endif %}{{ ns.b }}", "{{ '<think>a</think>b'.split('</think>')[0].split('<think>')|last }}", "{{ (messages | selectattr('role', 'equalto', 'user') | list)[-1].content }}", "{{ messages[1] == (messages | selectattr('role', 'equalto', 'user') | list)[-1] }}", "{{ (messages|map(attribute='role')|list)[0:2] | join('/') }}", "{% if messages[0].role == 'system' and messages[0].content is string and messages[0].content|trim %}y{% endif %}", "{{ '\n\n' ~ '# T' ~ '\n' }}", "{#- a -#}\n  {#- b -#}  x", "{{ {'a': {'b': [1, (2, 3)]}} }}", "{% set x = namespace() %}{% set x.y = [1] %}{% set x.y = x.y + [2] %}{{ x.y }}", "{{ messages|length - 1 }} {{ (messages|length - 1) * 2 }} {{ -messages|length }}", "{{ 'a' in d and 'b' not in d }} {{ not 'a' in d }}", "{{ 1 if 2 is gt 1 and 3 is gt(2) else 0 }}", "{{ loop is defined }}{% for i in l %}{{ loop is defined }}{% endfor %}", "{{ [1, 2, 3][1:] | first }}{{ ({'a': 5}).a }}{{ ('x' ~ 'y') | upper }}",
  "{% for m in messages[::-1] %}{% set i = (messages | length - 1) - loop.index0 %}{{ i }}{{ m.role[0] }}{% endfor %}", "{% set c %}{% for i in l %}{{ i }}{% endfor %}{% endset %}{{ c | length }}", "{{ 'x'.join(['a', 'b']) ~ 'y' * 2 }}", "{{ n if n is number and n > 5 else 'small' }}", "{{ missing.a if missing is defined else 'none' }}", "{{ (missing | default({})).get('a', 'd') }}", "{{ messages[0].get('x', {}).get('y', 3) }}", "{{ d.items() | length }} {{ d.keys() | first if false else 'k' }}" if False else "{{ d.n.items() | length }} {{ d.n.keys() | first }}", "{{ 'é' | tojson }} {{ 'a\u0301' | length }}", "{{ '%' }}{{ '{{' }}{{ '{%' }}", "{{ 'a' is in 'abc' }} {{ 'z' is not in 'abc' }}" if False else "{{ 'a' is in('abc') }} {{ 'z' is not in('abc') }}",
  "{% macro f(x) %}{{ x }}{% endmacro %}{% set g = f %}{{ g(2) }}", "{% for x in [[1, 2], [3]] %}{% for y in x %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for x in l %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}", "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}|", "{% with a = 1 %}{% with b = a + 1 %}{{ b }}{% endwith %}{% endwith %}", "{% with a = 1, b = a %}{{ b }}{% endwith %}|", "{% set a = 1 %}{% set a = a + 1 %}{{ a }}", "{% for a in l %}{% endfor %}{{ a }}|", "{% set l2 = l | sort %}{{ l2 }} {{ l }}", "{% if n %}{% if e %}a{% else %}b{% endif %}{% else %}c{% endif %}")

out = []
for src in T:
    case = {"template": src}
    try:
        case["text"] = env.from_string(src).render(**VARS)
    except Exception as e:
        case["error"] = type(e).__name__ + ": " + str(e)
    out.append(case)
with open("cases.json", "w") as f:
    json.dump({"vars": VARS, "cases": out}, f, ensure_ascii=True, indent=0)
print(len(out), sum("error" in c for c in out))
