/* fuzz/replay.c - runs a fuzz target on stored inputs: every file of the folder that is given.
 *
 * This makes every input that once found a mistake a test, without a fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { INPUT_SIZE_MAX = 1 << 20 };

static uint8_t bytes[INPUT_SIZE_MAX];

/* Returns whether the file could be read. */
static int replay(const char *folder, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name); /* too long: cannot be opened */
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 0;
    }
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);                           /* it was only read */
    uint8_t *exact = malloc(size > 0 ? size : 1); /* so that sanitizers see reads behind the end */
    if (exact == NULL) {
        return 0;
    }
    memcpy(exact, bytes, size);
    (void)LLVMFuzzerTestOneInput(exact, size); /* always 0; what is wrong aborts */
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    DIR *directory = argc == 2 ? opendir(argv[1]) : NULL;
    if (directory == NULL) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int count = 0;
    int is_well = 1;
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        if (entry->d_name[0] != '.') {
            is_well &= replay(argv[1], entry->d_name);
            count++;
        }
    }
    (void)closedir(directory); /* it was only read */
    printf("%d inputs\n", count);
    return is_well && count > 0 ? 0 : 1;
}
