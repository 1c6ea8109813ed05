/* fuzz/text_fuzz.h - what the targets that parse text have in common. */
#ifndef RUBATO_FUZZ_TEXT_FUZZ_H
#define RUBATO_FUZZ_TEXT_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "data/examples.h"

/* Parses the bytes as examples by one and by three threads, which must agree, and checks what
 * rbt_examples promises. The first byte chooses options. */
void rbt_text_fuzz_examples(const uint8_t *bytes, size_t size, enum rbt_format format);

/* The entry point of every target. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
