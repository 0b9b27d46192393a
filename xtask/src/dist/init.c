/*
 * The first process of a guest that tries what was built for its processor: it makes a system around the
 * root, with a disk, runs each command, says how it ended, and turns the guest off.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(char *const words[])
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        execv(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return status;
}

/* Loads the driver of the disk, and waits until the disk is there, ten seconds at most. */
static int disk(void)
{
    struct stat found;
    int driver = open("/virtio_blk.ko", O_RDONLY | O_CLOEXEC);
    if (driver < 0 || syscall(SYS_finit_module, driver, "", 0) != 0)
        return -1;
    for (int tries = 0; tries < 100; tries++) {
        if (stat("/dev/vda", &found) == 0)
            return 0;
        usleep(100000);
    }
    return -1;
}

int main(void)
{
    char *const version[] = { "/usr/bin/iopj", "--version", NULL };
    char *const study[] = { "/usr/bin/iopj", "run", "/packages.toml", "--target", "/dev/vda", NULL };
    char *const example[] = { "/read", "libaio/syscall/interrupt", "/dev/vda", "1000", NULL };
    char *const *commands[] = { version, study, example };
    int failed = mount("proc", "/proc", "proc", 0, NULL) != 0 || mount("sys", "/sys", "sysfs", 0, NULL) != 0
        || mount("dev", "/dev", "devtmpfs", 0, NULL) != 0 || mount("data", "/data", "tmpfs", 0, NULL) != 0
        || chdir("/data") != 0 || setenv("HOME", "/tmp", 1) != 0 || disk() != 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands && !failed; i++)
        failed = run(commands[i]) != 0;
    printf("guest: %s\n", failed ? "failed" : "all commands ended well");
    fflush(stdout);
    sync();
    return reboot(RB_POWER_OFF);
}
