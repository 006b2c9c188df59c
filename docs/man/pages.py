#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# pages.py - the manual pages of section 3, made from the public headers: what a function does is
# said once, where its prototype is, and a page cannot fall behind it.
#
# usage: pages.py HEADER DATE TITLE WHAT_IT_IS SEE_ALSO... > PAGE
#        pages.py --names HEADER                                  the functions that it is about
#
# A header is comments and what they stand in front of.  Its first comment is the description; an
# example in that, indented, goes to the end.  `name` is an argument or a piece of code, name() a
# function, name(2) one of the system, AHEAD_NAME a constant.  Lines of two columns are a list.
import re
import sys
import textwrap

FUNCTION = re.compile(
    r'(?:(?:AHEAD_API|AHEAD_INLINE|AHEAD_NODISCARD)\s+)+([\w\s]+?[\s*]+)(\w+)\(([^{;]*?)\)\s*[;{]')
FAMILY = re.compile(r'AHEAD_INLINE(?: AHEAD_NODISCARD)?\s+([\w# ]+?[ *]+)([\w#]+)\(([^{;]*?)\)\s*\{')
# What a family of functions does, in place of how a macro makes it.
FAMILIES = {
    'AHEAD_DEFINE_LOAD_': 'Load a number at any alignment, stored in the byte order of the name.',
    'AHEAD_DEFINE_READ_':
        'Read a value, from a stream or from a cursor: u, an unsigned, or i, a signed integer, or f, '
        'a floating point number of so many bits, with its high byte first (be) or its low one (le).',
    'AHEAD_DEFINE_WRITE_':
        'Write a value: u, an unsigned, or i, a signed integer, or f, a floating point number of so '
        'many bits, with its high byte first (be) or its low one (le).',
}


class Function:
    def __init__(self, result, name, arguments):
        self.result = ' '.join(result.split())
        self.name = name
        self.arguments = [' '.join(a.split()) for a in arguments.split(',')]


# ---- reading a header ----

def comment_text(comment):
    """The lines of a comment, without its frame."""
    lines = comment.strip()[2:-2].split('\n')
    lines = [re.sub(r'^ \* ?', '', line).rstrip() for line in lines]
    lines[0] = lines[0].strip()
    while lines and not lines[-1]:
        lines.pop()
    return lines


def joined(text):
    """A definition of several lines as one."""
    return re.sub(r'\s*\\\n\s*', ' ', text)


def macros(source):
    """What defines functions by the dozen: name -> (parameters, body)."""
    found = {}
    for m in re.finditer(r'^#define (AHEAD_DEFINE_\w+)\(([^)]*)\)(.*)$', joined(source), re.M):
        found[m[1]] = ([p.strip() for p in m[2].split(',')], m[3])
    return found


def expand(macro, arguments):
    """The functions that one line gives."""
    parameters, body = macro
    for parameter, argument in zip(parameters, arguments):
        body = re.sub(r'\b%s\b' % parameter, argument, body)
    body = re.sub(r'##', '', re.sub(r'\s*##\s*', '##', body))
    return [Function(*m.groups()) for m in FAMILY.finditer(body + ' {')]


def without_bodies(source):
    """Function bodies are nobody's business here."""
    return re.sub(r'\)\n\{\n.*?\n\}\n', ');\n', source, flags=re.S)


def items(source):
    """Pairs of a comment's lines, and the code up to the next comment at the margin."""
    parts = re.split(r'^(/\*.*?\*/)$', source, flags=re.M | re.S)
    for comment, code in zip(parts[1::2], parts[2::2]):
        yield comment_text(comment), code.strip('\n')


# ---- writing mdoc ----

