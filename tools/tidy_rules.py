"""The rules of tools/tidy that need nothing but the text of the files.

A rule of FILE_RULES is given one Source and a rule of TREE_RULES all of them; both return or yield
complaints (file, line, rule, text). The text says what is wrong and what to do. C is not parsed:
clang-format sees to it that a function body opens with "{" and ends with "}" in column 1.
"""

import re
from pathlib import Path

COLUMNS = 100
FUNCTION_LINES = 70
FILE_LINES = 800
HEADER_LINES = 300
PARAMETERS = 5
ASSERTIONS_PER_FUNCTION = 2.0


def read_layers():
    """Which folder may include which, from the table in docs/architecture.md; None: all."""
    table = (Path(__file__).parent.parent / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `src/([\w/]+)` \|.*\| ([\w/, -]+) \|$", table, re.M)
    return {folder: None if names == "all" else set(re.findall(r"[\w/]+", names))
            for folder, names in rows}


MAY_INCLUDE = read_layers()

# These run in the simulator, which owns time, memory and threads.
PURE_FOLDERS = {"core", "comm", "wire", "store", "math", "proto"}
PURE_HEADERS = re.compile(r"pthread\.h|threads\.h|time\.h|unistd\.h|poll\.h|sys/.*")
PURE_CALLS = {
    "rand": "use base/rng.h with a seed that is passed in",
    "time": "take the time as an argument",
    "printf": "put what is to be said into the outbox or an error",
    "fprintf": "put what is to be said into the outbox or an error",
    "puts": "put what is to be said into the outbox or an error",
}

HEAP = "use rbt_calloc and rbt_free of base/alloc.h"
HEAP_CALLS = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "strdup", "strndup"}

BANNED = {
    "strcpy": "use snprintf or memcpy with a checked size",
    "strncpy": "use snprintf or memcpy with a checked size",
    "strcat": "use snprintf with a checked size",
    "strncat": "use snprintf with a checked size",
    "sprintf": "use snprintf",
    "vsprintf": "use vsnprintf",
    "gets": "use fgets or getline",
    "atoi": "use strtol and check errno and the end",
    "atol": "use strtol and check errno and the end",
    "atoll": "use strtoll and check errno and the end",
    "atof": "use strtod and check errno and the end",
    "strtok": "use strcspn or strtok_r",
    "rand": "use base/rng.h, which is seeded",
    "srand": "use base/rng.h, which is seeded",
    "random": "use base/rng.h, which is seeded",
    "drand48": "use base/rng.h, which is seeded",
    "gettimeofday": "use rbt_clock_now of base/clock.h",
    "alloca": "use rbt_calloc, or an array of fixed size",
    "tmpnam": "use mkstemp",
    "mktemp": "use mkstemp",
    "localtime": "use localtime_r",
    "gmtime": "use gmtime_r",
}

KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else"}
PLAIN_MAIN = {"main", "LLVMFuzzerTestOneInput", "LLVMFuzzerInitialize"}

# Joined so that this file does not complain about itself.
FORGOTTEN = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(w" + "ork|r" + r"oot|h" + r"ome)/[\w.]+")
REGISTRIES = re.compile(
    r"pypi\." + r"org|pythonhosted\." + r"org|npmjs\." + r"(?:com|org)|crates\." + r"io|"
    r"deb\.debian\." + r"org|archive\.ubuntu\." + r"com|docker\." + r"io|arti" + "factory")

NO_LAYOUT = ("LICENSE",)
TABS_ALLOWED = re.compile(r"(^|/)(Makefile|.*\.mk)$")
LITTER = re.compile(r"\.(o|a|so|pyc|orig|rej|swp|gcda|gcno|profraw)$|~$")


def complain(name, line, rule, text):
    return (name, line, rule, text)


def blank(match):
    """What stands for a comment or a string: as many lines, no words."""
    text = match[0]
    return ('""' if text[0] == '"' else "' '" if text[0] == "'" else " ") + "\n" * text.count("\n")


class Function:
    """One function definition: name, parameters, and where its body starts and ends."""

    def __init__(self, signature, line, start, end, static_words):
        self.signature = " ".join(signature.split())
        plain = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", self.signature)
        found = re.search(r"(\w+)\s*\(", plain)
        self.name = found[1] if found else ""
        self.is_static = not static_words.isdisjoint(re.findall(r"\w+", plain))
        self.line = line  # of the signature
        self.lines = end - start + 1  # from "{" to "}"
        self.end = end  # the line of "}"


