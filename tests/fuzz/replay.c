/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - a fuzz target over files that are at hand, without a fuzzer: each as it is, and each
 * small one in 32 ways.
 *
 * usage: fuzz_x_replay SUFFIX FOLDER...
 *
 * A target aborts on what must not be.  The last line is "N passed, 0 failed". */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 300 * 1000, SMALL_BYTES = 8 * 1024, WAYS = 32, AS_IT_IS = -1 };

/* In memory of exactly its size, so that a sanitizer sees what is read behind it. */
static void replay(const uint8_t *bytes, size_t len, int how)
{
    size_t size = len + (how != AS_IT_IS);
    uint8_t *input = malloc(size ? size : 1);

    MUST(input);
    memcpy(input, bytes, len);
    if (how != AS_IT_IS)
        input[len] = (uint8_t)how;
    LLVMFuzzerTestOneInput(input, size);
    free(input);
}

/* Whether the file is small enough. */
static int replay_file(const char *path)
{
    static uint8_t bytes[MOST_BYTES + 1];
    FILE *in = fopen(path, "rb");
    size_t len;

    MUST(in);
    len = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    if (len > MOST_BYTES)
        return 0;
    for (int how = AS_IT_IS; how < (len > SMALL_BYTES ? 0 : WAYS); how++)
        replay(bytes, len, how);
    return 1;
}

static int ends_with(const char *name, const char *suffix)
{
    size_t len = strlen(name), n = strlen(suffix);

    return len > n && !strcmp(name + len - n, suffix);
}

/* How many files of the folder were replayed. */
static int replay_folder(const char *folder, const char *suffix)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[4096];
    int replayed = 0;

    MUST(dir);
    while ((entry = readdir(dir))) {
        if (!ends_with(entry->d_name, suffix))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        replayed += replay_file(path);
    }
    closedir(dir);
    return replayed;
}

int main(int argc, char **argv)
{
    int passed = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: %s SUFFIX FOLDER...\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        passed += replay_folder(argv[i], argv[1]);
    printf("%d passed, %d failed\n", passed, passed == 0);
    return passed == 0;
}
