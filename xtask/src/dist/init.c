/*
 * The first process of a guest that tries what was built for its processor: it makes a system around the root,
 * runs each command, says how it ended, and turns the guest off.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
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

int main(void)
{
    char *const version[] = { "/usr/bin/iopj", "--version", NULL };
    char *const study[] = { "/usr/bin/iopj", "run", "/packages.toml", "--store", "tried.iopj", NULL };
    char *const example[] = { "/read", "libaio/syscall/interrupt", "/data/bytes", "1000", NULL };
    char *const *commands[] = { version, study, example };
    int failed = mount("proc", "/proc", "proc", 0, NULL) != 0 || mount("sys", "/sys", "sysfs", 0, NULL) != 0
        || mount("dev", "/dev", "devtmpfs", 0, NULL) != 0 || mount("data", "/data", "tmpfs", 0, NULL) != 0
        || chdir("/data") != 0 || setenv("HOME", "/tmp", 1) != 0;
    FILE *bytes = failed ? NULL : fopen("bytes", "w");
    for (int i = 0; bytes != NULL && i < 1 << 20; i++)
        fputc(i * 31 >> 8 & 255, bytes);
    failed |= bytes == NULL || fclose(bytes) != 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands && !failed; i++)
        failed = run(commands[i]) != 0;
    printf("guest: %s\n", failed ? "failed" : "all commands ended well");
    fflush(stdout);
    sync();
    return reboot(RB_POWER_OFF);
}