class Source:
    """A file, its text, and for C what is left of it without comments and strings."""

    def __init__(self, name, text):
        self.name = name
        self.text = text
        self.lines = text.split("\n")
        self.is_c = name.endswith((".c", ".h"))
        self.is_header = name.endswith(".h")
        self.is_public = name.startswith("include/") and self.is_header
        self.is_test = name.endswith("_test.c") or name.startswith("test/")
        parts = name.split("/")
        is_source = parts[0] == "src" and len(parts) in (3, 4)
        self.folder = parts[1] if is_source else ""
        self.place = "/".join(parts[1:-1]) if is_source else ""
        self.stem = parts[-1].rsplit(".", 1)[0]
        self.code = ""
        if self.is_c:
            self.code = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                               blank, text, flags=re.S)
        self.code_lines = self.code.split("\n")
        self.functions = list(self.find_functions()) if self.is_c else []

    def find_functions(self):
        lines = self.code_lines
        static_words = {"static", *re.findall(r"^#define (\w+)[^\n]*\bstatic\b", self.code, re.M)}
        start = None
        for i, line in enumerate(lines):
            if line == "{":
                start = i
            elif line == "}" and start is not None:
                first = start
                while first > 0 and lines[first - 1].strip() and not re.search(
                        r"[;}]\s*$|^\s*#", lines[first - 1]):
                    first -= 1
                yield Function("\n".join(lines[first:start]), first + 1, start + 1, i + 1,
                               static_words)
                start = None

    def includes(self):
        """(line, header, whether it is in quotes); strings are blanked in `code`, so from text."""
        for i, line in enumerate(self.lines, 1):
            found = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if found:
                yield i, found[2], found[1] == '"'

    def calls(self, names):
        """(line, name) of every call of one of `names`, members of structs excepted."""
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(sorted(names)) + r")\s*\(")
        for i, line in enumerate(self.code_lines, 1):
            if not line.lstrip().startswith("#"):
                for found in pattern.finditer(line):
                    yield i, found[1]

    def allows(self, line, rule):
        wanted = re.compile(r"tidy: allow [a-z, -]*\b" + rule + r"\b")
        nearby = self.lines[:40] if line == 1 else self.lines[max(0, line - 3):line]
        return any(wanted.search(text) for text in nearby)


# --- Layout ---------------------------------------------------------------------------------------


def check_layout(source):
    if source.name in NO_LAYOUT or not source.text:
        return
    is_prose = source.name.endswith((".md", ".txt", ".svg"))
    for i, line in enumerate(source.lines, 1):
        if line != line.rstrip():
            yield complain(source.name, i, "trailing-space",
                           "space at the end of the line; delete it")
        if "\t" in line and not TABS_ALLOWED.search(source.name):
            yield complain(source.name, i, "tab", "a tab; use spaces, or \\t inside a string")
        if len(line) > COLUMNS and not is_prose:
            yield complain(source.name, i, "line-length",
                           f"{len(line)} columns; break the line at {COLUMNS}")
    if not source.text.endswith("\n"):
        yield complain(source.name, len(source.lines), "final-newline",
                       "the last line has no end; add a newline")


def check_length(source):
    if source.is_c or source.name.startswith("tools/"):
        limit = HEADER_LINES if source.is_header else FILE_LINES
        count = source.text.count("\n")
        if count > limit:
            yield complain(source.name, 1, "file-length",
                           f"{count} lines, at most {limit}; a file that grows past it has two "
                           "subjects: split it")
    for function in source.functions:
        if function.lines > FUNCTION_LINES:
            yield complain(source.name, function.line, "function-length",
                           f"{function.name} has {function.lines} lines, at most {FUNCTION_LINES}; "
                           "move a step into a function of its own")


def check_words(source):
    if source.name in NO_LAYOUT:
        return
    for i, line in enumerate(source.lines, 1):
        found = FORGOTTEN.search(line)
        if found and not source.name.endswith(".md"):
            yield complain(source.name, i, "forgotten", f"{found[1]}; do it, or open an issue")
        found = MACHINE_PATHS.search(line)
        if found:
            yield complain(source.name, i, "machine-path",
                           f"{found[0]} exists on one machine only; use a relative path")
        found = REGISTRIES.search(line)
        if found:
            yield complain(source.name, i, "registry",
                           f"{found[0]} is a package registry; let the user's own settings name it")


def check_litter(source):
    if LITTER.search(source.name):
        yield complain(source.name, 1, "litter", "not a source file; delete it: git rm "
                       + source.name)


