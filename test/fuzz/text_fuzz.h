/* fuzz/text_fuzz.h - what the targets that parse text have in common. */
#ifndef RUBATO_FUZZ_TEXT_FUZZ_H
#define RUBATO_FUZZ_TEXT_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "data/examples.h"

/* Parses the bytes as examples by one and by three threads, which must agree, and checks what
 * rbt_examples promises. The first byte chooses options. */
void rbt_text_fuzz_examples(const uint8_t *bytes, size_t size, enum rbt_format format);

/* The bytes as a string, up to the first zero, in a block whose end a sanitizer guards. The caller
 * frees it. */
char *rbt_text_fuzz_string(const uint8_t *bytes, size_t size);

/* The bytes as a file without a name: its descriptor, and a path by which it can be opened. */
enum { RBT_TEXT_FUZZ_PATH = 64 };
int rbt_text_fuzz_file(const uint8_t *bytes, size_t size, char path[RBT_TEXT_FUZZ_PATH]);

/* The entry point of every target. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
