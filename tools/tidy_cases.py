"""Snippets for tools/tidy --self-test: a small good tree, and for each rule what it must catch.

A case is (rule, files); the files are added to the good tree, and the rule must fire on one of
them. "no RULE" means that it must not. Words that tidy looks for everywhere are put together here
from pieces.
"""


def module(folder, name, body="", includes=""):
    """A well-formed source file."""
    return (f'/* {folder}/{name}.c - an example. */\n#include "{folder}/{name}.h"\n{includes}'
            f"\nint rbt_{name}_one(int x)\n{{\n{body}    return x;\n}}\n")


def header(folder, name, more=""):
    guard = f"RUBATO_{folder}_{name}_H".upper()
    return (f"/* {folder}/{name}.h - an example. */\n#ifndef {guard}\n#define {guard}\n\n"
            f"int rbt_{name}_one(int x);\n{more}\n#endif\n")


TWO = "    RBT_ASSERT(x > 0);\n    RBT_ASSERT(x < 9);\n"
ASSERT = '\n#include "base/assert.h"\n'
BASE = "modules = ['assert', 'plain']\ntested = []\n"
CORE = "modules = ['gate']\ntested = ['gate']\n"
PUBLIC = ("/* rubato/thing.h - an example. */\n#ifndef RUBATO_THING_H\n#define RUBATO_THING_H\n\n"
          "{}\n\n#endif\n")

GOOD = {
    ".clang-format": "BasedOnStyle: LLVM\nIndentWidth: 4\nColumnLimit: 100\n"
                     "BreakBeforeBraces: Linux\nAllowShortFunctionsOnASingleLine: None\n",
    "meson.build": "subdir('src/base')\nsubdir('src/core')\n",
    "src/base/meson.build": BASE,
    "src/base/assert.c": module("base", "assert"),
    "src/base/assert.h": header("base", "assert", "#define RBT_ASSERT(x) (void)(x)\n"),
    "src/base/plain.c": module("base", "plain"),
    "src/base/plain.h": header("base", "plain"),
    "src/base/README.md": "| `assert.c` | assertions |\n| `plain.c` | an example |\n",
    "src/core/meson.build": CORE,
    "src/core/README.md": "| `gate.c` | waits |\n",
    "src/core/gate.c": module("core", "gate", TWO, ASSERT),
    "src/core/gate.h": header("core", "gate"),
    "src/core/gate_test.c": '/* core/gate_test.c - its test. */\n#include "core/gate.h"\n\n'
                            "int main(void)\n{\n    return rbt_gate_one(1);\n}\n",
    "include/rubato/meson.build": "install_headers('thing.h')\n",
    "include/rubato/thing.h": PUBLIC.format("int rbt_thing(int x);"),
}

PLAIN = "src/base/plain.c"
GATE = "src/core/gate.c"


def plain(body="", includes=""):
    return {PLAIN: module("base", "plain", body, includes)}


def plain_h(more):
    return {"src/base/plain.h": header("base", "plain", more)}


def gate(body="", includes=ASSERT):
    return {GATE: module("core", "gate", TWO + body, includes)}


def algorithm(name, includes):
    return {f"src/algo/{name}/{name}.c": module(f"algo/{name}", name, "", includes)}


SIX = "int a, int b, int c, int d, int e, int f"