# --- Heads, guards, names -------------------------------------------------------------------------


def check_head(source):
    if not source.is_c:
        return
    found = re.match(r"/\* (\S+) - \S", source.lines[0])
    path = source.name.removeprefix("src/").removeprefix("include/")
    if not found or not ("/" + source.name).endswith("/" + found[1]) or (
            source.folder and found[1] not in (path, source.name)):
        yield complain(source.name, 1, "head-comment",
                       f"the first line is not the head comment; write: /* {path} - what it is. */")


def check_guard(source):
    if not source.is_header:
        return
    path = source.name.removeprefix("src/").removesuffix(".h")
    parts = re.sub(r"[^a-z0-9/]", "_", path).split("/")
    if source.is_public:
        parts = parts[2:]
    guards = ["RUBATO_" + "_".join(parts[i:]).upper() + "_H" for i in range(len(parts))]
    wanted = guards if not source.name.startswith("src/") else guards[:1]
    found = re.search(r"^#ifndef (\w+)\n#define (\w+)$", source.text, re.M)
    if not found or found[1] != found[2] or found[1] not in wanted:
        yield complain(source.name, 1, "include-guard",
                       f"the include guard is not {wanted[0]}; write #ifndef and #define of it")


def split_parameters(text):
    """The parameters between the outermost parentheses; an array and its count are one."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    parts.append(part.strip())
    joined = []
    for p in parts:
        is_count = re.fullmatch(r"(size_t|uint32_t|uint64_t) \w*(count|size)", p)
        if not (is_count and joined and "*" in joined[-1]):
            joined.append(p)
    return [] if joined in (["void"], [""]) else joined


def inside_parentheses(text, start):
    """What stands between the parenthesis at `start` and the one that closes it."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return text[start + 1:i]
    return text[start + 1:]


def check_parameters(source):
    if not source.is_header:
        return
    for found in re.finditer(r"^(?!typedef)[A-Za-z_][\w \n*]*?\b(rbt_\w+)\(", source.code, re.M):
        parameters = inside_parentheses(source.code, found.end() - 1)
        count = len(split_parameters(" ".join(parameters.split())))
        if count > PARAMETERS:
            line = source.code.count("\n", 0, found.start(1)) + 1
            yield complain(source.name, line, "parameters",
                           f"{found[1]} has {count} parameters, at most {PARAMETERS} (an array and "
                           "its count are one); use an options struct")


# --- Includes and calls ---------------------------------------------------------------------------


def is_inside(place, other):
    """Whether both are one folder of the table of layers, which may have folders of its own."""
    return place == other or (in_table(place) == in_table(other) and
                              not in_table(place).endswith("/NAME"))


def in_table(place):
    """What stands for a folder in the table of layers: itself, its parent's NAME, or its parent."""
    named = re.sub(r"/\w+$", "/NAME", place)
    parent = place.partition("/")[0]
    return place if place in MAY_INCLUDE else named if named in MAY_INCLUDE else parent


def check_includes(source):
    if not source.is_c:
        return
    for i, header, is_quoted in source.includes():
        if header == "assert.h":
            yield complain(source.name, i, "banned",
                           "assert.h vanishes with NDEBUG; use RBT_ASSERT of base/assert.h")
        if source.folder in PURE_FOLDERS and not source.is_test and not is_quoted and \
                PURE_HEADERS.fullmatch(header):
            yield complain(source.name, i, "pure",
                           f"<{header}> in {source.folder}/, which also runs in the simulator; "
                           "leave it to a driver")
        if not is_quoted:
            continue
        other = header.rpartition("/")[0]
        if source.name.startswith(("examples/", "include/")):
            yield complain(source.name, i, "include",
                           f'"{header}" is private; users have <rubato/...> only')
        elif "/" not in header:
            yield complain(source.name, i, "include",
                           f'name the folder: #include "{source.place or "folder"}/{header}"')
        elif source.place and not is_inside(source.place, other):
            allowed = MAY_INCLUDE.get(in_table(source.place), set())
            if allowed is not None and in_table(other) not in allowed:
                yield complain(source.name, i, "include",
                               f"{source.place}/ may include "
                               f"{', '.join(sorted(allowed)) or 'no other folder'}, not {other}/; "
                               "move the code, or pass in what it needs")


