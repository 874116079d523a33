/* LD_PRELOAD: fsync and fdatasync fail with EIO for files below the directory that is written in the file which
 * FSYNC_FAILS_BELOW names, as they do after the kernel could not write pages back. While there is no such file, or
 * nothing in it, all is as ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int descriptor) {
    const char *order = getenv("FSYNC_FAILS_BELOW");
    char directory[4096], link[64], path[4096];
    int file = order == NULL ? -1 : open(order, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, directory, sizeof directory);
    close(file);
    if (length <= 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t path_length = readlink(link, path, sizeof path);
    return path_length >= length && memcmp(path, directory, (size_t)length) == 0;
}

static int call(const char *name, int descriptor) {
    if (fails(descriptor)) {
        errno = EIO;
        return -1;
    }
    int (*original)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return original(descriptor);
}

int fsync(int descriptor) { return call("fsync", descriptor); }

int fdatasync(int descriptor) { return call("fdatasync", descriptor); }
