/*
 * Starts a program in a sandbox of chroot, a separate user id, Landlock and seccomp. It needs no namespaces, so it
 * works in unprivileged containers. It needs root, or the file capabilities sys_chroot, setuid and setgid.
 *
 *   launcher check
 *     Prints "landlock <ABI> capable <0|1>".
 *   launcher run root=DIR uid=N seccomp=FILE cwd=DIR nofile=N nproc=N fsize=BYTES tmp-bytes=N tmp-inodes=N \
 *       [forks=1] [parent=PID] [tcp-connect=PORT] [nice=N] exec=FILE... -- PROGRAM ARGUMENT...
 *     Runs PROGRAM (a path below root) with the environment and the descriptors 0 to 3 of the launcher. Only DIR/tmp is
 *     writable, only the files of exec= are executable, and TCP connections are allowed to PORT only, at any address.
 *     nice=N: priority of PROGRAM, which the caller cannot lower without root.
 *     parent=PID: refuses to start if this process, its parent, has ended.
 *     forks=1: the seccomp filter lets the program start processes, so deleted files of all processes of the user count
 *     for the size of /tmp. The filter has to refuse setsid and setpgid, since the process group is killed when the
 *     program ends. With or without forks=1, it has to refuse SIGCONT, since the program is stopped while /tmp is
 *     measured, O_TMPFILE, since a directory does not show that such a file was created in it, and threads with
 *     descriptors or a working directory of their own, since those of one thread are measured.
 *   launcher clean root=DIR uid=N
 *     Empties DIR/tmp as user N.
 *   launcher end uid=N
 *     Kills all processes of user N.
 *
 * The launcher remains as parent of the program, outside of the sandbox: it limits the size of /tmp, forwards SIGTERM
 * (as SIGKILL), SIGTSTP (as SIGSTOP) and SIGCONT, empties /tmp after the end of the program, and exits with the status
 * of the program, or with 122 if /tmp exceeded its limit or has more than 256 levels of directories. Each ends when its
 * parent ends. The caller signals the launcher, since without root it must not signal the program, which has another
 * user.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 121, EXIT_TMP_LIMIT = 122 };
/* Signals that are queued until a thread takes them: memory of the kernel, by default for 0.03 % of the machine's. */
enum { MAX_QUEUED_SIGNALS = 256 };
/* Levels of directories in /tmp. Each one that is read takes a descriptor and 32 KB of memory. */
enum { MAX_TMP_DEPTH = 256 };
enum { MAX_EXECUTABLES = 8, MAX_FILTER = 4096, MAX_DESCENTS = 1000000, MAX_STOP_TRIES = 20, FRAMES_FD = 3 };
#define SECOND_NS 1000000000LL
#define TMP_INTERVAL_NS 100000000LL /* 0.1 s */
#define STOP_INTERVAL_NS 200000LL   /* 0.2 ms */
#define RESOLUTION_NS 1500000000LL  /* more than the resolution of the times of files */
#define MIN_USER_ID 1000u

/* Landlock, ABI 6. Headers of older distributions lack parts of it. */
#define SYS_LANDLOCK_CREATE_RULESET 444
#define SYS_LANDLOCK_ADD_RULE 445
#define SYS_LANDLOCK_RESTRICT_SELF 446
#define SYS_CLOSE_RANGE 436
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT 2
#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_REMOVE_DIR (1ULL << 4)
#define FS_REMOVE_FILE (1ULL << 5)
#define FS_MAKE_DIR (1ULL << 7)
#define FS_MAKE_REG (1ULL << 8)
#define FS_MAKE_SOCK (1ULL << 9)
#define FS_MAKE_FIFO (1ULL << 10)
#define FS_MAKE_SYM (1ULL << 12)
#define FS_REFER (1ULL << 13)
#define FS_TRUNCATE (1ULL << 14)
#define FS_ALL ((1ULL << 16) - 1)
#define NET_CONNECT_TCP (1ULL << 1)
#define NET_TCP 3ULL /* bind and connect */
#define SCOPE_ALL 3ULL /* abstract unix sockets and signals */