def check_calls(source):
    if not source.is_c:
        return
    for i, name in source.calls(BANNED):
        yield complain(source.name, i, "banned", f"{name} is banned; {BANNED[name]}")
    if source.is_test or not source.folder:
        return
    if source.folder in PURE_FOLDERS:
        for i, name in source.calls(PURE_CALLS):
            yield complain(source.name, i, "pure",
                           f"{name} in {source.folder}/, which also runs in the simulator; "
                           + PURE_CALLS[name])
    if source.name != "src/base/alloc.c":
        for i, name in source.calls(HEAP_CALLS):
            yield complain(source.name, i, "heap", f"{name} goes around base/alloc.h; {HEAP}")


# --- Rules about the whole tree -------------------------------------------------------------------


def check_prefix(sources):
    """What a file exports starts with rbt_ and is declared in a header."""
    declared = set()
    for s in sources:
        if s.is_header:
            declared |= set(re.findall(r"\b(rbt_\w+)\s*\(", s.code))
    for s in sources:
        if not s.folder or s.is_header or s.is_test:
            continue
        for f in s.functions:
            if f.is_static or f.name in PLAIN_MAIN or f.name.isupper() or f.name in KEYWORDS:
                continue
            if not f.name.startswith("rbt_"):
                yield complain(s.name, f.line, "prefix",
                               f"{f.name} is visible outside; make it static, or name it "
                               f"rbt_{s.stem}_...")
            elif f.name not in declared:
                yield complain(s.name, f.line, "undeclared",
                               f"{f.name} is in no header; declare it in {s.place}/{s.stem}.h, or "
                               "make it static")


def check_assertions(sources):
    """In the cores every function states what it relies on: two assertions on average."""
    for folder in ("core", "wire", "store"):
        files = [s for s in sources
                 if s.folder == folder and not s.is_header and not s.is_test and s.is_c]
        count = {s.name: len(re.findall(r"\bRBT_(?:DEBUG_)?ASSERT\(|\bRBT_UNREACHABLE\(", s.code))
                 for s in files}
        functions = sum(len(s.functions) for s in files)
        total = sum(count.values())
        if functions == 0 or total / functions >= ASSERTIONS_PER_FUNCTION:
            continue
        worst = min((s for s in files if s.functions),
                    key=lambda s: count[s.name] / len(s.functions))
        yield complain(worst.name, 1, "assertions",
                       f"{folder}/ has {total} assertions in {functions} functions, at least "
                       f"{ASSERTIONS_PER_FUNCTION:.0f} per function; this file has the fewest: "
                       f"{count[worst.name]} in {len(worst.functions)}")


def read_lists(sources):
    """Modules that are named by the list.h of their folder, which the build reads: {folder: stems}.

    An entry is X(NAME), or X(NAME, FILE) where one file has several."""
    return {s.name.rsplit("/", 1)[0]: {found.split(",")[-1].strip() for found in
                                       re.findall(r"^ +X\(([\w, ]+)\)", s.text, re.M)}
            for s in sources if s.name.endswith("/list.h")}


def check_unused(sources):
    """Every .c file is built, every header is included or installed."""
    lists = read_lists(sources)
    build = {s.name.rsplit("/", 1)[0] if "/" in s.name else "": s.text for s in sources
             if s.name.endswith("meson.build")}
    everything = "\n".join(build.values())
    included = {header for s in sources if s.is_c for _, header, _ in s.includes()
                if not s.name.endswith("/" + header)}
    for s in sources:
        if not s.is_c:
            continue
        folder, file = s.name.rsplit("/", 1) if "/" in s.name else ("", s.name)
        text = build.get(folder, "")
        if s.is_public:
            if f"'{file}'" not in text:
                yield complain(s.name, 1, "unused",
                               f"it is not installed; add '{file}' to {folder}/meson.build")
        elif s.is_header:
            ways = (s.name.removeprefix("src/"), s.name, s.name.removeprefix("test/"), file)
            if not any(way in included for way in ways):
                yield complain(s.name, 1, "unused", "nothing includes it; include or delete it")
        else:
            tested = re.search(r"tested = \[(.*?)\]", text, re.S)
            if s.folder and s.is_test and tested:
                text = tested[1]
            short = re.sub(r"^fuzz_|_(test|fuzz)$", "", s.stem)  # as in: name + '_test.c'
            if short in lists.get(folder, ()):
                continue
            is_built = f"'{s.stem}'" in text or (short != s.stem and f"'{short}'" in text)
            if not is_built and not re.search(r"['/]" + re.escape(s.stem) + r"\.c'", everything):
                yield complain(s.name, 1, "unused",
                               f"nothing builds it; add it to {folder}/meson.build")


