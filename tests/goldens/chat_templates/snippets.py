"""Small templates, each about one rule of the language. `VARIABLES` is what they see."""

VARIABLES = {
    "name": "World",
    "text": "  Hello, Wörld! 你好 🎉  ",
    "word": "straße",
    "lines": "one\ntwo\n\nthree",
    "html": "<a href='x'>\"T&C\"</a>",
    "empty": "",
    "yes": True,
    "no": False,
    "nothing": None,
    "n": 7,
    "neg": -7,
    "f": 2.5,
    "big": 1e300,
    "nums": [3, 1, 2],
    "mixed": [1, "a", None, 2.5, True, [1, 2], {"k": "v"}],
    "words": ["banana", "Apple", "cherry", "apple"],
    "d": {"b": 1, "a": 2, "C": 3},
    "nested": {"x": {"y": [10, {"z": "deep"}]}, "items": "shadowed", "update": 5, "9": "nine"},
    "users": [
        {"name": "Ann", "age": 30, "admin": True, "tags": ["x"]},
        {"name": "bob", "age": 25, "admin": False, "tags": []},
        {"name": "Cid", "age": 30, "admin": True},
    ],
    "messages": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U1"},
        {"role": "assistant", "content": "A1"},
        {"role": "user", "content": "U2"},
    ],
}