struct ruleset_attr {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};

struct path_beneath_attr {
  uint64_t allowed_access;
  int32_t parent_fd;
} __attribute__((packed));

struct net_port_attr {
  uint64_t allowed_access;
  uint64_t port;
};

struct options {
  const char *root, *seccomp, *cwd;
  const char *executables[MAX_EXECUTABLES];
  int executable_count;
  uid_t uid;
  unsigned long long nofile, nproc, fsize, tmp_bytes, tmp_inodes, forks, parent, tcp_connect, nice;
  char **program;
};

static void fail(const char *what) {
  dprintf(2, "launcher: %s: %s\n", what, strerror(errno));
  _exit(EXIT_FAILED);
}

static void refuse(const char *why, const char *what) {
  dprintf(2, "launcher: %s%s\n", why, what);
  _exit(EXIT_FAILED);
}

static unsigned long long number(const char *text) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *text == '-') refuse("not a number: ", text);
  return value;
}

/* ---- Start ---------------------------------------------------------------------------------------------------- */

static struct options parse(int argc, char **argv) {
  struct options options = {0};
  int at = 2;
  for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
    char *value = strchr(argv[at], '=');
    if (!value) refuse("not an option: ", argv[at]);
    *value++ = '\0';
    const char *name = argv[at];
    if (!strcmp(name, "root")) options.root = value;
    else if (!strcmp(name, "seccomp")) options.seccomp = value;
    else if (!strcmp(name, "cwd")) options.cwd = value;
    else if (!strcmp(name, "uid")) {
      unsigned long long uid = number(value);
      /* For the kernel, the highest id means "unchanged"; low ids belong to the system. */
      if (uid < MIN_USER_ID || uid >= UINT32_MAX) refuse("not a user id for a sandbox: ", value);
      options.uid = (uid_t)uid;
    } else if (!strcmp(name, "nofile")) options.nofile = number(value);
    else if (!strcmp(name, "nproc")) options.nproc = number(value);
    else if (!strcmp(name, "fsize")) options.fsize = number(value);
    else if (!strcmp(name, "tmp-bytes")) options.tmp_bytes = number(value);
    else if (!strcmp(name, "tmp-inodes")) options.tmp_inodes = number(value);
    else if (!strcmp(name, "forks")) options.forks = number(value);
    else if (!strcmp(name, "parent")) options.parent = number(value);
    else if (!strcmp(name, "nice")) options.nice = number(value);
    else if (!strcmp(name, "tcp-connect")) {
      options.tcp_connect = number(value);
      if (options.tcp_connect == 0 || options.tcp_connect > UINT16_MAX) refuse("not a port: ", value);
    } else if (!strcmp(name, "exec")) {
      if (options.executable_count == MAX_EXECUTABLES) refuse("too many of exec=", "");
      options.executables[options.executable_count++] = value;
    } else refuse("unknown option: ", name);
  }
  options.program = at + 1 < argc ? &argv[at + 1] : NULL;
  if (!options.uid) refuse("missing option: ", "uid=");
  return options;
}

static struct sock_fprog read_filter(const char *path) {
  static struct sock_filter filter[MAX_FILTER];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = file < 0 ? -1 : read(file, filter, sizeof(filter));
  if (size < 0) fail(path);
  if (size == 0 || size % (ssize_t)sizeof(filter[0]) != 0 || size == (ssize_t)sizeof(filter))
    refuse("not a seccomp filter: ", path);
  close(file);
  return (struct sock_fprog){.len = (unsigned short)(size / (ssize_t)sizeof(filter[0])), .filter = filter};
}

static void allow(int ruleset, const char *path, uint64_t access) {
  struct path_beneath_attr rule = {.allowed_access = access};
  rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0) fail(path);
  if (syscall(SYS_LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0)) fail("landlock_add_rule");
  close(rule.parent_fd);
}

