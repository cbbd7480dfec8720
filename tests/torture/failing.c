/* A disk whose sync fails: once the file $FAIL_WHEN exists, fdatasync (or, with FAIL_FSYNC set, fsync) of a file
   below $FAIL_ROOT returns EIO. Loaded with LD_PRELOAD into a collector. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int fd) {
    char link[64], path[PATH_MAX];
    const char *root = getenv("FAIL_ROOT"), *when = getenv("FAIL_WHEN");
    if (!root || !when || access(when, F_OK)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strncmp(path, root, strlen(root)) == 0;
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (!fails(fd)) return real(fd);
    errno = EIO;
    return -1;
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (!getenv("FAIL_FSYNC") || !fails(fd)) return real(fd);
    errno = EIO;
    return -1;
}