class Page:
    def __init__(self):
        self.lines = []
        self.words = []

    def flush(self):
        for line in textwrap.wrap(' '.join(self.words), 78, break_long_words=False,
                                  break_on_hyphens=False):
            self.lines.append('\\&' + line if line[0] in ".'" else line)
        self.words = []

    def macro(self, line):
        self.flush()
        self.lines.append(line)

    def literal(self, lines, indent='indent'):
        self.macro('.Bd -literal' + (' -offset ' + indent if indent else ''))
        for line in lines:
            line = line.replace('\\', '\\e')
            self.lines.append('\\&' + line if line[:1] in ".'" and line else line)
        self.macro('.Ed')

    def word(self, word):
        """A word of text, which may be a name with punctuation around it."""
        m = re.match(r'^([("\[]*)(.*?)([)\].,;:!?"]*)$', word)
        before, core, after = m.groups()
        call = re.match(r'^(\w+)\($', core)
        if call and after.startswith(')'):
            macro, after = '.Fn ' + call[1], after[1:]
        elif re.match(r'^(\w+)\(\d$', core) and after.startswith(')'):
            macro, after = '.Xr ' + core.replace('(', ' '), after[1:]
        elif re.match(r'^AHEAD_[A-Z0-9_]+$', core):
            macro = '.Dv ' + core
        elif core == 'errno':
            macro = '.Va errno'
        elif re.match(r'^\*\w+$', core):
            macro = '.Fa ' + core
        elif re.match(r'^`[^`]+`$', core):
            macro = ('.Fa ' if re.match(r'^\w+$', core[1:-1]) else '.Ql ') + core[1:-1]
        else:
            self.words.append(word.replace('\\', '\\e').replace('`', ''))
            if re.match(r'.*[.!?:]\)?$', word):
                self.flush()
            return
        parts = macro.split(' ', 1)
        self.macro(' '.join([parts[0]] + list(before) + [parts[1]] + list(after)))

    def paragraph(self, text):
        # Code between backticks stays in one piece.
        text = re.sub(r'`[^`]*`', lambda m: m[0].replace(' ', '\0'), text)
        for word in text.split():
            self.word(word.replace('\0', ' '))
        self.flush()

    def prose(self, lines, indent='indent'):
        """Paragraphs, lists of two columns, and what is drawn or typed."""
        first = True
        for block in '\n'.join(lines).split('\n\n'):
            if not block.strip():
                continue
            rows = block.split('\n')
            if rows[0].startswith('    '):
                self.literal([row[4:] if row.startswith('    ') else row for row in rows])
            elif rows[0].startswith('  '):
                self.two_columns(rows)
            else:
                if not first:
                    self.macro('.Pp')
                self.paragraph(block)
            first = False

    def two_columns(self, rows):
        entries = []
        for row in rows:
            m = re.match(r'^  \s?(\S.*?)  +(\S.*)$', row)
            if m:
                entries.append([m[1], m[2]])
            elif re.match(r'^  \s?\S', row):
                entries.append([row.strip(), ''])
            else:
                entries[-1][1] += ' ' + row.strip()
        self.macro('.Bl -tag -width Ds')
        for label, text in entries:
            names = re.findall(r'AHEAD_\w+', label)
            self.macro('.It ' + (' , '.join('Dv ' + n for n in names) if names else label))
            self.paragraph(text)
        self.macro('.El')


def synopsis(page, function):
    page.macro('.Ft "%s"' % function.result)
    page.macro('.Fo ' + function.name)
    for argument in function.arguments:
        page.macro('.Fa "%s"' % argument)
    page.macro('.Fc')