/* To be called in the new root. */
static int create_ruleset(const struct options *options) {
  struct ruleset_attr attr = {.handled_access_fs = FS_ALL, .handled_access_net = NET_TCP, .scoped = SCOPE_ALL};
  int ruleset = (int)syscall(SYS_LANDLOCK_CREATE_RULESET, &attr, sizeof(attr), 0);
  if (ruleset < 0) fail("landlock_create_ruleset (Linux 6.12 or newer with Landlock is needed)");
  allow(ruleset, "/", FS_READ_FILE | FS_READ_DIR);
  allow(ruleset, "/tmp",
        FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR |
            FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER);
  for (int at = 0; at < options->executable_count; at++)
    allow(ruleset, options->executables[at], FS_READ_FILE | FS_EXECUTE);
  struct net_port_attr gateway = {.allowed_access = NET_CONNECT_TCP, .port = options->tcp_connect};
  if (options->tcp_connect && syscall(SYS_LANDLOCK_ADD_RULE, ruleset, RULE_NET_PORT, &gateway, 0))
    fail("landlock_add_rule");
  return ruleset;
}

static void limit(int resource, rlim_t value) {
  struct rlimit both;
  if (getrlimit(resource, &both)) fail("getrlimit");
  /* A lower hard limit cannot be raised. */
  if (both.rlim_max > value) both.rlim_max = value;
  both.rlim_cur = both.rlim_max;
  if (setrlimit(resource, &both)) fail("setrlimit");
}

static void drop_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct none[2] = {{0}};
  if (syscall(SYS_capset, &header, none)) fail("capset");
}

static void enter_root(const char *root) {
  if (chroot(root) || chdir("/")) fail("chroot");
}

static void become(uid_t real, uid_t uid) {
  if (setgroups(0, NULL)) fail("setgroups");
  if (setresgid(uid, uid, uid)) fail("setresgid");
  if (setresuid(real, uid, uid)) fail("setresuid");
  drop_capabilities();
}

/* Sends this process the signal when its parent ends; exits if the parent has ended. */
static void die_with(pid_t parent, int sent) {
  if (prctl(PR_SET_PDEATHSIG, sent, 0, 0, 0)) fail("prctl(PR_SET_PDEATHSIG)");
  if (getppid() != parent) _exit(EXIT_FAILED);
}

static void run_program(const struct options *options, struct sock_fprog *filter, int ruleset, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  become(options->uid, options->uid);
  die_with(parent, SIGKILL);
  /* A process group of its own, in the session of the launcher, whose priority the platform has lowered. */
  if (setpgid(0, 0)) fail("setpgid");
  limit(RLIMIT_NOFILE, options->nofile);
  limit(RLIMIT_NPROC, options->nproc);
  limit(RLIMIT_FSIZE, options->fsize);
  /* With 0, a kernel that pipes core dumps into a program would start that program. */
  limit(RLIMIT_CORE, 1);
  limit(RLIMIT_SIGPENDING, MAX_QUEUED_SIGNALS);
  if (options->cwd && chdir(options->cwd)) fail(options->cwd);
  if (sigprocmask(SIG_SETMASK, &none, NULL)) fail("sigprocmask");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("prctl(PR_SET_NO_NEW_PRIVS)");
  if (syscall(SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)) fail("landlock_restrict_self");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter, 0, 0)) fail("prctl(PR_SET_SECCOMP)");
  execve(options->program[0], options->program, environ);
  fail(options->program[0]);
}

static int64_t nanoseconds(clockid_t clock) {
  struct timespec time;
  return clock_gettime(clock, &time) ? -1 : (int64_t)time.tv_sec * SECOND_NS + time.tv_nsec;
}

/* ---- The processes of the program ----------------------------------------------------------------------------- */

struct processes {
  pid_t program;
  /* Directory of the program in /proc; or /proc itself, for all processes of the user. */
  int directory;
  /* 0: the program starts no processes. */
  uid_t uid;
};