CASES = [
    ("format", plain("  x   =  x ;\n")),
    ("header-alone", plain_h("size_t rbt_plain_size(void);\n")),
    ("header-alone", {"include/rubato/thing.h": PUBLIC.format("int rbt_thing(int class);")}),
    ("spelling", plain("    /* rec" + "ieve */\n")),
    ("trailing-space", plain("    x++; \n")),
    ("tab", plain("\tx++;\n")),
    ("line-length", plain("    x = " + "1 + " * 30 + "1;\n")),
    ("no line-length", plain("    /* tidy: allow line-length, because " + "a" * 90 + " */\n")),
    ("final-newline", {PLAIN: module("base", "plain").rstrip("\n")}),
    ("file-length", plain() | {PLAIN: module("base", "plain") + "/* more */\n" * 800}),
    ("file-length", plain_h("/* more */\n" * 300)),
    ("function-length", plain("    x++;\n" * 70)),
    ("no function-length", plain("    x++;\n" * 67)),
    ("forgotten", plain("    /* TO" + "DO: finish */\n")),
    ("forgotten", plain("    /* FIX" + "ME */\n")),
    ("machine-path", {"docs/a.md": "See /ho" + "me/someone/file.\n"}),
    ("registry", {"tools/get": "pip install -i https://py" + "pi.org/simple x\n"}),
    ("litter", {"plain.o": "x\n"}),
    ("head-comment", {PLAIN: module("base", "plain").split("\n", 1)[1]}),
    ("head-comment", {PLAIN: module("base", "plain").replace("base/plain.c -", "base/other.c -")}),
    ("include-guard", {"src/base/plain.h": header("base", "plain").replace("RUBATO_", "RBT_")}),
    ("parameters", plain_h(f"void rbt_plain_six({SIX});\n")),
    ("parameters", plain_h("void rbt_plain_six(int a, int b, int c,\n"
                           "                   int d, int e, int f);\n")),
    ("no parameters", plain_h("void rbt_plain_five(int a, int b, int c, int d, char *bytes, "
                              "size_t size);\n")),
    ("include", plain(includes='#include "core/gate.h"\n')),
    ("include", plain(includes='#include "assert.h"\n')),
    ("include", {"examples/hello.c": "/* hello.c - an example. */\n#include \"base/plain.h\"\n"}),
    ("include", algorithm("mf", '#include "algo/fm/fm.h"\n')),
    ("include", {"src/algo/frame/plain.c": module("algo/frame", "plain", "",
                                                  '#include "algo/mf/mf.h"\n')}),
    ("no include", algorithm("mf", '#include "algo/frame/model.h"\n#include "base/plain.h"\n')),
    ("banned", plain(includes="#include <assert.h>\n")),
    ("banned", plain("    strcpy(a, b);\n")),
    ("banned", plain("    x = atoi(b);\n")),
    ("no banned", plain("    x = s->rand(b); /* atoi() is banned */\n")),
    ("pure", gate(includes=ASSERT + "\n#include <pthread.h>\n")),
    ("pure", gate(includes=ASSERT + "\n#include <sys/mman.h>\n")),
    ("pure", gate('    printf("hello");\n')),
    ("no pure", plain('    printf("hello");\n', "\n#include <unistd.h>\n")),
    ("heap", gate("    free(x);\n")),
    ("no heap", gate("    free(x); /* tidy: allow heap, because getline() made it */\n")),
    ("prefix", {PLAIN: module("base", "plain").replace("rbt_plain_one", "plain_one")}),
    ("undeclared", {PLAIN: module("base", "plain").replace("rbt_plain_one", "rbt_plain_two")}),
    ("no prefix", {PLAIN: module("base", "plain").replace("int rbt_plain_one", "static int one")}),
    ("no prefix", {PLAIN: module("base", "plain").replace(
        "int rbt_plain_one", "#define INLINE static inline\nINLINE int one")}),
    ("assertions", {GATE: module("core", "gate")}),
    ("snippet", {"docs/a.md": "<!-- src/core/gate.c -->\n```c\nint x;\n```\n"}),
    ("no snippet", {"docs/a.md": f"<!-- {PLAIN} -->\n```c\n{GOOD[PLAIN]}```\n"}),
    ("link", {"docs/a.md": "See [b](b.md).\n"}),
    ("link", {"docs/a.md": "See `src/core/other.c`.\n"}),
    ("no link", {"docs/a.md": "See [c](../src/core/gate.c), `src/core/gate.h`.\n"}),
    ("readme", {"src/base/README.md": "| `assert.c` | assertions |\n"}),
    ("readme", {"src/core/README.md": "| `gate.c` | waits |\n| `other.c` | is not there |\n"}),
    ("readme", {"src/net/meson.build": "modules = []\n"}),
    ("readme", {"src/net/inner/meson.build": "modules = []\n"}),
    ("include", {"src/base/inner/x.c": '/* base/inner/x.c - an example. */\n'
                                       '#include "core/gate.h"\n'}),
    ("no readme", {"src/core/README.md": "| `gate.c` | waits |\n"}),
    ("unused", {"src/base/extra.c": module("base", "extra").replace("extra.h", "plain.h")}),
    ("unused", {"src/base/extra.h": header("base", "extra")}),
    ("unused", {"src/base/plain_test.c": "/* base/plain_test.c - a test. */\nint main(void)\n{\n"
                                         "    return 0;\n}\n"}),
    ("unused", {"include/rubato/extra.h": PUBLIC.format("").replace("thing", "extra")}),
]
