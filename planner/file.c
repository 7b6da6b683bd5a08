/* Files: POSIX calls, because a failure must say why and leave nothing behind. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16, READ_MOST = 1 << 30, TEMPORARY_NAMES = 100, MESSAGE_BYTES = 512 };

/* ---- Text ---- */

void rp_text_append(rp_text *text, const char *piece, size_t bytes) {
    size_t needed = 0;
    if (text->failed)
        return;
    if (__builtin_add_overflow(text->count, bytes, &needed) ||
        !rp_reserve(text->context, &text->data, &text->capacity, needed, 1)) {
        text->failed = true;
        return;
    }
    if (bytes > 0)
        memcpy(text->data + text->count, piece, bytes);
    text->count = needed;
}

void rp_text_format(rp_text *text, const char *format, ...) {
    char piece[256]; /* numbers and short words only; names go through rp_text_append */
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (bytes < 0 || (size_t)bytes >= sizeof piece)
        text->failed = true;
    else
        rp_text_append(text, piece, (size_t)bytes);
}

/* The bytes of the character that begins here, or 0 if it is not UTF-8 (RFC 3629: no surrogates,
 * no longer forms than needed, nothing above U+10FFFF). The text ends with a 0, which is no
 * continuation byte. */
static size_t character_bytes(const unsigned char *c) {
    if (c[0] < 0x80)
        return 1;
    if (c[0] < 0xc2 || c[0] > 0xf4)
        return 0;
    const size_t bytes = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    const unsigned char low = c[0] == 0xe0 ? 0xa0 : c[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = c[0] == 0xed ? 0x9f : c[0] == 0xf4 ? 0x8f : 0xbf;
    if (c[1] < low || c[1] > high)
        return 0;
    for (size_t i = 2; i < bytes; i++)
        if (c[i] < 0x80 || c[i] > 0xbf)
            return 0;
    return bytes;
}

void rp_text_quote(rp_text *text, const char *string) {
    const unsigned char *c = (const unsigned char *)string;
    rp_text_append(text, "\"", 1);
    while (*c != 0) {
        const size_t bytes = character_bytes(c);
        if (bytes == 0)
            rp_text_append(text, "\xef\xbf\xbd", 3);
        else if (*c == '"' || *c == '\\')
            rp_text_format(text, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            rp_text_format(text, "\\u%04x", *c);
        else
            rp_text_append(text, (const char *)c, bytes);
        c += bytes > 0 ? bytes : 1;
    }
    rp_text_append(text, "\"", 1);
}

void rp_text_clear(rp_text *text) {
    rp_free(text->context, text->data);
    *text = (rp_text){.context = text->context};
}

/* ---- Files ---- */

static rp_status fail_io(rp_context *context, const char *path, const char *what, int reason) {
    return rp_fail(context, RP_IO_ERROR, "%.300s: cannot be %s: %s", path, what, strerror(reason));
}

static rp_status fail_long(rp_context *context, const char *path) {
    return rp_fail(context, RP_BAD_INPUT, "%.300s: longer than %d bytes, the most that is read",
                   path, (int)READ_MOST);
}

static ssize_t read_some(int file, char *data, size_t bytes) {
    ssize_t got = 0;
    do
        got = read(file, data, bytes);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Devices are refused, since some have no end. */
static rp_status check_kind(rp_context *context, const char *path, int file) {
    struct stat info;
    if (fstat(file, &info) != 0)
        return fail_io(context, path, "read", errno);
    if (S_ISDIR(info.st_mode))
        return fail_io(context, path, "read", EISDIR);
    if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
        return rp_fail(context, RP_IO_ERROR, "%.300s: cannot be read: a file or a pipe is expected",
                       path);
    return info.st_size <= READ_MOST ? RP_OK : fail_long(context, path);
}

static rp_status read_all(rp_context *context, const char *path, int file, rp_text *text) {
    rp_status status = RP_OK;
    while (status == RP_OK) {
        size_t needed = 0;
        if (__builtin_add_overflow(text->count, (size_t)READ_BYTES, &needed) ||
            !rp_reserve(context, &text->data, &text->capacity, needed, 1))
            return rp_fail_memory(context, "a file");
        const ssize_t got = read_some(file, text->data + text->count, READ_BYTES);
        if (got < 0)
            return fail_io(context, path, "read", errno);
        if (got == 0)
            return RP_OK;
        text->count += (size_t)got;
        if (text->count > READ_MOST)
            status = fail_long(context, path);
    }
    return status;
}

rp_status rp_file_read(rp_context *context, const char *path, rp_text *text) {
    *text = (rp_text){.context = context};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail_io(context, path, "opened", errno);
    rp_status status = check_kind(context, path, file);
    if (status == RP_OK)
        status = read_all(context, path, file, text);
    close(file);
    if (status != RP_OK)
        rp_text_clear(text);
    return status;
}

static int write_all(int file, const char *data, size_t bytes) {
    while (bytes > 0) {
        const ssize_t put = write(file, data, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        data += put;
        bytes -= (size_t)put;
    }
    return 0;
}

/* A new file beside `path`. Another process or thread may be writing the same path: O_EXCL gives
 * each its own. */
static int open_temporary(const char *path, char *name, size_t name_bytes) {
    int file = -1;
    for (int i = 0; i < TEMPORARY_NAMES && file < 0; i++) {
        snprintf(name, name_bytes, "%s.%ld.%d.tmp", path, (long)getpid(), i);
        file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST)
            break;
    }
    return file;
}

static rp_status write_directly(rp_context *context, const char *path, const rp_text *text) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    int reason = file < 0 ? errno : write_all(file, text->data, text->count);
    if (file >= 0 && close(file) != 0 && reason == 0)
        reason = errno;
    return reason == 0 ? RP_OK : fail_io(context, path, "written", reason);
}

rp_status rp_file_replace(rp_context *context, const char *path, const rp_text *text) {
    if (text->failed)
        return rp_fail_memory(context, "the text of a file");
    struct stat found;
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode))
        return write_directly(context, path, text);
    const size_t name_bytes = strlen(path) + 64;
    char *name = rp_alloc(context, name_bytes, 1);
    if (name == NULL)
        return rp_fail_memory(context, "a file name");
    int reason = 0;
    const int file = open_temporary(path, name, name_bytes);
    if (file < 0) {
        reason = errno;
    } else {
        reason = write_all(file, text->data, text->count);
        if (close(file) != 0 && reason == 0)
            reason = errno;
        if (reason == 0 && rename(name, path) != 0)
            reason = errno;
        if (reason != 0)
            unlink(name);
    }
    rp_free(context, name);
    return reason == 0 ? RP_OK : fail_io(context, path, "written", reason);
}

rp_status rp_fail_in_file(rp_context *context, rp_status status, const char *path) {
    char message[MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", rp_context_message(context));
    return rp_fail(context, status, "%.200s: %s", path, message);
}