# One expression each; rendered as {{ expression }}.
EXPRESSIONS = r"""
1 + 2 * 3
(1 + 2) * 3
7 / 2
8 / 2
7 // 2
-7 // 2
7 // -2
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
7.5 % -2
-0.0
0.0 * -1
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
2.0 ** 0.5
10 ** 18
1e16
1e15
123456789012345680.0
0.0001
0.00001
1.5e-7
3.0
1e22
100000000000000000000.0
0.5 is defined
0x1F + 0b101 + 0o17
1_000_000
1_0.2_5
5.0 // 0.3
1 / 3
0.1 + 0.2
2 ** 0.5
1 + true
true + true
true
false
none
True
None
'a' + 'b'
'a' 'b' "c"
'a' * 3
3 * 'ab'
'a' * -1
[1, 2] * 2
(1, 2) + (3,)
[1] + [2, 3]
1 ~ 2 ~ 'x' ~ none ~ true ~ 1.0
'x' ~ missing ~ 'y'
nums ~ d
1 if yes
'shown' if no
'a' if no else 'b'
'a' if no else 'b' if no else 'c'
1 < 2 < 3
1 < 3 < 2
3 > 2 > 1 >= 1
1 == 1.0
1 == true
'1' == 1
none == false
[1, 2] == [1, 2]
[1, 2] == (1, 2)
(1, 2) == (1, 2)
{'a': 1} == {'a': 1.0}
[1, 2] < [1, 3]
[1, 2] < [1, 2, 0]
'a' < 'b'
'Z' < 'a'
'é' > 'z'
missing == missing
missing == none
missing != 1
not yes
not missing
not not nothing
yes and 'x'
no or 'y'
'' or 'default'
0 or [] or {} or 'end'
1 and 2 and 3
nothing and missing.foo
1 in nums
9 not in nums
'ell' in 'hello'
'' in 'abc'
'a' in d
'z' in d
2 in (1, 2)
1 in d.values()
1 in range(5)
not 1 in nums
1 in missing
'x' in nested.x
n is odd
n is even
4 is even
n is divisibleby 7
n is divisibleby(3)
n is number
f is number
yes is number
f is float
n is float
n is integer
yes is integer
yes is boolean
n is boolean
yes is true
no is false
1 is true
name is string
n is string
nums is sequence
name is sequence
d is sequence
n is sequence
missing is sequence
d.items() is sequence
nums is iterable
name is iterable
n is iterable
missing is iterable
nothing is iterable
d is mapping
nums is mapping
missing is defined
missing is undefined
missing is not defined
name is defined
nested.nope is defined
nested.x.nope is defined
nested['x']['y'][5] is defined
nothing is none
nothing is not none
missing is none
n is eq 7
n is equalto 7
n is ne 7
n is gt 6
n is ge 7
n is lt 7
n is le 7
n is greaterthan 9
n is lessthan 9
n is in [1, 7]
'a' is in 'cat'
n is not in [1, 7]
range is callable
n is callable
'lower' is filter
'nofilter' is filter
'odd' is test
'abc' is lower
'ABC' is upper
'Abc' is lower
'123' is upper
nums is sameas nums
none is sameas none
1 is sameas 1
'x' is escaped
('x'|e) is escaped
n is odd and n is number
n is odd or missing.x
name.foo is defined
name|upper
word|upper
word|lower
'ÀÉÎ õü'|lower
'àéî'|upper
'ПРИВЕТ'|lower
name|lower|upper
n|upper
none|upper
missing|upper
'hello wORLD foo-bar (baz) [qux]'|title
"it's a dog's life"|title
"it's a dog's life".title()
'hello WORLD'|capitalize
'élan VITAL'|capitalize
'élan'.capitalize()
''|capitalize
text|trim
'xxabcxx'|trim('x')
'xyabcyx'|trim(chars='xy')
42|trim
'\u00a0\u2003 nbsp \u3000'|trim
'a\x1cb'|trim('b')
text|length
text.strip()|length
word|length
'🎉'|length
nums|length
d|length
missing|length
nums|count
range(5)|length
d.items()|length
lines|indent
lines|indent(2)
lines|indent(2, true)
lines|indent(width=2, first=true, blank=true)
lines|indent('> ', true, true)
''|indent
'a\r\nb\x0bc'|indent(1)
html|e
html|escape
html|e|e
html|forceescape|forceescape
html|safe
html|safe|e
('<b>'|safe) + '<i>'
'<i>' + ('<b>'|safe)
('<b>'|safe) ~ '<i>'
('<b>'|safe)|upper + '&'
('<b>'|e)|replace('&', 'x')
[('<b>'|safe)]
('<b>'|safe).split('b')
('<%s>'|safe) % '&'
5|e
none|e
name|replace('o', '0')
name|replace('o', '0', 1)
'aaa'|replace('a', 'b', 2)
'aaa'|replace('', '-')
'abc'|replace('', '-', 2)
'a1b1'|replace(1, 2)
d|tojson
mixed|tojson
users|tojson
text|tojson
html|tojson
'\x7f\x00\x1f\u2028/'|tojson
"quote\" back\\ tab\t nl\n cr\r bs\x08 ff\x0c"|tojson
nums|tojson(indent=2)
mixed|tojson(indent=1)
d|tojson(indent=0)
d|tojson(indent='--')
nested|tojson(indent=4)
[]|tojson(indent=2)
{}|tojson(indent=2)
{'a': [], 'b': {}}|tojson(indent=2)
text|tojson(ensure_ascii=true)
'\x7f'|tojson(true)
d|tojson(sort_keys=true)
d|tojson(separators=(',', ':'))
d|tojson(indent=2, separators=(' ,', ' : '))
(1, 2)|tojson
1.0|tojson
1e100|tojson
true|tojson
none|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
'<b>'|safe|tojson
'inf'|float|tojson
'nan'|float|tojson
'-inf'|float|tojson
nums|join
nums|join(', ')
words|join('-')
users|join(', ', attribute='name')
'abc'|join('.')
d|join(',')
missing|join(',')
[1, none, true, 2.0]|join(' ')
nums|first
nums|last
d|first
d|last
name|first
name|last
[]|first
[]|last
missing|first
text.strip()|last
range(3)|last
nums|list
d|list
'añb'|list
missing|list
range(4)|list
d.items()|list
d.keys()|list
d.values()|list
d|items|list
missing|items|list
d|dictsort
d|dictsort(true)
d|dictsort(false, 'value')
d|dictsort(by='value', reverse=true)
d|dictsort(reverse=true)
words|sort
words|sort(case_sensitive=true)
words|sort(true)
words|sort(reverse=true, case_sensitive=true)
nums|sort
users|sort(attribute='age')|map(attribute='name')|list
users|sort(attribute='age,name')|map(attribute='name')|list
users|sort(attribute='age', reverse=true)|map(attribute='name')|list
'hello'|sort|join
nums|reverse|list
name|reverse
text|reverse
d|reverse|list
nums|select('odd')|list
nums|select('gt', 1)|list
nums|select|list
[0, 1, '', 'a', none]|select|list
[0, 1, '', 'a', none]|reject|list
nums|reject('odd')|list
nums|select('in', [1, 2])|list
users|selectattr('admin')|map(attribute='name')|list
users|rejectattr('admin')|map(attribute='name')|list
users|selectattr('age', 'equalto', 30)|map(attribute='name')|list
users|selectattr('age', 'lt', 30)|list|length
users|selectattr('tags', 'defined')|list|length
users|rejectattr('tags', 'defined')|map(attribute='name')|list
users[:2]|selectattr('tags.0', 'equalto', 'x')|map(attribute='name')|list
messages|selectattr('role', 'in', ['user', 'system'])|map(attribute='content')|join('|')
(messages|selectattr('role', 'equalto', 'nobody')|list|first) is defined
messages|selectattr('role', '==', 'user')|list|last
words|map('upper')|list
words|map('replace', 'a', '4')|join(' ')
words|map('length')|list
users|map(attribute='tags', default='none')|list
users|map(attribute='nope', default=0)|list
users|map(attribute='nope')|list
users|map(attribute='tags.0', default='-')|list
[[1, 2], [3]]|map(attribute=0)|list
[[1, 2], [3]]|map('first')|list
[' a ', 'b ']|map('trim')|map('upper')|join
missing|map('upper')|list
none|map('upper')|list
words|unique|list
words|unique(true)|list
users|unique(attribute='age')|map(attribute='name')|list
[1, 1.0, true, '1']|unique|list
'mississippi'|unique|join
nums|sum
users|sum(attribute='age')
[[1], [2]]|sum(start=[])
nums|min
nums|max
words|min
words|max(true)
users|max(attribute='age')
[]|max
nums|batch(2)|list
nums|batch(2, 'x')|list
range(7)|slice(3)|list
range(7)|slice(3, 'x')|list
missing|default('d')
missing|d('d')
missing|default
''|default('d')
''|default('d', true)
none|default('d')
none|default('d', true)
none|default(default_value='d', boolean=true)
nested.nope|default('d')
'42'|int
' 42 '|int
'4_2'|int
'42.7'|int
'abc'|int
'abc'|int(-1)
'abc'|int(default=5)
'0x1f'|int(base=16)
'1f'|int(0, 16)
'101'|int(0, 2)
'0b101'|int(0, 0)
42.9|int
-42.9|int
true|int
none|int
[]|int(3)
'-17'|int
'+5'|int
'- 5'|int
''|int
'1e3'|int
'nan'|int
'3.5'|float
'abc'|float
'abc'|float(1.5)
' 1e3 '|float
'1_0.5'|float
'inf'|float
'-Infinity'|float
'NaN'|float
'0x10'|float
5|float
none|float
true|float
42.55|round
42.55|round(1)
42.55|round(1, 'floor')
42.55|round(1, 'ceil')
2.5|round
3.5|round
-2.5|round
0.125|round(2)
2.675|round(2)
1234.5|round(-2)
42|round
1250|round(-2)
1350|round(-2)
42|round(1, 'floor')
7|round(0, 'ceil')
42.7|round|int
-5|abs
-5.5|abs
true|abs
5|string + 'x'
nums|string
none|string
1.0|string
'abc'|center(9)
'abc'|center(10)
'a long text with many words in it'|truncate(12)
'a long text with many words in it'|truncate(12, true)
'a long text with many words in it'|truncate(12, false, '~', 0)
'short'|truncate(3, leeway=5)
'hello big world'|wordcount
'%s is %d years'|format('x', 5)
'%(a)s-%(b)s'|format(a=1, b=2)
d|attr('a')
'%s' % name
'%s and %s' % (1, 'b')
'%5d|%-5d|%05d|%+d' % (42, 42, 42, 42)
'%.2f %8.3f %e %g %g' % (3.14159, 2.5, 12345.678, 0.0001, 1e10)
'%x %X %o %#x' % (255, 255, 8, 255)
'%r %s' % ('a', 'a')
'%%' % ()
'%c%c' % ('a', 66)
'%(x)s %(x)05d' % {'x': 3}
'%10s|%-10s|%.2s' % ('abc', 'abc', 'abc')
'%s' % nums
'%*d' % (5, 42)
'%d' % 3.99
'%d' % true
'%i%%' % 50
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format('a', 'b')
'{x} {y}'.format(x=1, y=2)
'{:>6}|{:<6}|{:^6}|{:*^7}'.format('ab', 'ab', 'ab', 'ab')
'{:05d} {:+} {: } {:x} {:#b} {:,}'.format(42, 42, 42, 255, 5, 1234567)
'{:.2f} {:8.2f} {:e} {:%} {:g}'.format(3.14159, 2.5, 1234.5, 0.25, 1e-5)
'{!r} {!s}'.format('a', 'a')
'{0[k]} {0.k}'.format({'k': 'v'})
'{0[1]}'.format([1, 2])
'{{}} {}'.format(1)
'{:{}}|'.format('a', 5)
'{}'.format(none)
'{:.3}'.format('abcdef')
'{:,.1f}'.format(1234567.89)
' a b '.strip() ~ '|'
'xxaxx'.strip('x')
'xxaxx'.lstrip('x')
'xxaxx'.rstrip('x')
' a '.lstrip() ~ '|'
' a '.rstrip() ~ '|'
'éaé'.strip('é')
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.split(',', maxsplit=2)
'a,b,,c'.rsplit(',', 1)
'a<>b<>c'.rsplit('<>')
'aaa'.rsplit('aa')
' a  b c '.split()
' a  b c '.split(none, 1)
' a  b c '.rsplit(none, 1)
''.split()
''.split(',')
'a\n\nb\r\nc'.splitlines()
'a\n\nb\r\nc'.splitlines(true)
'hello'.startswith('he')
'hello'.startswith(('x', 'he'))
'hello'.startswith('l', 2)
'hello'.endswith('lo')
'hello'.endswith('l', 0, 4)
'hello'.endswith(('x', 'y'))
'héllo'.find('l')
'héllo'.find('l', 3)
'héllo'.find('z')
'héllo'.rfind('l')
'hello'.index('l')
'hello'.count('l')
'aaaa'.count('aa')
'abc'.count('')
'hello'.upper()
'HELLO'.lower()
'Hello'.swapcase()
'hello world'.title()
'hello'.capitalize()
'hello'.replace('l', 'L')
'hello'.replace('l', 'L', 1)
', '.join(['a', 'b'])
', '.join('abc')
', '.join(d)
'a-b'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'prefix-x'.removeprefix('prefix-')
'x.txt'.removesuffix('.txt')
'5'.zfill(3)
'-5'.zfill(4)
'ab'.center(7, '*')
'ab'.ljust(4) ~ '|'
'ab'.rjust(4, '.')
'123'.isdigit()
'12a'.isdigit()
''.isdigit()
'abc'.isalpha()
'añ'.isalpha()
'a1'.isalnum()
' \t'.isspace()
'abc'.islower()
'ABC'.isupper()
'A1'.isupper()
'1'.isupper()
d.items()
d.keys()
d.values()
d.get('a')
d.get('zz')
d.get('zz', 'fallback')
nested.get('x').y
nested.x.y[1].z
nested['x']['y'][0]
nested.x['y'].1.z
nested['items']
nested.items() is iterable
nested['9']
nested.nope
nested.nope is undefined
nested.update is defined
nums.append is defined
nums.index(2)
nums.count(1)
(1, 2, 1).count(1)
nums.0
nums[0]
nums[-1]
nums[5]
nums['x']
name[0]
name[-1]
text[4]
text[10:]
name[1:3]
name[:2]
name[2:]
name[::-1]
name[::2]
name[-3:-1]
name[10:20]
text[::-1]
text.strip()[-1]
nums[::-1]
nums[1:]
nums[:-1]
nums[10:]
nums[-2:]
nums[3:0:-1]
nums[::2]
(1, 2, 3)[1:]
range(10)[2:8:2]
range(10)[3]
range(5)
range(1, 5)
range(0, 10, 3)|list
range(5, 0, -2)|list
range(0)|list
messages[1:]|length
messages[::-1]|map(attribute='role')|join(',')
messages[-1].content
messages[-1]['content']
name.__class__
'skipped' if yes else name.__class__.__mro__
[].__class__
''.__len__ is defined
nothing.foo
nothing['foo']
[1, 'two', 3.0, none, true, missing]
(1,)
()
(1, 2)
1, 2
{'a': 1, "b": [1, 2], 3: none}
{}
[]
{'a': 1, 'a': 2}
{1: 'a', true: 'b', 1.0: 'c'}
['a\'b', 'a"b', 'a\'"b', 'a\\b', 'a\nb\t', 'é', '\x07', '\x7f', '\u200b', '\xa0', '🎉']
"a\x41\u00e9\U0001F389\101\0\q\
b"
'\a\b\f\v'|tojson
dict(a=1, b=2)
dict([('a', 1), ('b', 2)])
dict({'a': 1}, b=3)
dict(d, a=9)
namespace(a=1).a
namespace({'a': 1}, b=2).b
namespace().x is defined
namespace(a=1)
(namespace(a=1)) is mapping
[1, [2, [3, (4, {'five': 5})]]]
big * 1e10
-big * 1e10
n.__add__ is defined
users[0]
1 if 0 else 2 + 3
-n
+n
+true
-true
- -n
not n == 7
not (n == 7)
n == 7 and not no
1 + (1 ~ 1)|int + 1
2 * 3 ~ 4
'a' ~ 'b'|upper
-1|abs
2 + -1|abs
(2 + -1)|abs
n in nums == no
'a' 'b'.upper()
[1, 2,]
{'a': 1,}
(1, 2,)
range(3)|map('string')|list
{'x': 1}.items()|list
'ab'.split('b')[0]|upper
nums|length > 2
nums|length == 3 and 'ok'
words|map('first')|join|upper
words[0][0]|upper
'a\nb'
"tab\there"
d == {'a': 2, 'C': 3, 'b': 1}
nums == [3, 1, 2.0]
[nums, nums]|tojson
[d.a, d['b'], d.get('C')]
(d.items()|list)[0][0]
d.items()|list|first|last
loop is defined
varargs is defined
lipsum is string
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y')
strftime_now('%A, %B %d, %Y %H:%M:%S %p %j')
strftime_now('%-d/%-m %y %% %e')
strftime_now('')
strftime_now('%f|%z|%Z|')
'Straße'|title
'ǆ'|upper
'İ'|lower == 'i̇'
'\u2029'.splitlines()|length
1 is number and 'a' is not number
missing|string == ''
missing ~ missing
(missing or 'x')
missing|tojson if missing else 'no'
missing|length
not missing and 'empty'
[missing]|length
1000000 * 1000000
9223372036854775807
-9223372036854775807 - 1
9007199254740993 == 9007199254740992.0
9007199254740993 > 9007199254740992.0
1 < 1.5
'10' < '9'
true > false
0.1 + 0.7
1e3
5 // 2.0
5 % 2.5
1.0 == 1
2.50
1E5
nums|join(missing)
'a.b.c'.split('.')|last
[3, 1, 2]|sort|first
'ab'|list|reverse|join
[1, 2, 3]|map('string')|join('+')
'x'.join([])
''.join(['a'])|length
['b', 'a']|sort|tojson
'\\n'
'\'' ~ "\""
'%d%%'|format(5)
"{}".format("a")|upper
d['a'] + d['b']
users|map(attribute='name')|map('lower')|sort|join(',')
users|selectattr('admin', 'true')|list|length
users|selectattr('name', 'in', ['Ann', 'Cid'])|map(attribute='age')|sum
users|map(attribute='age')|unique|list
(users|map(attribute='age')|list) == [30, 25, 30]
words|sort(attribute='length')|list|length
'abcdef'[1:-1:2]
'abcdef'[-1:0:-2]
'abcdef'[100:0:-1]
[0, 1, 2, 3][-100:2]
'é' * 3
'é🎉x'[1]
'é🎉x'[::-1]
'é🎉x'[1:]|length
text|upper|trim|length
'ß'|upper|length
"multi
line"
""".strip("\n")

