/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_setuid.c - a set-user-ID program ignores the environment of the user who runs it, and obeys its own
 * exs_init_config. The program is a copy of this one, owned by the user "nobody" and run by root. Without the
 * set-user-ID bit the same copy obeys every variable.
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check/support/support.h"
#include "core/base/settings.h"

#define AS_PROGRAM "--as-program" /* the copy's only argument */
#define SAYS_MAX 4096

static const struct passwd *nobody;

/* ---- The program ------------------------------------------------------------------------------------ */

/* Prints one line: the user ID, the result of exs_init_config, and the settings. */
static int program(void)
{
    exs_config_t config = EXS_CONFIG_INIT;

    config.exs_link = "tcp"; /* which the environment does not set */
    config.exs_spin_us = 3;  /* which it does */
    int answer = exs_init_config(EXS_VERSION, &config), error = errno;
    const struct settings *taken = settings();

    printf("uid %d secure %d init %d device '%s' debug %d immediate %d check %d %d shm %d spin %u\n",
           (int)geteuid(), getauxval(AT_SECURE) != 0, answer < 0 ? error : 0, taken->device, taken->debug,
           taken->immediate, taken->check, taken->check_aborts, taken->shm, taken->spin_us);
    fflush(stdout);
    _exit(0); /* a sanitizer cannot search for leaks in a program that may not be traced */
}

/* ---- Running it ------------------------------------------------------------------------------------- */

static const char *folder(void)
{
    const char *named = getenv("TMPDIR");

    return named != NULL ? named : "/tmp";
}

/* Makes a copy of this program that "nobody" owns. */
static void make_program(char path[], mode_t mode)
{
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = mkostemp(path, O_CLOEXEC);
    struct stat file;

    must(from);
    must(to);
    must(fstat(from, &file));
    for (off_t left = file.st_size; left > 0;) {
        ssize_t sent = sendfile(to, from, NULL, (size_t)left);

        ck_assert_int_gt(sent, 0);
        left -= sent;
    }
    must(fchown(to, nobody->pw_uid, nobody->pw_gid)); /* first, because it clears the set-user-ID bit */
    must(fchmod(to, mode));
    close(from);
    close(to);
}

/* Returns the output of a program with this mode, in an environment that sets every variable. */
static void run(mode_t mode, char says[SAYS_MAX])
{
    static char *const environment[] = {"EXS_DEVICE=no-such-device", "EXS_DEBUG=1", "EXS_IMMEDIATE=0",
                                        "EXS_CHECK=abort",           "EXS_SPIN=8",  NULL};
    char path[256];
    int ends[2], status;
    size_t length = 0;
    ssize_t got;

    snprintf(path, sizeof(path), "%s/exs-setuid-XXXXXX", folder());
    make_program(path, mode);
    must(pipe2(ends, O_CLOEXEC));
    pid_t pid = fork();

    must(pid);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execle(path, path, AS_PROGRAM, NULL, environment);
        _exit(127);
    }
    close(ends[1]);
    while (length < SAYS_MAX - 1 && (got = read(ends[0], says + length, SAYS_MAX - 1 - length)) > 0)
        length += (size_t)got;
    says[length] = 0;
    close(ends[0]);
    must(waitpid(pid, &status, 0));
    must(unlink(path));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program ends with status %#x: %s",
                  (unsigned)status, says);
}

START_TEST(environment_of_a_setuid_program)
{
    char says[SAYS_MAX], line[256];

    run(S_ISUID | 0755, says);
    snprintf(line, sizeof(line),
             "uid %d secure 1 init 0 device '' debug 0 immediate 1 check 0 0 shm 0 spin 3\n",
             (int)nobody->pw_uid);
    ck_assert_str_eq(says, line); /* and no log lines */
}
END_TEST

START_TEST(environment_of_any_other_program)
{
    char says[SAYS_MAX], line[256];

    run(0755, says);
    snprintf(line, sizeof(line),
             "uid %d secure 0 init %d device 'no-such-device' debug 1 immediate 0 check 1 1 shm 0 spin 8\n",
             (int)geteuid(), ENODEV);
    ck_assert_msg(strstr(says, line) != NULL, "it says: %s", says);
    ck_assert_msg(strstr(says, "EXS_DEVICE=no-such-device is not a device") != NULL, "no log: %s", says);
}
END_TEST

int main(int argc, char **argv)
{
    struct statvfs where;

    if (argc == 2 && strcmp(argv[1], AS_PROGRAM) == 0)
        return program();
    nobody = getpwnam("nobody");
    if (geteuid() != 0 || nobody == NULL || statvfs(folder(), &where) != 0 ||
        where.f_flag & (ST_NOSUID | ST_NOEXEC)) {
        fprintf(stderr,
                "no program of another user's can be run here: be root, with a user nobody, and a TMPDIR that "
                "is not mounted nosuid or noexec\n");
        return 77;
    }
    Suite *suite = suite_create("setuid");
    TCase *programs = add_bare_case(suite, "programs", 20);

    tcase_add_test(programs, environment_of_a_setuid_program);
    tcase_add_test(programs, environment_of_any_other_program);
    return run_suite(suite);
}
