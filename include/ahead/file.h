/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - a FILE of stdio over a stream, for parsers that know nothing else.
 *
 *     FILE *f;
 *
 *     if ((st = ahead_open(&s, src, NULL)) || (st = ahead_stdio_open(&f, s)))
 *         return st;
 *     while (getline(&line, &cap, f) >= 0)
 *         use(line);
 *     if (ferror(f))
 *         perror(path);
 *     fclose(f); */
#ifndef AHEAD_FILE_H
#define AHEAD_FILE_H

#include <stdio.h>

#include <ahead/status.h>
#include <ahead/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Make a FILE that reads from `s`, from where it stands.
 *
 * `s` belongs to the FILE from the call on, whatever is returned: on failure it
 * has been closed and *out is NULL.  fclose() closes it, and waits as
 * ahead_close() does; its status becomes EOF and errno.  Until then nothing but
 * ahead_cancel() may be called with `s`, from any thread.
 *
 * getc(), getline(), fscanf(), fread() and kin wait as ahead_read() does.  At
 * AHEAD_EOF they set feof(); any other status sets ferror(), behind the last
 * good byte, and errno:
 *
 *   AHEAD_IO                        os_errno, or EIO
 *   AHEAD_TRUNCATED, AHEAD_CORRUPT  EBADMSG
 *   AHEAD_LIMIT                     EOVERFLOW
 *   AHEAD_UNSUPPORTED               ENOTSUP
 *   AHEAD_NOMEM                     ENOMEM
 *   AHEAD_CANCELLED                 ECANCELED
 *   AHEAD_TIMEDOUT                  ETIMEDOUT: clearerr(), and go on
 *   AHEAD_INVALID                   EINVAL: a child of fork()
 *
 * ftell() always works.  fseek() and rewind() go where ahead_seek() does,
 * SEEK_END where ahead_size() knows the end; elsewhere they fail with ESPIPE
 * and change nothing.  As every FILE it has a small buffer of its own, one copy
 * more than ahead_read(); setvbuf() may make it larger.  It cannot be written
 * to, and fileno() has nothing to say of it.
 *
 * Does not wait.  AHEAD_OK; AHEAD_INVALID: `out` or `s` is NULL; AHEAD_NOMEM.
 * On failure errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status ahead_stdio_open(FILE **out, struct ahead_stream *s);

#ifdef __cplusplus
}
#endif
#endif
