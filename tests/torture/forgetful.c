/* A disk that forgets: what was never synced does not survive. Loaded with LD_PRELOAD into a collector.

   fsync and fdatasync of a file below $FORGET_ROOT copy its content to $FORGET_SHADOW/content/INODE; fsync of a
   directory writes its names to $FORGET_SHADOW/names/INODE. After a kill -9, the shadow is what a disk that lost
   power would hold: contents as of their last sync, under names as of their directory's last sync. (Stricter than most
   file systems, on purpose.) Copies are made beside and renamed, so a kill in the middle of one does no harm. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int number;

static int below_root(int fd, char *path) {
    char link[64];
    const char *root = getenv("FORGET_ROOT");
    if (!root) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strncmp(path, root, strlen(root)) == 0;
}

static void publish(const char *kind, unsigned long inode, const char *unfinished) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/%lu", getenv("FORGET_SHADOW"), kind, inode);
    rename(unfinished, path);
}

static void remember_content(int fd, unsigned long inode, const char *unfinished) {
    static _Thread_local char buffer[1 << 16];
    int out = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t size;
    off_t at = 0;
    while ((size = pread(fd, buffer, sizeof buffer, at)) > 0) {
        if (write(out, buffer, size) != size) abort();
        at += size;
    }
    close(out);
    publish("content", inode, unfinished);
}

static void remember_names(const char *path, unsigned long inode, const char *unfinished) {
    FILE *out = fopen(unfinished, "w");
    DIR *folder = opendir(path);
    struct dirent *entry;
    while ((entry = readdir(folder))) {
        if (entry->d_name[0] != '.') fprintf(out, "%lu %d %s\n", entry->d_ino, entry->d_type == DT_DIR, entry->d_name);
    }
    closedir(folder);
    fclose(out);
    publish("names", inode, unfinished);
}

static void remember(int fd) {
    char path[PATH_MAX], unfinished[PATH_MAX];
    struct stat about;
    if (!below_root(fd, path) || fstat(fd, &about)) return;
    snprintf(unfinished, sizeof unfinished, "%s/part-%d", getenv("FORGET_SHADOW"), atomic_fetch_add(&number, 1));
    if (S_ISDIR(about.st_mode)) remember_names(path, about.st_ino, unfinished);
    else if (about.st_nlink > 0) {
        int readable = open(path, O_RDONLY);
        if (readable >= 0) {
            remember_content(readable, about.st_ino, unfinished);
            close(readable);
        }
    }
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int result = real(fd);
    if (result == 0) remember(fd);
    return result;
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int result = real(fd);
    if (result == 0) remember(fd);
    return result;
}