typedef void (*visitor_function)(void *context, int process, pid_t pid);

/* Calls the visitor with the directory in /proc of each process. */
static void visit(const struct processes *processes, visitor_function visitor, void *context) {
  if (!processes->uid) {
    visitor(context, processes->directory, processes->program);
    return;
  }
  int table = openat(processes->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = table < 0 ? NULL : fdopendir(table);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    struct stat info;
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (pid <= 0 || pid == getpid()) continue;
    if (fstatat(dirfd(directory), entry->d_name, &info, 0) || info.st_uid != processes->uid) continue;
    int process = openat(dirfd(directory), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process < 0) continue;
    visitor(context, process, pid);
    close(process);
  }
  if (directory) closedir(directory);
}

/* Whether a thread is stopped, or has ended. */
static int is_stopped(int threads, const char *thread) {
  char path[32], text[512];
  snprintf(path, sizeof(path), "%.16s/stat", thread);
  int file = openat(threads, path, O_RDONLY | O_CLOEXEC);
  ssize_t size = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
  if (file >= 0) close(file);
  if (size < 0) return 1;
  text[size] = '\0';
  /* The name of the thread, in parentheses, may contain any character. */
  const char *name_end = strrchr(text, ')');
  return name_end && name_end[1] && strchr("TtZX", name_end[2]) != NULL;
}

/*
 * Sends SIGSTOP to the threads of a process that are not stopped, and counts them. To each thread, since the kernel
 * leaves a signal for the process to one thread, which may be in a call that cannot be interrupted.
 */
static void stop_threads(void *running, int process, pid_t pid) {
  int table = openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = table < 0 ? NULL : fdopendir(table);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    if (*entry->d_name == '.' || is_stopped(dirfd(directory), entry->d_name)) continue;
    ++*(unsigned *)running;
    syscall(SYS_tgkill, pid, (pid_t)strtol(entry->d_name, NULL, 10), SIGSTOP);
  }
  if (directory) closedir(directory);
}

/*
 * Stops the program, and returns whether it was running. A thread in a call that cannot be interrupted may complete
 * this call later, so the time is limited.
 */
static int stop(const struct processes *processes) {
  const struct timespec interval = {.tv_nsec = STOP_INTERVAL_NS};
  int was_running = 0;
  for (int tries = 0; tries < MAX_STOP_TRIES; tries++) {
    unsigned running = 0;
    visit(processes, stop_threads, &running);
    if (running == 0) break;
    was_running = 1;
    nanosleep(&interval, NULL);
  }
  return was_running;
}

/* ---- The size of /tmp ----------------------------------------------------------------------------------------- */

struct usage {
  unsigned long long bytes, inodes;
};

/*
 * Measures the working directory. Stops above the limit of inodes, so that it always ends. Returns false if it cannot
 * read a directory, or has more than the given levels below it.
 */
static int measure(struct usage *usage, unsigned long long max_inodes, int levels) {
  DIR *directory = opendir(".");
  if (!directory) return 0;
  int ok = 1;
  for (struct dirent *entry; ok && usage->inodes <= max_inodes && (entry = readdir(directory));) {
    struct stat info;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW)) continue;
    usage->inodes++;
    /* The size of a file is divided by its number of links. */
    usage->bytes += (unsigned long long)info.st_blocks * 512 / (S_ISDIR(info.st_mode) ? 1 : info.st_nlink);
    if (!S_ISDIR(info.st_mode)) continue;
    if (levels == 0) {
      ok = 0;
      continue;
    }
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int below = openat(dirfd(directory), entry->d_name, flags);
    /* The owner of an unreadable directory may make it readable. */
    if (below < 0 && errno == EACCES && !fchmodat(dirfd(directory), entry->d_name, 0700, 0))
      below = openat(dirfd(directory), entry->d_name, flags);
    if (below < 0) {
      ok = errno != EMFILE && errno != EACCES;
      continue;
    }
    ok = !fchdir(below) && measure(usage, max_inodes, levels - 1);
    close(below);
  }
  closedir(directory);
  return ok;
}