# Whole templates.
TEMPLATES = [
    "plain text",
    "",
    "\n",
    "a\n",
    "a\n\n",
    "a\r\nb\rc\n",
    "{{ name }}\n",
    "{{ name }}\n\nx",
    "{% if yes %}\nA\n{% endif %}\nB",
    "  {% if yes %}\n  A\n  {% endif %}\n  B",
    "x {% if yes %} y {% endif %} z",
    "x {%- if yes -%} y {%- endif -%} z",
    "x\n\n  {%- if yes %}\n  y\n  {%- endif %}\n z",
    "x\n  {%+ if yes %}y{%+ endif %}\nz",
    "x\n  {% if yes +%}\ny{% endif %}\nz",
    "  {{ name }}  ",
    "  {{- name -}}  \n x",
    "a\n  {{- name }}\n  b",
    "a {{+ n }} b",
    "{# comment #}x",
    "a\n  {# comment #}\nb",
    "a {#- c -#} b",
    "a\n{# multi\nline #}\nb",
    "a {#-#} b",
    "{#+ c +#}\nx",
    "{% raw %}{{ not }} {% parsed %}{% endraw %}",
    "{%- raw -%}  {{ x }}  {%- endraw -%} y",
    "a\n  {% raw %}\n  r\n  {% endraw %}\n b",
    "{% raw %}{# keep #}{% endraw %}",
    "{%raw%}a{%endraw%}b",
    "a{% raw %}",
    "a{#",
    "{{ '{{' }} {{ '%}' }} {{ '}}' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {}} }}",
    "{ {{ name }} } { % %",
    "{",
    "a {",
    "{}",
    "{% if no %}a{% elif n == 7 %}b{% else %}c{% endif %}",
    "{% if no %}a{% elif no %}b{% elif no %}c{% else %}d{% endif %}",
    "{% if n > 5: %}x{% endif %}",
    "{% if 1, 2 %}t{% endif %}",
    "{% if missing %}a{% else %}b{% endif %}",
    "{% for i in nums %}{{ i }}{% endfor %}",
    "{% for i in nums %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for i in nums %}{{ loop.previtem|default('-') }}{{ i }}{{ loop.nextitem|default('-') }};{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for i in missing %}x{% else %}none{% endfor %}",
    "{% for i in nums if i > 1 %}{{ i }}/{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{% endfor %}",
    "{% for i in nums if i > 9 %}x{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for c in 'añ🎉' %}[{{ c }}]{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3)), (4, [5, 6])] %}{{ a }}{{ b }}{{ c }};{% endfor %}",
    "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a in [(1, 2), (3, 4)] %}{{ a }}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% for i in nums %}{% set outer = loop %}{% for j in nums %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for i in nums %}{% for j in range(loop.index) %}{{ j }}{% endfor %};{% endfor %}",
    "{% for i in nums %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in [1, 1, 2, 2] %}{{ loop.changed(i) }} {% endfor %}",
    "{% for i in nums %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for i in range(10) %}{% if i == 3 %}{% continue %}{% endif %}{% if i == 6 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in nums %}{% break %}{% else %}else{% endfor %}",
    "{% for i in nums %}{% continue %}{% else %}else{% endfor %}",
    "{% for i in nums %}{% if i == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}end",
    "{% set x = 1 %}{% for i in nums %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% for i in nums %}{{ x }}{% set x = i %}{% endfor %}",
    "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% if no %}{% set name = 2 %}{% endif %}{{ name }}",
    "{% for i in nums %}{% if loop.first %}{% set y = i %}{% endif %}{{ y }}|{% endfor %}",
    "{% set ns = namespace(total=0) %}{% for i in nums %}{% set ns.total = ns.total + i %}{% endfor %}{{ ns.total }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns.a + 1 %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% set ns = namespace(seen=false) %}{% for m in messages if not ns.seen %}{{ m.role }} {% if m.role == 'user' %}{% set ns.seen = true %}{% endif %}{% endfor %}",
    "{% set ns = namespace(k=[]) %}{% for i in nums %}{% set ns.k = ns.k + [i * 2] %}{% endfor %}{{ ns.k }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = 'xy' %}{{ b }}{{ a }}",
    "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}",
    "{% set t = 1, %}{{ t }}",
    "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a + ns.b }}",
    "{% set block %}a {{ name }} b{% endset %}[{{ block }}]",
    "{% set block | upper %}a {{ name }}{% endset %}{{ block }}",
    "{% set block | trim | replace('a', 'x') %}  banana  {% endset %}{{ block }}",
    "{% set x = 5 %}{% set b %}{% set x = 6 %}{{ x }}{% endset %}{{ x }}{{ b }}",
    "{% set ns = namespace() %}{% set ns.t %}in{% endset %}{{ ns.t }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c=4) }} {{ m(b=5, a=6) }}",
    "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{{ varargs|join(',') }}{% for k, v in kwargs|dictsort %}{{ k }}{{ v }}{% endfor %}{% endmacro %}{{ m(1, 2, 3, z=4, y=5) }}",
    "{% macro fact(k) %}{% if k < 2 %}1{% else %}{{ k * fact(k - 1)|int }}{% endif %}{% endmacro %}{{ fact(10) }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m() %}{{ name }}{% endmacro %}{% for name in nums %}{{ m() }}{% endfor %}",
    "{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q is defined }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}",
    "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}{{ m('a')|upper }}{{ m('b') ~ '!' }}",
    "{% macro m() %}x{% endmacro %}{{ m() is string }}{{ m is callable }}{{ m.name }}",
    "{% macro wrap() %}<{{ caller() }}>{% endmacro %}{% call wrap() %}body {{ name }}{% endcall %}",
    "{% macro each(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(i) each(nums) %}({{ i }}){% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% for i in nums %}{% macro m() %}{{ i }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% filter upper %}a {{ name }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}banana{% endfilter %}",
    "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x is defined }}",
    "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}",
    "{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% endwith %}",
    "{% print 1, 'a' %}",
    "{% generation %}text {{ name }}{% endgeneration %}",
    "a\n  {%- generation %}\n  b\n  {%- endgeneration %}\nc",
    "{% generation %}{% set g = 1 %}{% endgeneration %}{{ g is defined }}",
    "{% for m in messages %}{% generation %}{{ m.role }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "{% set it = nums|map('string') %}{{ it|list }}{{ it|list }}",
    "{% set it = nums|select('odd') %}{% for i in it %}{{ i }}{% endfor %}{% for i in it %}{{ i }}{% endfor %}",
    "{% set it = nums|reverse %}{{ it|first }}{{ it|list }}",
    "{% for i in nums|select('odd') %}{{ loop.length }}{{ loop.last }}{% endfor %}",
    "{% for x in nums|sort %}{{ x }}{% endfor %}",
    "{% for x in nums|reverse %}{{ x }}{% endfor %}",
    "{% for x in range(3) if x is odd %}{{ x }}{% endfor %}",
    "{% for u in users if u.admin %}{{ u.name }}{{ loop.index }}{% endfor %}",
    "{% for u in users|selectattr('admin') %}{{ u.name }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{{ 'a' if missing is defined else 'b' }}",
    "{{ missing if missing is defined }}|",
    "{{ caller is defined }}",
    "{% set messages = messages[1:] %}{{ messages|length }}",
    "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}{{ m['role'] }} {% endfor %}",
    "{% if messages[0].role != 'tool' and (messages|length) > 3 %}ok{% endif %}",
    "{{- name -}}\n\n{{- n -}}",
    "{%- for i in nums -%}\n  {{ i }}\n{%- endfor -%}\n",
    "{% for i in nums %}\n{{ i }}\n{% endfor %}\n",
    "    {% for i in nums %}\n    {{ i }}\n    {% endfor %}\n",
    "\t{% if yes %}\n\tx\n\t{% endif %}",
    "a{% if yes %}\n\nb{% endif %}",
    "{{ name }}\n{% if yes %}x{% endif %}",
    "{{ name }}  {% if yes %}x{% endif %}",
    "{% if yes %}  {% if yes %}x{% endif %}{% endif %}",
    "{{ name -}}   {% if yes %}x{% endif %}",
    "\u00a0{% if yes %}x{% endif %}",
    "x\n\u00a0 {% if yes %}y{% endif %}",
    "x\f {%- if yes %}y{% endif %}",
    "{{ 1\n+\n2 }}",
    "{% set x =\n  [1,\n   2] %}{{ x }}",
    "{{ name|default('x') | upper | lower }}",
    "{{ nums[0:2]|join(',') if nums else '' }}",
    "{% set x = 'a' if yes else 'b' %}{{ x }}",
    "{% set x = {'a': [1, {'b': 2}]} %}{{ x.a[1].b }}",
    "{% set f = 'x'.upper %}{{ f() }}",
    "{% set g = d.get %}{{ g('a') }}{{ g('zz', 1) }}",
    "{{ raise_exception is defined }}",
    "{{ range(3)|list + [9] }}",
    "{% set args = [1, 5] %}{{ range(*args)|list }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(**{'a': 1, 'b': 2}) }}{{ m(*[3], **{'b': 4}) }}",
    "{% if yes %}{% if no %}{% else %}{% for i in nums %}{% if i == 1 %}one{% elif i == 2 %}two{% else %}{{ i }}{% endif %}{% endfor %}{% endif %}{% endif %}",
    "{% if no %}{{ 1|nofilter }}{% endif %}ok",
    "{% if no %}{{ 1 is notest }}{% endif %}ok",
    "{{ loop }}{% for loop_ in nums %}{{ loop_ }}{% endfor %}",
    "{% set loop = 5 %}{{ loop }}",
    "{% for m in messages %}{{ m.role }}:{{ m['content'] }}{% if not loop.last %}\n{% endif %}{% endfor %}",
    "{% for a in nums %}{% set ns = namespace(v=a) %}{{ ns.v }}{% endfor %}",
    "{% for i in [1] %}{% set b %}{% for j in [2] %}{{ i }}{{ j }}{% endfor %}{% endset %}{{ b }}{% endfor %}",
    "{{ '%s' % (d|tojson) }}",
    "{{ (messages|last).content }}",
    "{{ messages|map(attribute='content')|list|tojson }}",
    "{{ 'A' ~ 1 + 2 }}" if False else "{{ 'A' ~ (1 + 2) }}",
    "{% for i in range(3) -%}\n  {{ i }},\n{%- endfor %}",
    "{% for key in nested.keys()|list|sort %}{{ key }},{% endfor %}",
    "{% for x in [1, 2, 3] %}{% if loop.index is even %}{{ x }}{% endif %}{% endfor %}",
    "{% for i in nums %}{{ i }}{% if loop.index0 < loop.length - 1 %}-{% endif %}{% endfor %}",
    "{%- set system = messages|selectattr('role', 'equalto', 'system')|map(attribute='content')|first -%}{{ system }}",
    "{% set x %}{% endset %}{{ x == '' }}{{ x is string }}",
    "{{ ''.join(['a', 'b'])|upper }}{# x #}{{ 1 }}",
    "{% set items = d.items() %}{% for k, v in items %}{{ k }}{% endfor %}{% for k, v in items %}{{ v }}{% endfor %}",
    "{% for i, x in [(1, 'a')] %}{{ i }}{{ x }}{% endfor %}",
    "{% macro outer(x) %}{% macro inner(y) %}{{ x }}{{ y }}{% endmacro %}{{ inner(2) }}{% endmacro %}{{ outer(1) }}",
    "{% macro m(a='{}'.format(1)) %}{{ a }}{% endmacro %}{{ m() }}",
    "{{ 'x' if yes and not no else 'y' }}{{ 'z' if n in [7, 8] }}",
    "{% set _ = 1 %}{{ _ }}",
    "{%if yes%}x{%endif%}",
    "{{name}}{{n}}",
    "{{ name }} {{- ' ' -}} {{ n }}",
    "{% set été = 1 %}{{ été }}",
]