def check_readmes(sources):
    """A folder has a README, with a row for each module (`name.c`, or `name.h` if that is all).

    Modules that are in the folder's list.h need no row."""
    lists = read_lists(sources)
    names = {s.name for s in sources}
    for name in sorted(names):
        found = re.fullmatch(r"src/([\w/]+)/meson\.build", name)
        if found and f"src/{found[1]}/README.md" not in names:
            yield complain(name, 1, "readme", "the folder has no README.md; say what lives there")
    for readme in sources:
        found = re.fullmatch(r"src/([\w/]+)/README\.md", readme.name)
        if not found:
            continue
        files = {s.name.split("/")[-1] for s in sources
                 if s.place == found[1] and s.is_c and not s.is_test}
        modules = {f for f in files if f.endswith(".c") or f[:-1] + "c" not in files}
        rows = {m[1]: i for i, line in enumerate(readme.lines, 1)
                if (m := re.match(r"\| `(\w+\.[ch])`", line))}
        listed = {stem + ".c" for stem in lists.get(f"src/{found[1]}", ())}
        for name in sorted(modules - listed - rows.keys()):
            yield complain(readme.name, 1, "readme", f"nothing about {name}; add a row for it")
        for name in sorted(rows.keys() - modules):
            yield complain(readme.name, rows[name], "readme",
                           f"there is no module {name}; delete the row")


def check_links(sources):
    """What a document points at is there: links, and paths of sources in backquotes."""
    names = {s.name for s in sources}
    pattern = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)"
                         r"|`((?:src|docs|include|test|tools|examples|bench)/[\w/-]+\.\w+)`")
    for s in sources:
        if not s.name.endswith(".md"):
            continue
        folder = s.name.rsplit("/", 1)[0] + "/" if "/" in s.name else ""
        for i, line in enumerate(s.lines, 1):
            for link, path in pattern.findall(line):
                target = re.sub(r"[^/]+/\.\./", "", folder + link) if link else path
                is_there = target in names or any(n.startswith(target + "/") for n in names)
                if not is_there:
                    yield complain(s.name, i, "link", f"there is no {target}; correct the path")


def check_snippets(sources):
    """A C block below <!-- a file's name --> is that file: documents show what is tested."""
    texts = {s.name: s.text for s in sources}
    for s in sources:
        if s.name.endswith(".md"):
            for found in re.finditer(r"<!-- (\S+\.c) -->\n```c\n(.*?)```", s.text, re.S):
                if texts.get(found[1]) != found[2]:
                    yield complain(s.name, s.text.count("\n", 0, found.start()) + 1, "snippet",
                                   f"the text is not that of {found[1]}; copy the file again")


def find_maxima(source):
    """(line, name, value) of every constant ..._MAX that the file defines."""
    for found in re.finditer(r"^#define (\w+_MAX)[ \t]+(\S.*)$", source.code, re.M):
        yield source.code.count("\n", 0, found.start()) + 1, found[1], "".join(found[2].split())
    for enum in re.finditer(r"\benum\b[^{;]*\{(.*?)\}", source.code, re.S):
        for found in re.finditer(r"\b(\w+_MAX)\s*=\s*([^,}]+)", enum[1]):
            place = enum.start(1) + found.start()
            yield (source.code.count("\n", 0, place) + 1, found[1], "".join(found[2].split()))


def check_limits(sources):
    """A limit is defined once: nothing else is called as in base/limits.h, with its first words or
    without, and no two files define one name with one value."""
    files = [s for s in sources if s.is_c and not s.is_test
             and s.name.startswith(("src/", "include/"))
             and not s.stem.endswith(("_rig", "_fixture"))]
    limits = {name for s in files if s.name == "src/base/limits.h"
              for _, name, _ in find_maxima(s)}
    limits |= {name.removeprefix("RBT_") for name in limits}
    first = {}
    for s in sorted(files, key=lambda s: s.name):
        for line, name, value in find_maxima(s) if s.name != "src/base/limits.h" else ():
            other = first.setdefault((name, value), s.name)
            if name in limits:
                yield complain(s.name, line, "limit",
                               f"{name} is in base/limits.h; include that")
            elif other != s.name:
                yield complain(s.name, line, "limit",
                               f"{name} is {value} in {other}, too; define it once, in "
                               "base/limits.h, or allow it if the two have nothing to do with "
                               "each other")


FILE_RULES = [check_layout, check_length, check_words, check_litter, check_head, check_guard,
              check_parameters, check_includes, check_calls]
TREE_RULES = [check_prefix, check_assertions, check_unused, check_readmes,
              check_links, check_snippets, check_limits]