/* Whether it has no name any more. A directory keeps the blocks that the names of its files took. */
static int is_unnamed(const struct stat *info) {
  return (S_ISREG(info->st_mode) || S_ISDIR(info->st_mode)) && info->st_nlink == 0;
}

/* Counts what this name refers to if it has no name itself. */
static void add_unnamed(struct usage *usage, int directory, const char *name) {
  struct stat info;
  if (fstatat(directory, name, &info, 0) || !is_unnamed(&info)) return;
  usage->inodes++;
  usage->bytes += (unsigned long long)info.st_blocks * 512;
}

/*
 * Measures deleted files that a thread has open or mapped, and deleted directories that it has open or works in.
 * Returns false if the thread has ended: it then has no mappings.
 */
static int measure_thread(struct usage *usage, int threads, const char *thread) {
  int self = openat(threads, thread, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (self < 0) return 0;
  int has_mappings = 0;
  add_unnamed(usage, self, "cwd");
  int table = openat(self, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = table < 0 ? NULL : fdopendir(table);
  for (struct dirent *entry; directory && (entry = readdir(directory));)
    add_unnamed(usage, dirfd(directory), entry->d_name);
  if (directory) closedir(directory);

  int maps = openat(self, "maps", O_RDONLY | O_CLOEXEC);
  FILE *lines = maps < 0 ? NULL : fdopen(maps, "r");
  char *line = NULL;
  size_t capacity = 0;
  while (lines && getline(&line, &capacity, lines) > 0) {
    unsigned long long from, to;
    has_mappings = 1;
    if (strstr(line, " (deleted)") && sscanf(line, "%llx-%llx", &from, &to) == 2) usage->bytes += to - from;
  }
  free(line);
  if (lines) fclose(lines);
  close(self);
  return has_mappings;
}

/* Measures one thread, since all share their files. The main thread may have ended before others. */
static void measure_unnamed(void *context, int process, pid_t pid) {
  (void)pid;
  int table = openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = table < 0 ? NULL : fdopendir(table);
  for (struct dirent *entry; directory && (entry = readdir(directory));)
    if (*entry->d_name != '.' && measure_thread(context, dirfd(directory), entry->d_name)) break;
  if (directory) closedir(directory);
}

/* Returns false if /tmp is too deep, or cannot be read. */
static int measure_all(struct usage *usage, const struct options *options, const struct processes *processes) {
  if (chdir("/tmp") || !measure(usage, options->tmp_inodes, MAX_TMP_DEPTH)) return 0;
  visit(processes, measure_unnamed, usage);
  return 1;
}

/*
 * The time of the last change of /tmp, which the program cannot set; -1 if it was just now, so that a further change
 * might have the same time.
 */
static int64_t tmp_changed(void) {
  struct stat info;
  if (stat("/tmp", &info)) return -1;
  int64_t changed = (int64_t)info.st_ctim.tv_sec * SECOND_NS + info.st_ctim.tv_nsec;
  return nanoseconds(CLOCK_REALTIME) - changed > RESOLUTION_NS ? changed : -1;
}

/* Empties the working directory, which no other process changes. Descends by chdir, so that depth is not limited. */
static void empty(void) {
  unsigned depth = 0;
  for (int descents = 0; descents < MAX_DESCENTS; descents++) {
    int went_down = 0;
    DIR *directory = opendir(".");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
      if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
      if (!unlinkat(dirfd(directory), entry->d_name, 0)) continue;
      if (!unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR)) continue;
      if (errno != ENOTEMPTY) continue;
      fchmodat(dirfd(directory), entry->d_name, 0700, 0);
      if (chdir(entry->d_name)) continue;
      went_down = 1;
      break;
    }
    if (directory) closedir(directory);
    if (went_down) depth++;
    else if (depth == 0) return;
    else {
      depth--;
      if (chdir("..")) return;
    }
  }
}