class Header:
    """What a page is made of: the first comment, an example, and items in their order."""

    def __init__(self, path):
        source = open(path, encoding='utf-8').read()
        families = macros(source)
        source = without_bodies(source)
        self.items = []
        for number, (comment, code) in enumerate(items(source)):
            if number == 0:
                continue # the licence
            if number == 1:
                self.take_first(comment)
                continue
            self.take(comment, code, families)

    def take_first(self, comment):
        self.title = re.sub(r'^\S+ - ', '', comment[0])
        blocks = '\n'.join(comment[1:]).strip('\n').split('\n\n')
        if not comment[0].endswith('.'): # the sentence goes on
            first, *blocks = '\n'.join(comment).split('\n\n')
            self.title = re.sub(r'^\S+ - ', '', first.replace('\n', ' '))
        self.intro, self.example = [], []
        for block in filter(str.strip, blocks):
            in_place = not block.startswith('    ') or self.intro and self.intro[-1].endswith(':')
            (self.intro if in_place else self.example).append(block)

    def take(self, comment, code, families):
        definition = re.match(r'#define (AHEAD_DEFINE_\w+)', code)
        if definition and definition[1] in FAMILIES:
            comment = [FAMILIES[definition[1]]]
        functions = [Function(*m.groups()) for m in FUNCTION.finditer(
            re.sub(r'^#define.*?[^\\]$', '', code, flags=re.M | re.S))]
        for m in re.finditer(r'^(AHEAD_DEFINE_\w+)\(([^)]*)\)$', code, re.M):
            functions += expand(families[m[1]], [a.strip() for a in m[2].split(',')])
        objects = re.findall(r'^AHEAD_API extern (.*?) ?(\w+);', code, re.M)
        types = re.findall(r'^(?:(?:struct \w+|enum(?: \w+)?) \{(?:[^\n]*|.*?^)\};|typedef .*?;)', code,
                           re.M | re.S)
        section = re.match(r'^---- (.*) ----$', comment[0])
        if section:
            self.items.append(('section', section[1], comment[1:]))
        if types or functions or objects:
            self.items.append(('item', comment if not section else [], types, functions, objects))

    def functions(self):
        for item in self.items:
            if item[0] == 'item':
                yield from item[3]

    def objects(self):
        for item in self.items:
            if item[0] == 'item':
                yield from item[4]

    def names(self):
        return [f.name for f in self.functions()] + [name for _, name in self.objects()]


def main():
    if sys.argv[1] == '--names':
        print('\n'.join(Header(sys.argv[2]).names()))
        return
    path, date, title, what, *also = sys.argv[1:]
    header = Header(path)
    page = Page()
    names = header.names()

    page.macro('.\\" SPDX-License-Identifier: Apache-2.0')
    page.macro('.\\" Made by docs/man/pages.py from %s.' % re.sub(r'^.*/(?=include/)', '', path))
    page.macro('.Dd ' + date)
    page.macro('.Dt %s 3' % title.upper())
    page.macro('.Os')
    page.macro('.Sh NAME')
    for name in names:
        page.macro('.Nm %s%s' % (name, ' ,' if name != names[-1] else ''))
    page.macro('.Nd ' + what)
    page.macro('.Sh LIBRARY')
    page.macro('libahead, by')
    page.macro('.Ql pkg-config --cflags --libs ahead')
    page.macro('.Sh SYNOPSIS')
    page.macro('.In ' + re.sub(r'^(.*/)?include/', '', path))
    for function in header.functions():
        synopsis(page, function)
    for kind, name in header.objects():
        page.macro('.Vt "%s"' % ('extern ' + kind + ' ' + name))
        page.macro(';')
    page.macro('.Sh DESCRIPTION')
    page.paragraph(header.title[:1].upper() + header.title[1:])
    if header.intro:
        page.macro('.Pp')
        page.prose('\n\n'.join(header.intro).split('\n'))
    for item in header.items:
        if item[0] == 'section':
            page.macro('.Ss ' + item[1][:1].upper() + item[1][1:])
            page.prose(item[2])
            continue
        _, comment, types, functions, objects = item
        if functions or objects:
            page.macro('.Bl -tag -width Ds')
            names = [f.name for f in functions]
            if len(names) > 1:
                page.macro('.It Xo')
                for name in names[:-1]:
                    page.macro('.Fn %s ,' % name)
                page.macro('.Fn ' + names[-1])
                page.macro('.Xc')
            else:
                page.macro('.It ' + ('Fn ' + names[0] if names else 'Va ' + objects[0][1]))
            page.prose(comment)
            page.macro('.El')
        if types:
            if comment and not functions:
                if not page.lines[-1].startswith('.Ss'):
                    page.macro('.Pp')
                page.prose(comment)
            for code in types:
                page.literal(code.split('\n'))
    if header.example:
        page.macro('.Sh EXAMPLES')
        for block in header.example:
            page.literal([row[4:] for row in block.split('\n')])
    page.macro('.Sh SEE ALSO')
    for n, name in enumerate(sorted(also)):
        page.macro('.Xr %s 3%s' % (name, ' ,' if n < len(also) - 1 else ''))
    page.flush()
    print('\n'.join(line for line in page.lines))


main()