# Templates that jinja2 refuses, when it parses or runs them.
FAILING = [
    "{{ 1 / 0 }}",
    "{{ 1 // 0 }}",
    "{{ 1 % 0 }}",
    "{{ 1.0 / 0 }}",
    "{{ 0 ** -1 }}",
    "{{ missing.foo }}",
    "{{ missing['foo'] }}",
    "{{ missing.foo.bar }}",
    "{{ nested.nope.deeper }}",
    "{{ missing() }}",
    "{{ missing + 1 }}",
    "{{ 1 + missing }}",
    "{{ 'a' + missing }}",
    "{{ -missing }}",
    "{{ missing < 1 }}",
    "{{ missing|int }}",
    "{{ missing|float }}",
    "{{ missing|tojson }}",
    "{{ [missing]|tojson }}",
    "{{ missing|abs }}",
    "{{ missing|round }}",
    "{{ missing[1:] }}",
    "{{ 'a' + 1 }}",
    "{{ 1 + 'a' }}",
    "{{ 'a' + none }}",
    "{{ none + 'a' }}",
    "{{ [1] + (2,) }}",
    "{{ [1] + 'a' }}",
    "{{ d + d }}",
    "{{ 'a' - 'b' }}",
    "{{ 'a' * 'b' }}",
    "{{ 'a' * 1.5 }}",
    "{{ -'a' }}",
    "{{ 1 < 'a' }}",
    "{{ none < 1 }}",
    "{{ [1] < ['a'] }}",
    "{{ d < d }}",
    "{{ 1 in 5 }}",
    "{{ 1 in none }}",
    "{{ 1 in 'abc' }}",
    "{{ [1] in d }}",
    "{{ {[1]: 2} }}",
    "{{ d.get([]) }}",
    "{{ none() }}",
    "{{ name() }}",
    "{{ nums.append(1) }}",
    "{{ d.update({'x': 1}) }}",
    "{{ d.pop('a') }}",
    "{{ nums.sort() }}",
    "{{ nums.insert(0, 1) }}",
    "{{ d.clear() }}",
    "{{ nums.__class__.__base__ }}",
    "{{ ''.__class__.__mro__[1] }}",
    "{{ ''.__class__() }}",
    "{{ range.__self__.x }}",
    "{{ name.upper.__self__.x }}",
    "{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ '{x.__class__.x}'.format(x=1) }}",
    "{{ namespace(__class__=1) }}",
    "{% set ns = namespace() %}{% set ns.__x = 1 %}",
    "{% set ns = namespace() %}{{ ns.__dict__.x }}",
    "{% set d.a = 5 %}",
    "{% set missing.a = 5 %}",
    "{{ raise_exception('boom') }}",
    "{% if yes %}{{ raise_exception('no ' ~ name) }}{% endif %}",
    "{{ raise_exception() }}",
    "{{ nothing[1:] }}",
    "{{ d[1:2] }}",
    "{{ nums[::0] }}",
    "{{ nums['a':] }}",
    "{{ range() }}",
    "{{ range('a') }}",
    "{{ range(1, 5, 0) }}",
    "{{ range(100001)|length }}",
    "{{ range(10**9) }}",
    "{{ n|length }}",
    "{{ none|length }}",
    "{{ (nums|map('string'))|length }}",
    "{{ (nums|select('odd'))|last }}",
    "{{ (nums|map('string'))[0].x }}",
    "{{ n|list }}",
    "{{ none|list }}",
    "{{ n|first }}",
    "{{ none|join }}",
    "{{ nums|sort(attribute='a.b') }}" if False else "{{ [1, 'a']|sort }}",
    "{{ [{}, {'a': 1}]|sort }}",
    "{{ name is defined if yes }}",
    "{{ 1 + 1 ~ 1 + 1 }}",
    "{{ users|selectattr('tags.0', 'equalto', 'x')|list }}",
    "{{ .5 }}",
    "{{ n is == 7 }}",
    "{{ nums|dictsort }}",
    "{{ d|dictsort(by='zz') }}",
    "{{ nums|items|list }}",
    "{{ nums|map|list }}",
    "{{ nums|map('nofilter')|list }}",
    "{{ nums|map(attribute='a', foo=1)|list }}",
    "{{ nums|select('notest')|list }}",
    "{{ nums|selectattr|list }}",
    "{{ [nums]|unique|list }}",
    "{{ name|nofilter }}",
    "{{ name is notest }}",
    "{{ name|upper(1) }}",
    "{{ name|replace }}",
    "{{ name|replace('a') }}",
    "{{ name|default(1, 2, 3) }}",
    "{{ name|default(nope=1) }}",
    "{{ 'a'|abs }}",
    "{{ 'a'|round }}",
    "{{ 1.5|round(1, 'up') }}",
    "{{ 5|indent }}",
    "{{ 'inf'|float|int }}",
    "{{ namespace()|tojson }}",
    "{{ range(3)|tojson }}",
    "{{ d.items()|tojson }}",
    "{{ {(1, 2): 3}|tojson }}",
    "{{ {1: 1, 'a': 2}|tojson(sort_keys=true) }}",
    "{{ 'a'.split('') }}",
    "{{ 'a'.split(1) }}",
    "{{ 'a'.replace('a') }}",
    "{{ 'a'.index('z') }}",
    "{{ nums.index(99) }}",
    "{{ 'a'.startswith(1) }}",
    "{{ 'a'.join([1]) }}",
    "{{ 'a'.join(5) }}",
    "{{ 'a'.nomethod() }}",
    "{{ 'a'.upper(1) }}",
    "{{ 'a'.zfill() }}",
    "{{ '%d' % 'a' }}",
    "{{ '%s %s' % 1 }}",
    "{{ '%s' % (1, 2) }}",
    "{{ '%(a)s' % 1 }}",
    "{{ '%(a)s' % {} }}",
    "{{ 'a' % 1 }}",
    "{{ '%y' % 1 }}",
    "{{ '{} {}'.format(1) }}",
    "{{ '{x}'.format(1) }}",
    "{{ '{:d}'.format('a') }}",
    "{{ '{'.format(1) }}",
    "{{ '}'.format(1) }}",
    "{{ 'x' is divisibleby 2 }}",
    "{{ none is odd }}",
    "{{ missing is odd }}",
    "{{ n is divisibleby }}",
    "{{ n is divisibleby 0 }}",
    "{% for a, b in nums %}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for a in n %}{% endfor %}",
    "{% for a in none %}{% endfor %}",
    "{% set a, b = 1 %}",
    "{% set a, b = [1] %}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{% endmacro %}{% call m() %}x{% endcall %}",
    "{% call name %}x{% endcall %}",
    "{% for i in nums %}{% set loop = 1 %}{% endfor %}",
    "{% for loop in nums %}{% endfor %}",
    "{% break %}",
    "{% continue %}",
    "{% for i in nums %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% if yes %}",
    "{% if %}{% endif %}",
    "{% endif %}",
    "{% else %}",
    "{% for %}{% endfor %}",
    "{% for i nums %}{% endfor %}",
    "{% for i in %}{% endfor %}",
    "{% for i in nums %}",
    "{% for i.x in nums %}{% endfor %}",
    "{% set %}",
    "{% set x %}",
    "{% set x = %}",
    "{% set 1 = 2 %}",
    "{% set true = 2 %}",
    "{% set x.y.z = 2 %}",
    "{% set x[0] = 2 %}",
    "{% bogus %}",
    "{% do nums %}",
    "{% macro %}{% endmacro %}",
    "{% macro m %}{% endmacro %}",
    "{% endfor %}",
    "{% raw %}x",
    "{% generation %}",
    "{# open",
    "{{ open",
    "{{ }}",
    "{{ 1 + }}",
    "{{ + }}",
    "{{ (1 }}",
    "{{ 1) }}",
    "{{ [1 }}",
    "{{ [1) }}",
    "{{ {'a' 1} }}",
    "{{ {'a': } }}",
    "{{ 'open }}",
    "{{ a b }}",
    "{{ 1 2 }}",
    "{{ a. }}",
    "{{ a[] }}",
    "{{ a| }}",
    "{{ a is }}",
    "{{ a is odd is even }}" if False else "{{ n is odd is }}",
    "{{ f(a=1, 2) }}",
    "{{ f(**a, b) }}",
    "{{ f(,) }}",
    "{{ a ? b }}",
    "{{ a & b }}",
    "{{ a = b }}",
    "{{ 1 if }}",
    "{{ not }}",
    "{{ x for x in y }}",
    "{{ '\\x4' }}",
    "{{ a := 1 }}",
    "{{ $ }}",
    "{% if yes }}{% endif %}",
    "{{ name %}",
    "{{ dict([1]) }}",
    "{{ dict([(1, 2, 3)]) }}",
    "{{ dict(1) }}",
    "{{ strftime_now() }}",
    "{{ strftime_now(1) }}",
    "{{ nums|batch }}",
    "{{ nums|batch(2)|length }}",
    "{{ nums|sum(start='') }}",
    "{{ words|sum }}",
    "{{ nums|join(',', 1, 2) }}",
    "{% filter nofilter %}{% endfilter %}",
    "{% with x %}{% endwith %}",
    "{{ ''|format(1, a=2) }}",
    "{{ users|map(attribute='tags.0.x')|list }}",
    "{{ users|selectattr('tags.0', 'equalto', 'x')|list and users|map(attribute='nope.x')|list }}",
    "{{ loop.index }}",
    "{{ messages[0]['content']['x'].y }}",
    "{{ messages[10].role }}",
    "{{ messages.role.x }}",
]