/* As empty, for the temporary directory, whose owner, the user of the program, may have changed its permissions. */
static void empty_tmp(void) {
  chmod("/tmp", 0700);
  if (!chdir("/tmp")) empty();
}

/* ---- The parent of the program -------------------------------------------------------------------------------- */

static void add_processor_time(void *sum, int process, pid_t pid) {
  clockid_t clock;
  (void)process;
  if (!clock_getcpuclockid(pid, &clock)) *(int64_t *)sum += nanoseconds(clock);
}

/* Waits for a signal until this time. Returns -1 if none came. */
static int wait_for_signal(const sigset_t *signals, int64_t until) {
  int64_t left = until - nanoseconds(CLOCK_MONOTONIC);
  if (left < 0) left = 0;
  const struct timespec time = {.tv_sec = left / SECOND_NS, .tv_nsec = left % SECOND_NS};
  return sigtimedwait(signals, NULL, &time);
}

/* Signals the process group of the program, or the program if it has not created the group yet. */
static void signal_group(pid_t program, int sent) {
  if (kill(-program, sent)) kill(program, sent);
}

/* Whether the program has ended. If so, its descendants have been killed, too. */
static int has_ended(pid_t program, int *status) {
  siginfo_t info = {0};
  /* WNOWAIT: its id, which is also that of its group, is not reused until `wait`. */
  if (waitid(P_PID, (id_t)program, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != program) return 0;
  signal_group(program, SIGKILL);
  for (int other;;) {
    pid_t ended = wait(&other);
    if (ended == program) *status = other;
    if (ended < 0 && errno != EINTR) return 1;
  }
}

static void supervise(const struct options *options, const sigset_t *signals, const struct processes *processes) {
  const pid_t program = processes->program;
  int frozen = 0, too_large = 0, status = 0;
  int64_t measured = -1, unused_since = -1, due = nanoseconds(CLOCK_MONOTONIC) + TMP_INTERVAL_NS;
  for (;;) {
    int sent = frozen ? sigwaitinfo(signals, NULL) : wait_for_signal(signals, due);
    int64_t now = nanoseconds(CLOCK_MONOTONIC), used = 0;
    if (sent == SIGTERM) signal_group(program, SIGKILL);
    if (sent == SIGTSTP) frozen = !kill(program, SIGSTOP);
    if (sent == SIGCONT) {
      frozen = kill(program, SIGCONT) != 0;
      due = now + TMP_INTERVAL_NS;
    }
    if (has_ended(program, &status)) break;
    /* A program that is frozen is measured once more: it may have written much since the last time. */
    if (sent != SIGTSTP && (frozen || now < due)) continue;
    due = now + TMP_INTERVAL_NS;
    visit(processes, add_processor_time, &used);
    if (used == measured || (unused_since >= 0 && tmp_changed() == unused_since)) continue;
    measured = used;
    /* While the program runs, it could move files out of directories that are not read yet. */
    struct usage usage = {0};
    int was_running = stop(processes);
    int readable = measure_all(&usage, options, processes);
    unused_since = readable && usage.inodes == 0 && usage.bytes == 0 ? tmp_changed() : -1;
    if (!readable || usage.bytes > options->tmp_bytes || usage.inodes > options->tmp_inodes) {
      too_large = 1;
      signal_group(program, SIGKILL);
    } else if (was_running && !frozen) signal_group(program, SIGCONT);
    /* It runs for at least twice as long as it was stopped. */
    int64_t after = nanoseconds(CLOCK_MONOTONIC);
    if (after + 2 * (after - now) > due) due = after + 2 * (after - now);
  }
  /* Removing many files takes time: a separate process removes them, so that the caller sees the end immediately. */
  if (too_large && fork() > 0) _exit(EXIT_TMP_LIMIT);
  empty_tmp();
  if (too_large) _exit(EXIT_TMP_LIMIT);
  if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
  sigset_t none;
  sigemptyset(&none);
  limit(RLIMIT_CORE, 1);
  signal(WTERMSIG(status), SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  raise(WTERMSIG(status));
  _exit(EXIT_FAILED);
}

static void run(int argc, char **argv) {
  pid_t caller = getppid();
  uid_t own = getuid();
  sigset_t signals;
  syscall(SYS_CLOSE_RANGE, FRAMES_FD + 1, ~0U, 0);
  struct options options = parse(argc, argv);
  if (!options.root || !options.seccomp || !options.program || !options.nofile || !options.nproc || !options.fsize)
    refuse("missing option: ", "root=, seccomp=, nofile=, nproc=, fsize= or a program");
  if (options.parent && (pid_t)options.parent != caller) refuse("the process that started it has ended", "");
  if (options.nice && setpriority(PRIO_PROCESS, 0, (int)options.nice)) fail("setpriority");
  struct sock_fprog filter = read_filter(options.seccomp);
  int all = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (all < 0) fail("/proc");
  /* Descriptors 0 to 3 are closed below; the caller may not have passed all of them. */
  if (all <= FRAMES_FD) {
    int above = fcntl(all, F_DUPFD_CLOEXEC, FRAMES_FD + 1);
    if (above < 0) fail("fcntl(F_DUPFD_CLOEXEC)");
    close(all);
    all = above;
  }
  enter_root(options.root);
  int ruleset = create_ruleset(&options);

  sigemptyset(&signals);
  for (const int *one = (const int[]){SIGTERM, SIGTSTP, SIGCONT, SIGCHLD, SIGHUP, SIGINT, 0}; *one; one++)
    sigaddset(&signals, *one);
  if (sigprocmask(SIG_BLOCK, &signals, NULL)) fail("sigprocmask");
  /* Becomes the parent of orphaned descendants, so that it can wait for their end. */
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) fail("prctl(PR_SET_CHILD_SUBREAPER)");
  pid_t self = getpid();
  pid_t program = fork();
  if (program < 0) fail("fork");
  if (program == 0) {
    /* The program must not keep a descriptor of the host's /proc. */
    close(all);
    run_program(&options, &filter, ruleset, self);
  }
  char name[16];
  snprintf(name, sizeof(name), "%d", program);
  struct processes processes = {.program = program, .directory = all, .uid = options.uid};
  if (!options.forks) {
    processes.uid = 0;
    processes.directory = openat(all, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    close(all);
  }
  close(ruleset);
  /* The real user id lets the caller signal the launcher; the effective one lets the launcher signal the program. */
  become(own == 0 ? options.uid : own, options.uid);
  die_with(caller, SIGTERM);
  for (int fd = 0; fd <= FRAMES_FD; fd++) close(fd);
  supervise(&options, &signals, &processes);
}

static void clean(int argc, char **argv) {
  struct options options = parse(argc, argv);
  if (!options.root) refuse("missing option: ", "root=");
  enter_root(options.root);
  become(options.uid, options.uid);
  empty_tmp();
}

static void end_all(int argc, char **argv) {
  struct options options = parse(argc, argv);
  become(options.uid, options.uid);
  if (kill(-1, SIGKILL) && errno != ESRCH) fail("kill");
}

static void check(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct has[2] = {{0}};
  const uint32_t needed = 1u << CAP_SYS_CHROOT | 1u << CAP_SETUID | 1u << CAP_SETGID;
  long abi = syscall(SYS_LANDLOCK_CREATE_RULESET, NULL, 0, 1);
  int known = !syscall(SYS_capget, &header, has);
  printf("landlock %ld capable %d\n", abi < 0 ? 0 : abi, known && (has[0].effective & needed) == needed);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "check")) check();
  else if (argc > 2 && !strcmp(argv[1], "run")) run(argc, argv);
  else if (argc > 2 && !strcmp(argv[1], "clean")) clean(argc, argv);
  else if (argc > 2 && !strcmp(argv[1], "end")) end_all(argc, argv);
  else refuse("usage: launcher check | run … | clean … | end …", "");
  return 0;
}
